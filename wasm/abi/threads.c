/* The calls of threads: only the binary that shares its memory exports them. */
#include "bindings.h"
#include "pool.h"

static pool threads;

/* Runs that are started from here on are shared by so many threads, 1 .. SS_WORKERS_MAX: the
 * caller's, and those that call pool_help on the same memory; of their jobs those of so many
 * multiplications. */
void ss_wasm_pool(int workers, uint32_t least) {
    pool_init(&threads, (size_t)workers, least);
    wasm_pool = &threads.face;
}

/* The life of thread 1, 2, .. on a stack of its own: it never returns. */
void ss_wasm_pool_help(int worker) {
    pool_help(&threads, (size_t)worker);
}

/* A thread has trapped: so will who waits for it. */
void ss_wasm_pool_break(void) {
    pool_break(&threads);
}
