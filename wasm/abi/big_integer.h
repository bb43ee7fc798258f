/* Integers with enough bits to read and print every double exactly. */
#ifndef SS_ABI_BIG_INTEGER_H
#define SS_ABI_BIG_INTEGER_H

#include <stdint.h>

/* Number of 32-bit words: the smallest doubles need the most bits, 2547 for 2^53 * 5^1074. */
enum { WORDS = 80 };

/* An integer. Its lowest 32 bits come first; words from n on are zero. */
typedef struct big_integer {
    uint32_t words[WORDS];
    int n;
} big_integer;

/* Computes x = x * factor + term; the caller ensures that the result fits. */
static inline void multiply_add(big_integer *x, uint32_t factor, uint32_t term) {
    uint64_t carry = term;
    for (int i = 0; i < x->n; i++) {
        carry += (uint64_t)x->words[i] * factor;
        x->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) x->words[x->n++] = (uint32_t)carry;
}

/* Computes x = x / divisor, rounded down, and returns the remainder. */
static inline uint32_t divide(big_integer *x, uint32_t divisor) {
    uint64_t remainder = 0;
    for (int i = x->n; i-- > 0;) {
        remainder = remainder << 32 | x->words[i];
        x->words[i] = (uint32_t)(remainder / divisor);
        remainder %= divisor;
    }
    while (x->n > 0 && !x->words[x->n - 1]) x->n--;
    return (uint32_t)remainder;
}

#endif
