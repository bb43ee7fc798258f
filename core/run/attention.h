/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "pass.h"

/*
 * Of rows [t0, t0+n) of layer l the trace holds keys and values, pass->q the queries, [n][H*K].
 * Writes the output of each head over its queries, and the weights to the trace.
 */
void ss_attend(ss_pass *pass, int l, int t0, int n);

/* x_i = cap tanh(x_i / cap) for n numbers; cap 0: they stay. */
void ss_soft_cap(float *x, float cap, size_t n);

#endif
