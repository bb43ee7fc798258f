/* Random numbers for edits: hashes of a seed and two indices, so that they do not depend on the
 * order in which they are drawn. */
#ifndef SS_RUN_EDITS_RANDOM_H
#define SS_RUN_EDITS_RANDOM_H

#include <stdint.h>

static inline uint32_t ss_edit_hash(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Returns a number in [0, 1) from the seed, the head (layer * H + head) and an index. */
static inline float ss_edit_random(uint32_t seed, uint32_t head, uint32_t index) {
    return (float)(ss_edit_hash(ss_edit_hash(ss_edit_hash(seed) + head) + index) >> 8) /
           16777216.0f;
}

#endif
