#include "pool.h"

void ss_pool_run(ss_pool *pool, ss_piece *piece, const void *job, size_t n, uint64_t work) {
    if (pool && n > 1 && work >= pool->min_work)
        pool->share(pool, piece, job, n);
    else
        for (size_t i = 0; i < n; i++) piece(job, i, 0);
}
