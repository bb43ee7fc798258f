/* Sampling: draws the next token from its logits. */
#ifndef SS_RUN_SAMPLE_H
#define SS_RUN_SAMPLE_H

#include <stdint.h>

/* Returns the id of the largest logit if temperature <= 0. Otherwise draws a token from
 * softmax(logits / temperature) over the top_k largest logits (all if top_k < 1 or > V), at the
 * point random / 2^32 of their summed probability. Ties go to the lower id, also at the cutoff.
 * logits: [V]. work: [V], overwritten. */
int ss_sample(const float *logits, int V, float temperature, int top_k, uint32_t random,
              float *work);

#endif
