/* Lets threads sleep on a word of memory and wake each other (a futex), which C11's atomics cannot
 * do. */
#ifndef SS_WASM_SLEEP_H
#define SS_WASM_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while the word has that value; may wake spuriously. Returns false after a second without a
 * wake. */
bool pool_sleep(_Atomic uint32_t *word, uint32_t value);

/* Wakes all threads that sleep on the word. */
void pool_wake(_Atomic uint32_t *word);

/* Traps, because a piece failed, or because a helper has not finished a piece for half a minute. */
_Noreturn void pool_abort(void);

#endif
