/*
 * Why do queries score the first key so high?
 *
 *     q_t . k_j = |q_t| * |k_j| * cos(q_t, k_j)
 *
 * after the position encoding and without the 1/sqrt(K) of the scores (Gu et al. 2025, section 3.3,
 * figure 2 bottom). The numbers leave out positions that add to scores, and feature maps. Pairs
 * whose key j query t cannot see are NaN; windows are ignored.
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
    const float *k = ss_row(trace, SS_FIELD_K, ss_arch_group_row(&trace->model->arch, head), j);
    double q2 = (double)ss_dot(q, q, K), k2 = (double)ss_dot(k, k, K);
    return (pair){(double)ss_dot(q, k, K), sqrt(q2) * sqrt(k2)};
}

static double cosine(pair p) {
    return p.norms > 0.0 ? p.dot / p.norms : (double)NAN;
}

static double dot_product(pair p) {
    return p.dot;
}

static double norm_product(pair p) {
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
    write_map(trace, args, dot_product, out);
}

void ss_measure_qk_cos(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_map(trace, args, cosine, out);
}

void ss_measure_qk_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_map(trace, args, norm_product, out);
}

/* Returns mean_t cos(q_t, k_1) - mean_{t, j != 1} cos(q_t, k_j), j visible to t; NaN for T = 1 or
 * where a vector is zero and has no direction. run/statistics.h multiplies each query by the
 * first key and by the sum of the other keys' unit vectors, not by every key. */
float ss_measure_cos_gap(const ss_trace *trace, int head, int T) {
    const double *cosines = trace->statistics.cosines + 2 * (size_t)head;
    double pairs = 0.0;
    for (int t = 0; t < T; t++) {
        int end = ss_row_end(trace, head, t), visible_n = end < T ? end : T;
        pairs += (double)(visible_n - (visible_n > trace->first));
    }
    return pairs > 0.0 ? (float)(cosines[0] / (double)T - cosines[1] / pairs) : NAN;
}
