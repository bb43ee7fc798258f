/*
 * Random numbers that are the same in every build. The generator is splitmix64 (Steele, Lea, Flood
 * 2014), which hashes a counter that advances by the golden ratio. Each purpose has its own stream,
 * so that a batch depends only on seed and step, and a tensor's initial weights on seed and name.
 */
#ifndef SS_TRAIN_RANDOM_H
#define SS_TRAIN_RANDOM_H

#include "../math/scalar.h"

typedef struct ss_random {
    uint64_t counter;
} ss_random;

static inline uint64_t ss_random_hash(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline ss_random ss_random_stream(uint64_t seed, const char *purpose, uint64_t number) {
    uint64_t hash = ss_random_hash(seed + 0x9e3779b97f4a7c15u);
    for (; *purpose; purpose++) hash = ss_random_hash(hash ^ (uint64_t)(unsigned char)*purpose);
    return (ss_random){ss_random_hash(hash + number * 0x9e3779b97f4a7c15u)};
}

static inline uint64_t ss_random_bits(ss_random *random) {
    random->counter += 0x9e3779b97f4a7c15u;
    return ss_random_hash(random->counter);
}

/* Returns a uniform number in [0, 1). */
static inline double ss_random_uniform(ss_random *random) {
    return (double)(ss_random_bits(random) >> 11) * 0x1p-53;
}

/* Returns a uniform integer in 0 .. n-1; its bias, n 2^-53, is negligible. */
static inline int ss_random_below(ss_random *random, int n) {
    return (int)(ss_random_uniform(random) * (double)n);
}

/* Returns a standard normal number (Box & Muller 1958; the second of the pair is dropped). */
static inline double ss_random_normal(ss_random *random) {
    double radius = sqrt(-2.0 * ss_log(1.0 - ss_random_uniform(random)));
    return radius * ss_cos(6.283185307179586 * ss_random_uniform(random));
}

#endif
