/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "maps.h"
#include "pass.h"

/*
 * Of rows [t0, t0+n) of layer l the trace holds keys and values, pass->q the queries, [n][H*K].
 * Writes the output of each head over its queries, and the weights to the trace.
 */
void ss_attend(ss_pass *pass, int l, int t0, int n);

/* Rows [t, t+n) of a map of a head as the pass computed them, from the queries and keys in the
 * trace, to a reader, SS_MAP_ROWS at most at a time. */
void ss_attend_again(ss_pass *pass, ss_field_id field, int head, int t, int n, size_t worker,
                     ss_map_reader *read, void *context);

/* Whether threads may compute the heads of every layer at a time. */
bool ss_heads_are_independent(const ss_pass *pass);

/* x_i = cap tanh(x_i / cap) for n numbers; cap 0: they stay. */
void ss_soft_cap(float *x, float cap, size_t n);

#endif
