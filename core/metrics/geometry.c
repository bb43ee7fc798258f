/*
 * Why do queries score the first key so high?
 *
 *     q_t . k_j = |q_t| * |k_j| * cos(q_t, k_j)
 *
 * after the position encoding and without the 1/sqrt(K) of the scores (Gu et al. 2025, section 3.3,
 * figure 2 bottom). They are those before positions add to scores and before a feature map. Pairs
 * with a j behind what t sees are NaN; windows are not counted.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

typedef struct pair {
    double dot, norms;
} pair;

static pair pair_of(const ss_trace *trace, int l, int h, int t, int j) {
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K;
    const float *q = ss_row(trace, SS_FIELD_Q, l * arch->H + h, t);
    const float *k = ss_row(trace, SS_FIELD_K, l * arch->G + h / (arch->H / arch->G), j);
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
            *out++ = j >= ss_row_end(trace, args->layer, args->head, t)
                         ? NAN
                         : (float)value(pair_of(trace, args->layer, args->head, t, j));
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

static double norm_of(const float *x, size_t K) {
    return sqrt((double)ss_dot(x, x, K));
}

/* Dims that are summed together, on the stack. */
#define DIMS 64

/* Of the first T keys, query t sees those before this. */
static int seen_of(const ss_trace *trace, int l, int h, int t, int T) {
    int end = ss_row_end(trace, l, h, t);
    return end < T ? end : T;
}

/* The gap's two sums over dims [d, d + n): q.k/|q||k| of every query with key 1, and with the
 * others that it sees. The keys' unit vectors are added up once, so each query meets one vector. */
static void add_cosines(const ss_trace *trace, int l, int h, int T, size_t d, size_t n,
                        double *first, double *others) {
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K;
    int g = l * arch->G + h / (arch->H / arch->G);
    const float *k1 = ss_row(trace, SS_FIELD_K, g, 0);
    double units[DIMS] = {0}, k1_norm = norm_of(k1, K);
    float near[DIMS];
    for (int t = 0, j = 1; t < T; t++) {
        for (; j < seen_of(trace, l, h, t, T); j++) {
            const float *k = ss_row(trace, SS_FIELD_K, g, j);
            ss_add_shares(units, k + d, 1.0 / norm_of(k, K), false, n);
        }
        const float *q = ss_row(trace, SS_FIELD_Q, l * arch->H + h, t);
        double q_norm = norm_of(q, K);
        for (size_t i = 0; i < n; i++) near[i] = (float)units[i];
        *first += (double)ss_dot(q + d, k1 + d, n) / (q_norm * k1_norm);
        *others += (double)ss_dot(q + d, near, n) / q_norm;
    }
}

/*
 * mean_t cos(q_t, k_1) - mean_{t, 1 < j} cos(q_t, k_j), j in sight of t; NaN for T = 1 or where a
 * vector is zero and has no direction.
 */
static float gap_of(const ss_trace *trace, int l, int h, int T) {
    size_t K = (size_t)trace->model->arch.K;
    double first = 0.0, others = 0.0, pairs = 0.0;
    for (int t = 0; t < T; t++) pairs += (double)(seen_of(trace, l, h, t, T) - 1);
    for (size_t d = 0; d < K; d += DIMS)
        add_cosines(trace, l, h, T, d, K - d < DIMS ? K - d : DIMS, &first, &others);
    return (float)(first / (double)T - others / pairs);
}

void ss_measure_cos_gap(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, gap_of, out);
}
