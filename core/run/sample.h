/* Sampling: the next token from its logits. */
#ifndef SS_RUN_SAMPLE_H
#define SS_RUN_SAMPLE_H

#include <stdint.h>

/*
 * temperature <= 0: the largest logit, the first of equals. Else a token is drawn from
 * softmax(logits / temperature) over the top_k largest logits (all if top_k < 1 or > V; of equals
 * at the cutoff the first ones), at the point random / 2^32 of their summed probability.
 * logits: [V]. work: [V], overwritten.
 */
int ss_sample(const float *logits, int V, float temperature, int top_k, uint32_t random,
              float *work);

#endif
