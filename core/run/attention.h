/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "maps.h"
#include "pass.h"

/*
 * Computes the attention of queries [t0, t0+n) in layer l: the trace holds keys and values, pass->q
 * the queries, [n][H*K]. Writes the output of each head over its queries, and records the weights.
 */
void ss_attend(ss_pass *pass, int l, int t0, int n);

/* Recomputes rows [t, t+n) of a head's map from the queries and keys in the trace, with the same
 * bits as in the forward pass, and passes them to a reader, at most SS_MAP_ROWS at a time. */
void ss_recompute_rows(ss_pass *pass, ss_field_id field, int head, int t, int n, size_t worker,
                       ss_map_reader *reader, void *context);

/* Returns true if threads may compute the heads of every layer at the same time. */
bool ss_heads_are_independent(const ss_pass *pass);

/* Replaces each of n numbers x_i by cap tanh(x_i / cap); a cap of 0 changes nothing. */
void ss_soft_cap(float *x, float cap, size_t n);

#endif
