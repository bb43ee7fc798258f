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
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* Queries, and keys, that are looked at together, on the stack. */
#define ROWS 256

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How much of a head's key j there is to mix: |v_j|, or |W_O v_j|. */
static float length_of(const ss_trace *trace, ss_field_id field, int head, int j) {
    if (field == SS_FIELD_OUT_NORM) return *ss_row(trace, field, head, j);
    return ss_norm_of(trace, field, ss_group_of(trace, head), j, trace->model->arch.K);
}

/* What the n queries from t0 on mix of keys [j0, j0 + ROWS): parts[t] += their |A_tj| lengths. */
static void add_parts(const ss_trace *trace, ss_field_id field, int head, int t0, int n, int j0,
                      double *parts) {
    bool absolute = trace->choices[head].operation->proxy == SS_PROXY_SHARE_ABS;
    float lengths[ROWS], sizes[ROWS];
    for (int j = 0; j < least(ROWS, trace->T - j0); j++)
        lengths[j] = length_of(trace, field, head, j0 + j);
    for (int t = 0; t < n; t++) {
        const float *row = ss_att_row(trace, head, t0 + t) + j0;
        int keys = least(ROWS, ss_row_end(trace, head, t0 + t) - j0);
        for (int j = 0; absolute && j < keys; j++) sizes[j] = fabsf(row[j]);
        if (keys > 0) parts[t] += (double)ss_dot(absolute ? sizes : row, lengths, (size_t)keys);
    }
}

/* The mean over those queries that see key j of its part of what they mix; NaN where one mixes
 * nothing. */
static void add_shares(const ss_trace *trace, ss_field_id field, int head, int t0, int n, int T,
                       const double *parts, int j, float *out) {
    const ss_mask *mask = &trace->choices[head].mask;
    double sum = 0.0, length = (double)length_of(trace, field, head, j);
    for (int t = 0; t < n; t++) {
        if (j >= ss_row_end(trace, head, t0 + t)) continue;
        double own = fabs((double)ss_att_row(trace, head, t0 + t)[j]) * length;
        sum += parts[t] > 0.0 ? own / parts[t] : (double)NAN;
    }
    *out += (float)(sum / ss_queries_of(mask, T, j));
}

/* out[keys]: of `keys` keys of a head, from `first` on, each one's part of sum_j |A_tj| lengths_j.
 * The bias key is left out of the sum: it belongs to no token. */
static void contributions(const ss_trace *trace, ss_field_id field, int head, int T, int first,
                          int keys, float *out) {
    memset(out, 0, (size_t)keys * sizeof *out);
    for (int t0 = 0; t0 < T; t0 += ROWS) {
        double parts[ROWS] = {0};
        int n = least(ROWS, T - t0), end = ss_row_end(trace, head, t0 + n - 1);
        for (int j0 = 0; j0 < end; j0 += ROWS) add_parts(trace, field, head, t0, n, j0, parts);
        for (int j = first; j < least(first + keys, end); j++)
            add_shares(trace, field, head, t0, n, T, parts, j, &out[j - first]);
    }
}

static float contribution(const ss_trace *trace, int head, int T) {
    float first;
    if (trace->first >= T) return NAN;
    contributions(trace, SS_FIELD_V, head, T, trace->first, 1, &first);
    return first;
}

void ss_measure_contribution(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, contribution, out);
}

static void keys_piece(const void *shared, size_t head, size_t worker) {
    const ss_metric_job *job = shared;
    (void)worker;
    contributions(job->trace, job->field, (int)head, job->T, 0, job->T,
                  job->out + head * (size_t)job->T);
}

static void every_key(const ss_trace *trace, const ss_metric_args *args, ss_field_id field,
                      float *out) {
    ss_metric_job job = {.trace = trace, .T = args->T, .field = field, .out = out};
    ss_share_heads(&job, keys_piece);
}

void ss_measure_contribution_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    every_key(trace, args, SS_FIELD_V, out);
}

void ss_measure_contribution_out_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    every_key(trace, args, SS_FIELD_OUT_NORM, out);
}

/* The share that the first token receives, a mean over all queries, those before it included. */
void ss_measure_first_share(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const float *alpha = ss_find_statistic(trace, args->T, SS_ALPHA);
    int first = trace->first, T = args->T;
    for (int head = 0; head < ss_heads(trace); head++, alpha += T) {
        double queries = ss_queries_of(&trace->choices[head].mask, T, first);
        float given = first < T ? alpha[first] : NAN;
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
