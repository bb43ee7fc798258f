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
#define SS_LANES_MAX 16

/* Does piece i. No two pieces that are under way have the same lane, so what a job holds for each
 * lane is a piece's own for the while. */
typedef void ss_piece(const void *job, size_t i, size_t lane);

typedef struct ss_pool {
    size_t lanes;   /* pieces that can be under way, 1 .. SS_LANES_MAX; the caller does some */
    uint64_t least; /* multiplications that a job must have to be worth sharing */
    /* Does pieces 0 .. n-1, each once; returns when all are done. Not to be called in a piece. */
    void (*share)(struct ss_pool *pool, ss_piece *piece, const void *job, size_t n);
} ss_pool;

/* NULL is the pool of the caller's thread alone. */
static inline size_t ss_pool_lanes(const ss_pool *pool) {
    return pool ? pool->lanes : 1;
}

/* Does pieces 0 .. n-1 of a job of so many multiplications; those of a small one on lane 0. */
void ss_pool_run(ss_pool *pool, ss_piece *piece, const void *job, size_t n, uint64_t work);

#endif
