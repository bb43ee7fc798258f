#include "pool.h"

#include "sleep.h"

/* Number of times that a thread reads a word before it sleeps. Most pauses between jobs are shorter
 * than the time that waking takes. */
#define READS_BEFORE_SLEEP 4000
/* Number of seconds without progress after which the pool is lost; a piece takes milliseconds. */
#define PATIENCE_SECONDS 30

static bool do_piece(pool *p, size_t worker) {
    uint64_t ticket = atomic_load(&p->ticket);
    do {
        if (!(uint32_t)ticket) return false;
    } while (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1));
    /* The job cannot change before this piece is done. */
    uint32_t pieces = p->pieces;
    p->piece(p->job, pieces - (uint32_t)ticket, worker);
    if (atomic_fetch_add(&p->finished_pieces, 1) + 1 == pieces && atomic_load(&p->poster_sleeps))
        pool_wake(&p->finished_pieces);
    return true;
}

static void wait_for_all(pool *p) {
    int silent_seconds = 0;
    for (int i = 0; i < READS_BEFORE_SLEEP; i++)
        if (atomic_load(&p->finished_pieces) == p->pieces) return;
    atomic_store(&p->poster_sleeps, true);
    for (uint32_t finished; (finished = atomic_load(&p->finished_pieces)) < p->pieces;) {
        if (atomic_load(&p->broken) || silent_seconds == PATIENCE_SECONDS) pool_abort();
        silent_seconds = pool_sleep(&p->finished_pieces, finished) ? 0 : silent_seconds + 1;
    }
    atomic_store(&p->poster_sleeps, false);
}

static void share(ss_pool *base, ss_piece *piece, const void *job, size_t n) {
    pool *p = (pool *)base;
    p->piece = piece;
    p->job = job;
    p->pieces = (uint32_t)n;
    atomic_store(&p->finished_pieces, 0);
    uint32_t posted_jobs = atomic_load(&p->posted_jobs) + 1;
    atomic_store(&p->ticket, (uint64_t)posted_jobs << 32 | (uint32_t)n);
    atomic_store(&p->posted_jobs, posted_jobs);
    if (atomic_load(&p->sleepers)) pool_wake(&p->posted_jobs);
    while (do_piece(p, 0)) continue;
    wait_for_all(p);
}

void pool_init(pool *p, size_t workers, uint64_t min_work) {
    *p = (pool){.base = {.workers = workers, .min_work = min_work, .share = share}};
}

void pool_help(pool *p, size_t worker) {
    while (!atomic_load(&p->closed)) {
        uint32_t posted_jobs = atomic_load(&p->posted_jobs);
        while (do_piece(p, worker)) continue;
        for (int i = 0; i < READS_BEFORE_SLEEP && atomic_load(&p->posted_jobs) == posted_jobs; i++)
            continue;
        if (atomic_load(&p->posted_jobs) != posted_jobs || atomic_load(&p->closed)) continue;
        atomic_fetch_add(&p->sleepers, 1);
        pool_sleep(&p->posted_jobs, posted_jobs);
        atomic_fetch_sub(&p->sleepers, 1);
    }
}

void pool_break(pool *p) {
    atomic_store(&p->broken, true);
    pool_wake(&p->finished_pieces);
}

void pool_close(pool *p) {
    atomic_store(&p->closed, true);
    atomic_fetch_add(&p->posted_jobs, 1);
    pool_wake(&p->posted_jobs);
}
