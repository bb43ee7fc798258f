/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "pass.h"
#include "statistics.h"

/* Returns 1 if the model has a bias key, which then comes before the keys of the tokens; else 0. */
static inline size_t ss_bias_keys(const ss_arch *arch) {
    return arch->bias_key != SS_OWNER_NONE;
}

/* Copies T rows after a bias key or its value if `bias` is 1; zeros if `bias_row` is NULL. */
void ss_prepend_bias_key(float *out, const float *bias_row, size_t bias, const float *rows,
                         size_t T, size_t width);

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
