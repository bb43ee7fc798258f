/* The border of threads: only the binary that shares its memory has it. */
#include "bindings.h"
#include "pool.h"

static pool threads;

/* Runs that are started from here on are shared by so many threads, 1 .. SS_LANES_MAX: the
 * caller's, and those that call pool_help on the same memory; of their jobs those of so many
 * multiplications. */
void ss_wasm_pool(int lanes, uint32_t least) {
    pool_init(&threads, (size_t)lanes, least);
    wasm_pool = &threads.face;
}

/* The life of thread 1, 2, .. on a stack of its own: it never returns. */
void ss_wasm_pool_help(int lane) {
    pool_help(&threads, (size_t)lane);
}

/* A thread has trapped: so will who waits for it. */
void ss_wasm_pool_break(void) {
    pool_break(&threads);
}
