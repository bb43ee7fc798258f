/*
 * Why do queries score the first key so high?
 *
 *     q_t . k_j = |q_t| * |k_j| * cos(q_t, k_j)
 *
 * after the position encoding and without the 1/sqrt(K) of the scores (Gu et al. 2025, section 3.3,
 * figure 2 bottom). They exclude positions that add to scores, and feature maps. Pairs whose key j
 * query t cannot see are NaN; windows are ignored.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

typedef struct pair {
    double dot, norms;
} pair;

static pair pair_of(const ss_trace *trace, int head, int t, int j) {
    size_t K = (size_t)trace->model->arch.K;
    const float *q = ss_row(trace, SS_FIELD_Q, head, t);
    const float *k = ss_row(trace, SS_FIELD_K, ss_group_of(trace, head), j);
    double q2 = (double)ss_dot(q, q, K), k2 = (double)ss_dot(k, k, K);
    return (pair){(double)ss_dot(q, k, K), sqrt(q2) * sqrt(k2)};
}

/* Returns NaN for a zero vector, which has no direction. */
static double cosine(pair p) {
    return p.norms > 0.0 ? p.dot / p.norms : (double)NAN;
}

static double product(pair p) {
    return p.dot;
}

static double norms(pair p) {
    return p.norms;
}

static void write_map(const ss_trace *trace, const ss_metric_args *args, double (*value)(pair),
                      float *out) {
    int head = args->layer * trace->model->arch.H + args->head;
    for (int t = 0; t < args->T; t++)
        for (int j = 0; j < args->T; j++)
            *out++ =
                j >= ss_row_end(trace, head, t) ? NAN : (float)value(pair_of(trace, head, t, j));
}

void ss_measure_qk_dot(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_map(trace, args, product, out);
}

void ss_measure_qk_cos(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_map(trace, args, cosine, out);
}

void ss_measure_qk_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_map(trace, args, norms, out);
}

static double norm_of(const float *x, size_t K) {
    return sqrt((double)ss_dot(x, x, K));
}

/* The weighted sum of keys is computed this many dims at a time, on the stack. */
#define DIMS 256

/* keys[n] += part of dims d.. of the unit vector of k. */
static void add_direction(float *keys, const float *k, double part, size_t d, size_t n, size_t K) {
    float scale = (float)(part / norm_of(k, K));
    ss_times_columns(keys, &scale, k + d, 0, n, 1);
}

/* Returns how many of the first T keys query t sees. */
static int seen_of(const ss_trace *trace, int head, int t, int T) {
    int end = ss_row_end(trace, head, t);
    return end < T ? end : T;
}

/*
 * mean_t cos(q_t, k_1) - mean_{t, j != 1} cos(q_t, k_j), j visible to t; NaN for T = 1 or where a
 * vector is zero and has no direction. The keys' unit vectors are summed first, each weighted by
 * its part in the gap, so that each query is multiplied with one vector.
 */
static float gap_of(const ss_trace *trace, int head, int T) {
    size_t K = (size_t)trace->model->arch.K;
    int g = ss_group_of(trace, head);
    const float *first = ss_row(trace, SS_FIELD_K, g, trace->first);
    double gap = 0.0, pairs = 0.0;
    for (int t = 0; t < T; t++) {
        int seen = seen_of(trace, head, t, T);
        pairs += (double)(seen - (seen > trace->first));
    }
    for (size_t d = 0; d < K; d += DIMS) {
        size_t n = K - d < DIMS ? K - d : DIMS;
        float keys[DIMS] = {0};
        for (int t = 0, j = 0; t < T; t++) {
            if (t == 0) add_direction(keys, first, 1.0 / (double)T, d, n, K);
            for (; j < seen_of(trace, head, t, T); j++)
                if (j != trace->first)
                    add_direction(keys, ss_row(trace, SS_FIELD_K, g, j), -1.0 / pairs, d, n, K);
            const float *q = ss_row(trace, SS_FIELD_Q, head, t);
            gap += (double)ss_dot(q + d, keys, n) / norm_of(q, K);
        }
    }
    return pairs > 0.0 ? (float)gap : NAN;
}

void ss_measure_cos_gap(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, gap_of, out);
}
