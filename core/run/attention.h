/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "maps.h"
#include "pass.h"

/*
 * Attends from rows [t0, t0+n) of layer l: the trace holds keys and values, pass->q the queries,
 * [n][H*K]. Writes the output of each head over its queries, and records the weights.
 */
void ss_attend(ss_pass *pass, int l, int t0, int n);

/* Recomputes rows [t, t+n) of a head's map from the queries and keys in the trace, to the bits
 * of the forward pass, and shows them to a reader, SS_MAP_ROWS at most at a time. */
void ss_attend_again(ss_pass *pass, ss_field_id field, int head, int t, int n, size_t worker,
                     ss_map_reader *read, void *context);

/* True if threads may compute the heads of every layer at the same time. */
bool ss_heads_are_independent(const ss_pass *pass);

/* x_i = cap tanh(x_i / cap) for n numbers; cap 0 changes nothing. */
void ss_soft_cap(float *x, float cap, size_t n);

#endif
