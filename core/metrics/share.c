/*
 * What does a sink carry? How much attention ends on the first token, and how much of what a head
 * returns comes from there.
 *
 * First-token share: mean over queries of a_t1 (Qiu et al. 2025: "F-Attn"); it is alpha_1, beside
 * what uniform attention would give. The contribution of key k to what query t mixes is |A_tk|
 * |v_k| over the sum of |A_tj| |v_j| (specification, 1.7), or of |A_tj| |W_O v_j|, what comes
 * through the head's part of W_O (Kobayashi et al. 2020): a key may take all attention and give
 * nothing. Means are over the queries that see the key, as alpha's are.
 */
#include "measures.h"

#include <math.h>

/* Key k's part of sum_j |A_tj| length_j, a mean over the queries that see it; NaN where one mixes
 * nothing. The bias key is left out of the sum: it belongs to no token. */
static float part_of(const ss_trace *trace, ss_field_id field, int head, int k, int T) {
    const ss_row_statistics *of = &trace->statistics;
    const double *sums = field == SS_FIELD_V ? of->values : of->outputs;
    double length = (double)ss_key_length(trace, field, head, k);
    double queries = ss_queries_of(&trace->choices[head].mask, T, k);
    return (float)(length * sums[ss_statistic_at(trace, head, k)] / queries);
}

static float contribution(const ss_trace *trace, int head, int T) {
    return trace->first < T ? part_of(trace, SS_FIELD_V, head, trace->first, T) : NAN;
}

void ss_measure_contribution(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, contribution, out);
}

static void every_key(const ss_trace *trace, const ss_metric_args *args, ss_field_id field,
                      float *out) {
    for (int head = 0; head < ss_heads(trace); head++)
        for (int k = 0; k < args->T; k++) *out++ = part_of(trace, field, head, k, args->T);
}

void ss_measure_contribution_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    every_key(trace, args, SS_FIELD_V, out);
}

void ss_measure_contribution_out_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    every_key(trace, args, SS_FIELD_OUT_NORM, out);
}

/* The share that the first token receives, a mean over all queries, those before it included. */
void ss_measure_first_share(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int first = trace->first, T = args->T;
    for (int head = 0; head < ss_heads(trace); head++) {
        double queries = ss_queries_of(&trace->choices[head].mask, T, first);
        float given = first < T ? ss_alpha_of(trace, head, first, T) : NAN;
        *out++ = queries < (double)T ? (float)((double)given * queries / (double)T) : given;
    }
}

/* Does the cache of a head still hold token 1 at the last query? 1 or 0; 1 without an eviction. */
static float keeps_first(const ss_trace *trace, int head, int T) {
    const float *gone = ss_row(trace, SS_FIELD_EVICTED, head, 0);
    return gone[0] < (float)T ? 0.0f : 1.0f;
}

void ss_measure_keeps_first(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, keeps_first, out);
}
