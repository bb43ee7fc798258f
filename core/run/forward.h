/*
 * The forward pass: written once, for every family. A feature of an architecture is a small branch
 * here; no family is named.
 */
#ifndef SS_RUN_FORWARD_H
#define SS_RUN_FORWARD_H

#include "pass.h"

/* Cosine and sine of every angle of n positions: position times turn, rounded to float. */
void ss_find_angles(ss_angles *angles, const float *turns, float size, size_t pairs,
                    const int32_t *positions, int n);

/* The loss of the first new token at trace.T, from the logits that the last extension left. */
void ss_forward_begin(ss_pass *pass);

/*
 * The next piece of the run's pass: one layer of one chunk of rows, or the chunk's logits. The
 * chunk counts to trace.T when its logits are done. How many pieces are left.
 */
int ss_forward_step(ss_pass *pass);

#endif
