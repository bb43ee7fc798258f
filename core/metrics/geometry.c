/*
 * Why do queries score the first key so high?
 *
 *     q_t . k_j = |q_t| * |k_j| * cos(q_t, k_j)
 *
 * after the position encoding and without the 1/sqrt(K) of the scores (Gu et al. 2025, section 3.3,
 * figure 2 bottom). Pairs with j > t, which the mask hides, are NaN.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

typedef struct pair {
    double dot, norms;
} pair;

static const float *vector_of(const ss_trace *trace, const float *field, int index, int t) {
    size_t K = (size_t)trace->model->arch.K, C = (size_t)trace->capacity;
    return field + ((size_t)index * C + (size_t)t) * K;
}

static pair pair_of(const ss_trace *trace, int l, int h, int t, int j) {
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K;
    const float *q = vector_of(trace, trace->q, l * arch->H + h, t);
    const float *k = vector_of(trace, trace->k, l * arch->G + h / (arch->H / arch->G), j);
    double q2 = (double)ss_dot(q, q, K), k2 = (double)ss_dot(k, k, K);
    return (pair){(double)ss_dot(q, k, K), sqrt(q2) * sqrt(k2)};
}

/* NaN where a vector is zero: it has no direction. */
static double cosine(pair p) {
    return p.norms > 0.0 ? p.dot / p.norms : (double)NAN;
}

static double product(pair p) {
    return p.dot;
}

static double norms(pair p) {
    return p.norms;
}

static void map(const ss_trace *trace, const ss_metric_args *args, double (*value)(pair),
                float *out) {
    for (int t = 0; t < args->T; t++)
        for (int j = 0; j < args->T; j++)
            *out++ = j > t ? NAN : (float)value(pair_of(trace, args->layer, args->head, t, j));
}

void ss_measure_qk_dot(const ss_trace *trace, const ss_metric_args *args, float *out) {
    map(trace, args, product, out);
}

void ss_measure_qk_cos(const ss_trace *trace, const ss_metric_args *args, float *out) {
    map(trace, args, cosine, out);
}

void ss_measure_qk_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    map(trace, args, norms, out);
}

/* mean_t cos(q_t, k_1) - mean_{t, 1 < j <= t} cos(q_t, k_j); NaN for T = 1. */
static float gap_of(const ss_trace *trace, int l, int h, int T) {
    double first = 0.0, others = 0.0;
    for (int t = 0; t < T; t++) {
        first += cosine(pair_of(trace, l, h, t, 0));
        for (int j = 1; j <= t; j++) others += cosine(pair_of(trace, l, h, t, j));
    }
    double pairs = (double)T * (double)(T - 1) / 2.0;
    return (float)(first / (double)T - others / pairs);
}

void ss_measure_cos_gap(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++) *out++ = gap_of(trace, l, h, args->T);
}
