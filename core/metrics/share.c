/*
 * What does a sink carry: how much attention goes to the first token, and how much of a head's
 * output comes from its value?
 *
 * The first-token share is the mean of a_t1 over queries (Qiu et al. 2025: "F-Attn"), which equals
 * alpha_1. The contribution of key k to the output of query t is |A_tk| |v_k| / sum_j |A_tj|
 * |v_j|, or the same share with |W_O v_j|, the norm of the value after the head's part of W_O
 * (Kobayashi et al. 2020). A key can receive all attention and contribute nothing. Like alpha, the
 * mean is over the queries that see the key.
 */
#include "measures.h"

#include <math.h>

/* Returns key k's share of sum_j |A_tj| length_j, averaged over the queries that see key k; NaN if
 * one of the sums is zero. The sum leaves out the bias key, which belongs to no token. */
static float key_share(const ss_trace *trace, ss_field_id field, int head, int k, int T) {
    const ss_row_statistics *statistics = &trace->statistics;
    const double *sums = field == SS_FIELD_V ? statistics->values : statistics->outputs;
    double length = (double)ss_key_length(trace, field, head, k);
    double queries = ss_queries_of(&trace->choices[head].mask, T, k);
    return (float)(length * sums[ss_statistic_index(trace, head, k)] / queries);
}

float ss_measure_contribution(const ss_trace *trace, int head, int T) {
    return trace->first < T ? key_share(trace, SS_FIELD_V, head, trace->first, T) : NAN;
}

float ss_measure_contribution_at(const ss_trace *trace, int head, int k, int T) {
    return key_share(trace, SS_FIELD_V, head, k, T);
}

float ss_measure_contribution_out_at(const ss_trace *trace, int head, int k, int T) {
    return key_share(trace, SS_FIELD_OUT_NORM, head, k, T);
}

/* Measures the share that the first token receives: the mean over all queries, including those
 * before the first token. */
float ss_measure_first_share(const ss_trace *trace, int head, int T) {
    double queries = ss_queries_of(&trace->choices[head].mask, T, trace->first);
    float share = trace->first < T ? ss_measure_alpha(trace, head, trace->first, T) : NAN;
    return queries < (double)T ? (float)((double)share * queries / (double)T) : share;
}

float ss_measure_keeps_first(const ss_trace *trace, int head, int T) {
    const float *evicted = ss_row(trace, SS_FIELD_EVICTED, head, 0);
    return evicted[0] < (float)T ? 0.0f : 1.0f;
}
