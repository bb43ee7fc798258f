/*
 * What does a sink carry? How much attention ends on the first token, and how much of what a head
 * returns comes from there.
 *
 * First-token share: mean over queries of a_t1 (Qiu et al. 2025: "F-Attn"); it is alpha_1, beside
 * what even attention would give. The contribution of key 1 to what query t mixes is |A_t1| |v_1|
 * over the sum of |A_tj| |v_j| (specification, 1.7): a key may take all attention and give nothing.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

/* Queries, and keys, that are looked at together, on the stack. */
#define ROWS 64

static int least(int a, int b) {
    return a < b ? a : b;
}

/* parts[t] += |A_tj| |v_j| of keys [j0, j0 + ROWS), for the n queries from t0 on. */
static void add_parts(const ss_trace *trace, int l, int h, int t0, int n, int j0, double *parts) {
    const ss_arch *arch = &trace->model->arch;
    int group = l * arch->G + h / (arch->H / arch->G);
    float lengths[ROWS], sizes[ROWS];
    for (int j = 0; j < least(ROWS, trace->T - j0); j++) {
        const float *v = ss_row(trace, SS_FIELD_V, group, j0 + j);
        lengths[j] = sqrtf(ss_dot(v, v, (size_t)arch->K));
    }
    for (int t = 0; t < n; t++) {
        const float *row = ss_att_row(trace, l, h, t0 + t) + j0;
        int keys = least(ROWS, ss_row_end(trace, l, h, t0 + t) - j0);
        for (int j = 0; j < keys; j++) sizes[j] = fabsf(row[j]);
        if (keys > 0) parts[t] += (double)ss_dot(sizes, lengths, (size_t)keys);
    }
}

/* Mean over queries of the first token's part of sum_j |A_tj| |v_j|; NaN where a query mixes
 * nothing. A bias key's value counts among the others' nowhere: it is of no token. */
static float contribution(const ss_trace *trace, int l, int h, int T) {
    const ss_arch *arch = &trace->model->arch;
    const float *v = ss_row(trace, SS_FIELD_V, l * arch->G + h / (arch->H / arch->G), 0);
    double mean = 0.0, first = (double)sqrtf(ss_dot(v, v, (size_t)arch->K));
    for (int t0 = 0; t0 < T; t0 += ROWS) {
        double parts[ROWS] = {0};
        int n = least(ROWS, T - t0), end = ss_row_end(trace, l, h, t0 + n - 1);
        for (int j0 = 0; j0 < end; j0 += ROWS) add_parts(trace, l, h, t0, n, j0, parts);
        for (int t = 0; t < n; t++) {
            double own = fabs((double)*ss_att_row(trace, l, h, t0 + t)) * first;
            mean += parts[t] > 0.0 ? own / parts[t] / (double)T : (double)NAN;
        }
    }
    return (float)mean;
}

void ss_measure_contribution(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, contribution, out);
}

/* Mean over queries of the share that token 1 receives. */
static float first_share(const ss_trace *trace, int l, int h, int T) {
    bool absolute = ss_choice_of(trace, l, h)->operation->proxy == SS_PROXY_SHARE_ABS;
    double sum = 0.0;
    for (int t = 0; t < T; t++) {
        double weight = (double)*ss_att_row(trace, l, h, t);
        sum += (double)ss_share_factor(trace, l, h, t) * (absolute ? fabs(weight) : weight);
    }
    return (float)(sum / (double)T);
}

void ss_measure_first_share(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, first_share, out);
}

/* Does the cache of a head still hold token 1 at the last query? 1 or 0; 1 without an eviction. */
static float keeps_first(const ss_trace *trace, int l, int h, int T) {
    const float *gone = ss_row(trace, SS_FIELD_EVICTED, ss_head(trace, l, h), 0);
    return gone[0] < (float)T ? 0.0f : 1.0f;
}

void ss_measure_keeps_first(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, keeps_first, out);
}
