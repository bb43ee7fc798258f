/*
 * The thread pool: an idle thread takes the next piece of the posted job.
 *
 * No thread waits for a thread without a piece, so a thread that is late or dead only leaves more
 * work to the others. The code is C11 except for sleep.h, which each program implements: sleep.c in
 * wasm, pthreads in tests.
 */
#ifndef SS_WASM_POOL_H
#define SS_WASM_POOL_H

#include "../../core/base/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct pool {
    ss_pool base;
    ss_piece *piece;
    const void *job;
    _Atomic uint64_t ticket; /* lower 32 bits: number of pieces of the posted job that no worker has
                                taken; upper 32 bits: number of the job */
    _Atomic uint32_t posted_jobs;     /* idle helpers sleep on this word */
    _Atomic uint32_t sleepers;        /* upper bound on the number of sleeping helpers */
    _Atomic uint32_t finished_pieces; /* the poster sleeps on this word */
    uint32_t pieces;
    _Atomic bool poster_sleeps;
    _Atomic bool broken; /* a piece will never finish */
    _Atomic bool closed;
} pool;

/* Initializes a pool of `workers`, all but the first in a thread that calls pool_help. */
void pool_init(pool *p, size_t workers, uint64_t min_work);

/* Runs pieces as worker 1, 2, .. until the pool is closed; called by each helper's thread. */
void pool_help(pool *p, size_t worker);

/* Reports that a helper could not finish its piece. */
void pool_break(pool *p);

/* Ends all helpers. */
void pool_close(pool *p);

#endif
