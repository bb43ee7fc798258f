/* Sleeps and wakes with the atomic instructions of wasm. */
#include "sleep.h"

bool pool_sleep(_Atomic uint32_t *word, uint32_t value) {
    enum { TIMED_OUT = 2 };
    const long long second = 1000000000;
    return __builtin_wasm_memory_atomic_wait32((int *)word, (int)value, second) != TIMED_OUT;
}

void pool_wake(_Atomic uint32_t *word) {
    __builtin_wasm_memory_atomic_notify((int *)word, UINT32_MAX);
}

_Noreturn void pool_abort(void) {
    __builtin_trap();
}
