/*
 * Where does attention go that every query can reach?
 *
 *     alpha_k = 1/(T-k+1) * sum_{i=k..T} P_ik        importance score of key k, 1-based
 *     Sink_k^eps = share of all heads with alpha_k > eps
 *
 * (Gu et al. 2025, section 3.2, equations 6 and 7; strictly greater, as in the authors' code.) The
 * query's own row counts. P are the weights, or their share of the row where rows do not sum to 1.
 */
#include "measures.h"

#include <math.h>
#include <string.h>

/* How close to eps a head must lie for bf16 arithmetic to have been able to flip it. */
#define NEAR 0.002

typedef float alpha_of(const ss_trace *trace, int head, int k, int T);

static void copy_alpha(const ss_trace *trace, const ss_metric_args *args, alpha_of *alpha,
                       float *out) {
    for (int head = 0; head < ss_heads(trace); head++)
        for (int k = 0; k < args->T; k++) *out++ = alpha(trace, head, k, args->T);
}

void ss_measure_alpha(const ss_trace *trace, const ss_metric_args *args, float *out) {
    copy_alpha(trace, args, ss_alpha_of, out);
}

void ss_measure_alpha_raw(const ss_trace *trace, const ss_metric_args *args, float *out) {
    copy_alpha(trace, args, ss_alpha_raw_of, out);
}

/*
 * If every query looked evenly at the n keys it sees: (H_T - H_{k-1}) / (T-k+1), k 1-based, where
 * it sees those before it. The queries before key k see it, too, where it is of a prefix. Windows
 * are not counted.
 */
void ss_measure_alpha_uniform(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    ss_mask mask = {0, INT_MAX, arch->prefix};
    int bias = arch->bias_key != SS_OWNER_NONE, first = ss_mask_end(&mask, 0, trace->T) + bias;
    double tail = 0.0; /* of the queries from k on, 1/n each */
    for (int k = args->T - 1; k >= 0; k--) {
        tail += 1.0 / (double)(ss_mask_end(&mask, k, trace->T) + bias);
        double before = k < arch->prefix ? (double)k / (double)first : 0.0;
        out[k] = (float)((tail + before) / ss_queries_of(&mask, args->T, k));
    }
}

/* 1 or 0; NaN where alpha is no number, which must not pass for "no sink". */
static float is_sink(float alpha, float eps) {
    return isnan(alpha) ? NAN : alpha > eps;
}

static float is_near(float alpha, float eps) {
    return isnan(alpha) ? NAN : fabs((double)alpha - (double)eps) < NEAR;
}

/* out[k] = number of heads whose alpha_k passes the test; floats count that far exactly. NaN where
 * the alpha of any head is. */
static void count_heads(const ss_trace *trace, const ss_metric_args *args, alpha_of *alpha,
                        float (*test)(float, float), float *out) {
    memset(out, 0, (size_t)args->T * sizeof *out);
    for (int head = 0; head < ss_heads(trace); head++)
        for (int k = 0; k < args->T; k++) out[k] += test(alpha(trace, head, k, args->T), args->eps);
}

static void sink_ratio(const ss_trace *trace, const ss_metric_args *args, alpha_of *alpha,
                       float *out) {
    count_heads(trace, args, alpha, is_sink, out);
    for (int k = 0; k < args->T; k++) out[k] /= (float)ss_heads(trace);
}

void ss_measure_sink_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    sink_ratio(trace, args, ss_alpha_of, out);
}

void ss_measure_sink_ratio_raw(const ss_trace *trace, const ss_metric_args *args, float *out) {
    sink_ratio(trace, args, ss_alpha_raw_of, out);
}

void ss_measure_near_eps(const ss_trace *trace, const ss_metric_args *args, float *out) {
    count_heads(trace, args, ss_alpha_of, is_near, out);
}

/* alpha_*: the authors' map has a row for the bias key too, which sees itself alone. NaN without.
 */
static float alpha_bias(const ss_trace *trace, int head, int T) {
    if (!ss_floats(trace, SS_FIELD_ATT_BIAS)) return NAN;
    double sum = 1.0;
    for (int t = 0; t < T; t++) sum += (double)ss_bias_share(trace, head, t);
    return (float)(sum / (double)(T + 1));
}

void ss_measure_alpha_bias(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, alpha_bias, out);
}

void ss_measure_sink_ratio_bias(const ss_trace *trace, const ss_metric_args *args, float *out) {
    float sinks = 0.0f;
    for (int head = 0; head < ss_heads(trace); head++)
        sinks += is_sink(alpha_bias(trace, head, args->T), args->eps);
    *out = sinks / (float)ss_heads(trace);
}
