/* Rotary positions: the frequency of each pair of a head's dimensions, and its angles. */
#ifndef SS_MODEL_ROTARY_H
#define SS_MODEL_ROTARY_H

#include "arch.h"

/* Writes the radians per position of the pairs (j, j + width/2) to out[width/2]. */
void ss_rotary_frequencies(float *out, const ss_rotary *rotary, int width);

/* Returns the factor by which YaRN scales rotated vectors; it grows with `slope`. */
double ss_yarn_attention_factor(const ss_rotary *rotary, double slope);

/* Cosine and sine of the rotary angles of n positions, multiplied by ss_rotary.attention_factor. */
typedef struct ss_angles {
    float *cosine, *sine; /* [n][width/2] */
} ss_angles;

/* Computes cosine and sine of n positions' angles: position times frequency, as float. */
void ss_rotary_angles(ss_angles *angles, const float *frequencies, float factor, size_t pairs,
                      const int32_t *positions, int n);

#endif
