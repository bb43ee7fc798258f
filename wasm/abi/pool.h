/*
 * The pool of threads: who is idle takes the next piece of the job that is posted.
 *
 * No thread waits for one that has taken nothing, so one that is late, or gone, only leaves more
 * for the others. It is plain C11 but for sleep.h, which each program that links it
 * defines: in wasm sleep.c does, in tests pthreads.
 */
#ifndef SS_WASM_POOL_H
#define SS_WASM_POOL_H

#include "../../core/base/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct pool {
    ss_pool face;
    ss_piece *piece;
    const void *job;
    _Atomic uint64_t ticket; /* of the posted job: pieces that no worker has taken; in the upper 32
                                bits, its number */
    _Atomic uint32_t posted; /* jobs so far: what helpers sleep on */
    _Atomic uint32_t asleep; /* of them, at most */
    _Atomic uint32_t done;   /* pieces: what the poster sleeps on, when it has nothing else to do */
    uint32_t pieces;         /* of the job */
    _Atomic bool waits;      /* the poster sleeps */
    _Atomic bool broken;     /* a piece will never be done */
    _Atomic bool closed;
} pool;

/* A pool of so many workers; all but the first need a thread that helps. */
void pool_init(pool *p, size_t workers, uint64_t least);

/* A thread's life as worker 1, 2, ..: it does pieces until the pool is closed. */
void pool_help(pool *p, size_t worker);

/* A helper could not end its piece. */
void pool_break(pool *p);

/* Sends all helpers home. */
void pool_close(pool *p);

#endif
