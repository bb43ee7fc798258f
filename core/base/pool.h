/*
 * Pool: a job in pieces, which threads may share that live outside the core.
 *
 * The core starts no thread. Who has some gives a run a pool; without one, a job's pieces are done
 * one after the other. Which thread does a piece, and when, shows in no number: a piece writes what
 * no other piece reads or writes, and adds in the order that it always has.
 */
#ifndef SS_BASE_POOL_H
#define SS_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

/* More threads gain nothing: they share one memory bus. */
#define SS_WORKERS_MAX 16

/* Does piece i. A worker does one piece at a time, so what a job holds for each worker belongs to
 * the piece for the while. */
typedef void ss_piece(const void *job, size_t i, size_t worker);

typedef struct ss_pool {
    size_t workers; /* 1 .. SS_WORKERS_MAX; the caller is worker 0 */
    uint64_t least; /* multiplications that a job must have to be worth sharing */
    /* Does pieces 0 .. n-1, each once; returns when all are done. Not to be called in a piece. */
    void (*share)(struct ss_pool *pool, ss_piece *piece, const void *job, size_t n);
} ss_pool;

/* NULL is the pool of the caller's thread alone. */
static inline size_t ss_pool_workers(const ss_pool *pool) {
    return pool ? pool->workers : 1;
}

/* Does pieces 0 .. n-1 of a job of so many multiplications; those of a small one on worker 0. */
void ss_pool_run(ss_pool *pool, ss_piece *piece, const void *job, size_t n, uint64_t work);

#endif
