/* Functions for threads, which only the binaries with shared memory export. */
#include "bindings.h"
#include "pool.h"

static pool threads;

/* Shares later runs among `workers` threads, 1 .. SS_WORKERS_MAX: the caller, and threads on the
 * same memory that run ss_wasm_pool_help. A job with fewer than `min_work` multiplications is not
 * shared. */
void ss_wasm_pool(int workers, uint32_t min_work) {
    pool_init(&threads, (size_t)workers, min_work);
    wasm_pool = &threads.base;
}

/* Runs pieces as worker 1, 2, .. on the thread's own stack; never returns. */
void ss_wasm_pool_help(int worker) {
    pool_help(&threads, (size_t)worker);
}

/* Reports that a thread has trapped, so that threads that wait for it trap, too. */
void ss_wasm_pool_break(void) {
    pool_break(&threads);
}
