/* One layer's feed-forward over a chunk of rows, experts included. Private to run/. */
#ifndef SS_RUN_FFN_H
#define SS_RUN_FFN_H

#include "pass.h"

/*
 * out[n][D] = FFN(pass->y) for n rows. With experts, pass->router holds the weight of each,
 * [n][E], exact zeros for those outside the top_k.
 */
void ss_feed_forward(ss_pass *pass, float *out, int l, int n);

/* x[n] = activation(x), for activations without a gate; not SiLU. */
void ss_activate(float *x, ss_activation activation, size_t n);

#endif
