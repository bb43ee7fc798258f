/* Whole numbers of as many bits as any double needs, for reading and printing them exactly. */
#ifndef SS_ABI_BIG_INTEGER_H
#define SS_ABI_BIG_INTEGER_H

#include <stdint.h>

/* 2^53 * 5^1074, which bounds what the smallest double needs, has 2547 bits. */
enum { WORDS = 80 };

/* The lowest 32 bits first; those from n on are zero. */
typedef struct whole {
    uint32_t words[WORDS];
    int n;
} whole;

/* x = x * factor + more; the caller has proved that it fits. */
static inline void multiply_add(whole *x, uint32_t factor, uint32_t more) {
    uint64_t carry = more;
    for (int i = 0; i < x->n; i++) {
        carry += (uint64_t)x->words[i] * factor;
        x->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) x->words[x->n++] = (uint32_t)carry;
}

/* x = x / divisor, rounded down; returns what is left over. */
static inline uint32_t divide(whole *x, uint32_t divisor) {
    uint64_t left = 0;
    for (int i = x->n; i-- > 0;) {
        left = left << 32 | x->words[i];
        x->words[i] = (uint32_t)(left / divisor);
        left %= divisor;
    }
    while (x->n > 0 && !x->words[x->n - 1]) x->n--;
    return (uint32_t)left;
}

#endif
