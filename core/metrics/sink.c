/*
 * Which keys collect attention from the queries that see them?
 *
 *     alpha_k = 1/(T-k+1) * sum_{i=k..T} P_ik        importance score of key k, 1-based
 *     Sink_k^eps = share of all heads with alpha_k > eps
 *
 * (Gu et al. 2025, section 3.2, equations 6 and 7; strictly greater, as in the authors' code.) A
 * query's own key counts, and a bias key is one key more. P is the weight, or its share of the row
 * where rows do not sum to 1.
 */
#include "measures.h"

#include <math.h>
#include <string.h>

/* An alpha_k this close to eps might be on its other side in bf16 arithmetic. */
#define NEAR_EPS 0.002

typedef float alpha_function(const ss_trace *trace, int head, int k, int T);

/* Measures alpha_k of uniform attention over the n keys that a query sees: (H_T - H_{k-1}) /
 * (T-k+1), k 1-based, under a causal mask. Inside a prefix earlier queries see key k, too. Windows
 * are ignored. */
void ss_measure_alpha_uniform(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    ss_mask mask = {0, INT_MAX, arch->prefix};
    int bias = arch->bias_key != SS_OWNER_NONE, first = ss_mask_end(&mask, 0, trace->T) + bias;
    double tail = 0.0; /* sum of 1/n over the queries from k on */
    for (int k = args->T - 1; k >= 0; k--) {
        tail += 1.0 / (double)(ss_mask_end(&mask, k, trace->T) + bias);
        double prefix_sum = k < arch->prefix ? (double)k / (double)first : 0.0;
        out[k] = (float)((tail + prefix_sum) / ss_queries_of(&mask, args->T, k));
    }
}

/* Returns 1 if alpha exceeds eps, else 0; NaN for NaN, which must not count as "no sink". */
static float is_sink(float alpha, float eps) {
    return isnan(alpha) ? NAN : alpha > eps;
}

static float is_near_eps(float alpha, float eps) {
    return isnan(alpha) ? NAN : fabs((double)alpha - (double)eps) < NEAR_EPS;
}

/* Writes to out[k] how many heads have an alpha_k that passes the test, a number that a float holds
 * exactly; NaN where the alpha of any head is NaN. */
static void count_heads(const ss_trace *trace, const ss_metric_args *args, alpha_function *alpha,
                        float (*test)(float, float), float *out) {
    memset(out, 0, (size_t)args->T * sizeof *out);
    for (int head = 0; head < ss_heads(trace); head++)
        for (int k = 0; k < args->T; k++) out[k] += test(alpha(trace, head, k, args->T), args->eps);
}

static void write_sink_ratio(const ss_trace *trace, const ss_metric_args *args,
                             alpha_function *alpha, float *out) {
    count_heads(trace, args, alpha, is_sink, out);
    for (int k = 0; k < args->T; k++) out[k] /= (float)ss_heads(trace);
}

void ss_measure_sink_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_sink_ratio(trace, args, ss_measure_alpha, out);
}

void ss_measure_sink_ratio_raw(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_sink_ratio(trace, args, ss_measure_alpha_raw, out);
}

void ss_measure_near_eps(const ss_trace *trace, const ss_metric_args *args, float *out) {
    count_heads(trace, args, ss_measure_alpha, is_near_eps, out);
}

/* Returns alpha_* of the bias key; NaN if there is none. The authors' map has one more row, for the
 * bias key as a query, which sees only itself: its weight of 1 counts in the mean. */
float ss_measure_alpha_bias(const ss_trace *trace, int head, int T) {
    if (!ss_floats(trace, SS_FIELD_ATT_BIAS)) return NAN;
    double sum = 1.0;
    for (int t = 0; t < T; t++) sum += (double)ss_bias_share(trace, head, t);
    return (float)(sum / (double)(T + 1));
}

void ss_measure_sink_ratio_bias(const ss_trace *trace, const ss_metric_args *args, float *out) {
    float sinks = 0.0f;
    for (int head = 0; head < ss_heads(trace); head++)
        sinks += is_sink(ss_measure_alpha_bias(trace, head, args->T), args->eps);
    *out = sinks / (float)ss_heads(trace);
}
