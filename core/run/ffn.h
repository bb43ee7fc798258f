/* One layer's feed-forward over a chunk of rows, experts included. Private to run/. */
#ifndef SS_RUN_FFN_H
#define SS_RUN_FFN_H

#include "pass.h"

/* Computes out[n][D] = FFN(pass->y) for n rows. With experts, pass->router[n][E] then holds the
 * weight of each expert, which is exactly zero outside the top_k. */
void ss_feed_forward(ss_pass *pass, float *out, int l, int n);

/* Applies GELU, its tanh form, ReLU or ReLU2 to x[n]; callers handle the other activations. */
void ss_activate(float *x, ss_activation activation, size_t n);

#endif
