/*
 * Random numbers of our own, the same in every build.
 *
 * splitmix64 (Steele, Lea, Flood 2014): a counter in steps of the golden ratio, mixed. A stream is
 * named by its use, so that a batch depends on seed and step alone, and a tensor's first
 * numbers on seed and name.
 */
#ifndef SS_TRAIN_RANDOM_H
#define SS_TRAIN_RANDOM_H

#include "../math/scalar.h"

typedef struct ss_random {
    uint64_t at;
} ss_random;

static inline uint64_t ss_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The stream `number` of those of one purpose and seed. */
static inline ss_random ss_random_stream(uint64_t seed, const char *purpose, uint64_t number) {
    uint64_t at = ss_mix(seed + 0x9e3779b97f4a7c15u);
    for (; *purpose; purpose++) at = ss_mix(at ^ (uint64_t)(unsigned char)*purpose);
    return (ss_random){ss_mix(at + number * 0x9e3779b97f4a7c15u)};
}

static inline uint64_t ss_random_bits(ss_random *random) {
    random->at += 0x9e3779b97f4a7c15u;
    return ss_mix(random->at);
}

/* Even over [0, 1). */
static inline double ss_random_even(ss_random *random) {
    return (double)(ss_random_bits(random) >> 11) * 0x1p-53;
}

/* Even over 0 .. n-1; the bias, n 2^-53, is none that anybody could see. */
static inline int ss_random_below(ss_random *random, int n) {
    return (int)(ss_random_even(random) * (double)n);
}

/* Normal, mean 0 and deviation 1 (Box & Muller 1958; of the pair one is used). */
static inline double ss_random_normal(ss_random *random) {
    double size = sqrt(-2.0 * ss_log(1.0 - ss_random_even(random)));
    return size * ss_cos(6.283185307179586 * ss_random_even(random));
}

#endif
