/* The border of threads: only the binary that shares its memory has it. */
#include "bindings.h"
#include "pool.h"

static pool threads;

bool pool_sleep(_Atomic uint32_t *word, uint32_t value) {
    enum { TIMED_OUT = 2 };
    const long long second = 1000000000;
    return __builtin_wasm_memory_atomic_wait32((int *)word, (int)value, second) != TIMED_OUT;
}

void pool_wake(_Atomic uint32_t *word) {
    __builtin_wasm_memory_atomic_notify((int *)word, UINT32_MAX);
}

_Noreturn void pool_lost(void) {
    __builtin_trap();
}

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
