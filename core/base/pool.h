/*
 * Pool: a job in pieces, which threads outside the core may share.
 *
 * The core starts no thread. A caller with threads gives a run a pool; without one the pieces run
 * in order. No result depends on which thread runs a piece, or when: a piece writes memory that no
 * other piece uses, and its sums have a fixed order.
 */
#ifndef SS_BASE_POOL_H
#define SS_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

/* The upper limit of workers: more threads would not be faster, since all share one memory bus. */
#define SS_WORKERS_MAX 16

/* Runs piece i. A worker runs one piece at a time, so the piece may use the memory that the job
 * holds for that worker. */
typedef void ss_piece(const void *job, size_t i, size_t worker);

typedef struct ss_pool {
    size_t workers;    /* 1 .. SS_WORKERS_MAX; the caller is worker 0 */
    uint64_t min_work; /* a job with fewer multiplications is not shared */
    /* Runs pieces 0 .. n-1, each once, and returns when all are done. None may call share(). */
    void (*share)(struct ss_pool *pool, ss_piece *piece, const void *job, size_t n);
} ss_pool;

/* Returns the number of workers; without a pool it is 1, the caller's thread. */
static inline size_t ss_pool_workers(const ss_pool *pool) {
    return pool ? pool->workers : 1;
}

/* Runs pieces 0 .. n-1 of a job of `work` multiplications; worker 0 runs small jobs alone. */
void ss_pool_run(ss_pool *pool, ss_piece *piece, const void *job, size_t n, uint64_t work);

#endif
