/* How threads wait for each other: the part of a thread pool that C11 has no words for. */
#ifndef SS_WASM_SLEEP_H
#define SS_WASM_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The caller sleeps while the word has that value, and may wake for no reason. False: no
 * thread has woken it for a second. */
bool pool_sleep(_Atomic uint32_t *word, uint32_t value);

/* Wakes all who sleep on the word. */
void pool_wake(_Atomic uint32_t *word);

/* A piece was broken off, or a helper has kept one for half a minute: the job cannot be saved. */
_Noreturn void pool_lost(void);

#endif
