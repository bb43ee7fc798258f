/* The forward pass: one implementation for all families. It branches on features of the
 * architecture, never on a family. */
#ifndef SS_RUN_FORWARD_H
#define SS_RUN_FORWARD_H

#include "pass.h"

/* Records the loss of the first new token, trace.T, from the last extension's logits. */
void ss_forward_begin(ss_pass *pass);

/* Computes the logits after the last token from the recorded hidden state of that token. */
void ss_forward_next(ss_pass *pass);

/* Computes the next piece of the pass: one layer of one chunk of rows, or the chunk's logits.
 * trace.T grows when a chunk's logits are done. Returns the number of remaining pieces. */
int ss_forward_step(ss_pass *pass);

/* The backward pass (train/back) computes the following steps again. */

/* Norms rows x[n][width] by the architecture's kind of norm; out may be x. */
void ss_norm_vectors(float *out, const float *x, const ss_norm *norm, const ss_arch *arch, size_t n,
                     size_t width);

/* Multiplies the vectors [n][U] of gated heads by their gates [n][gate width]. */
void ss_multiply_by_gates(float *rows, const float *gates, const ss_arch *arch, size_t n);

/* Adds the value biases of a layer, if it has any, to head outputs [n][H][U]. */
void ss_add_value_biases(float *out, const ss_layer *layer, const ss_arch *arch, size_t n,
                         size_t U);

/* Sums the head outputs [n][H][U] of each row into [n][U], in place. */
void ss_add_heads(float *out, const ss_arch *arch, size_t n);

#endif
