/*
 * Where does attention go that every query can reach?
 *
 *     alpha_k = 1/(T-k+1) * sum_{i=k..T} P_ik        importance score of key k, 1-based
 *     Sink_k^eps = share of all heads with alpha_k > eps
 *
 * (Gu et al. 2025, section 3.2, equations 6 and 7; strictly greater, as in the authors' code.) The
 * query's own row counts. P are the weights, or their share of the row where rows do not sum to 1.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* Columns summed together in doubles, on the stack. */
#define COLUMNS 64

/* How close to eps a head must lie for bf16 arithmetic to have been able to flip it. */
#define NEAR 0.002

static int block_end(int T, int k0) {
    return T - k0 < COLUMNS ? T - k0 : COLUMNS;
}

/* out[c] = alpha of key k0 + c of one head, for one block of columns; raw keeps the weights. */
static void alpha_block(const ss_trace *trace, int l, int h, int T, bool raw, int k0,
                        float out[COLUMNS]) {
    const ss_choice *choice = ss_choice_of(trace, l, h);
    bool absolute = !raw && choice->operation->proxy == SS_PROXY_SHARE_ABS;
    double sums[COLUMNS] = {0};
    int end = block_end(T, k0);
    for (int i = k0 < choice->mask.prefix ? 0 : k0; i < T; i++) {
        const float *row = ss_att_row(trace, l, h, i);
        double factor = raw ? 1.0 : (double)ss_share_factor(trace, l, h, i);
        int seen = ss_row_end(trace, l, h, i) - k0;
        if (seen > 0)
            ss_add_shares(sums, row + k0, factor, absolute, (size_t)(seen < end ? seen : end));
    }
    for (int c = 0; c < end; c++)
        out[c] = (float)(sums[c] / ss_queries_of(&choice->mask, T, k0 + c));
}

static void alpha_all(const ss_trace *trace, int T, bool raw, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++, out += T)
            for (int k0 = 0; k0 < T; k0 += COLUMNS) {
                float alpha[COLUMNS];
                alpha_block(trace, l, h, T, raw, k0, alpha);
                memcpy(out + k0, alpha, (size_t)block_end(T, k0) * sizeof *out);
            }
}

void ss_measure_alpha(const ss_trace *trace, const ss_metric_args *args, float *out) {
    alpha_all(trace, args->T, false, out);
}

void ss_measure_alpha_raw(const ss_trace *trace, const ss_metric_args *args, float *out) {
    alpha_all(trace, args->T, true, out);
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
static void count_heads(const ss_trace *trace, const ss_metric_args *args, bool raw,
                        float (*test)(float, float), float *out) {
    const ss_arch *arch = &trace->model->arch;
    int T = args->T;
    memset(out, 0, (size_t)T * sizeof *out);
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            for (int k0 = 0; k0 < T; k0 += COLUMNS) {
                float alpha[COLUMNS];
                alpha_block(trace, l, h, T, raw, k0, alpha);
                for (int c = 0; c < block_end(T, k0); c++) out[k0 + c] += test(alpha[c], args->eps);
            }
}

static void sink_ratio(const ss_trace *trace, const ss_metric_args *args, bool raw, float *out) {
    count_heads(trace, args, raw, is_sink, out);
    float heads = (float)(trace->model->arch.L * trace->model->arch.H);
    for (int k = 0; k < args->T; k++) out[k] /= heads;
}

void ss_measure_sink_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    sink_ratio(trace, args, false, out);
}

void ss_measure_sink_ratio_raw(const ss_trace *trace, const ss_metric_args *args, float *out) {
    sink_ratio(trace, args, true, out);
}

/* alpha_*: the authors' map has a row for the bias key too, which sees itself alone. NaN without.
 */
static float alpha_bias(const ss_trace *trace, int l, int h, int T) {
    if (!ss_floats(trace, SS_FIELD_ATT_BIAS)) return NAN;
    bool absolute = ss_choice_of(trace, l, h)->operation->proxy == SS_PROXY_SHARE_ABS;
    double sum = 1.0;
    for (int t = 0; t < T; t++) {
        double weight = (double)ss_bias_weight(trace, l, h, t);
        sum += (double)ss_share_factor(trace, l, h, t) * (absolute ? fabs(weight) : weight);
    }
    return (float)(sum / (double)(T + 1));
}

void ss_measure_alpha_bias(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, alpha_bias, out);
}

void ss_measure_sink_ratio_bias(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    int heads = arch->L * arch->H;
    float sinks = 0.0f;
    for (int i = 0; i < heads; i++)
        sinks += is_sink(alpha_bias(trace, i / arch->H, i % arch->H, args->T), args->eps);
    *out = sinks / (float)heads;
}

void ss_measure_near_eps(const ss_trace *trace, const ss_metric_args *args, float *out) {
    count_heads(trace, args, false, is_near, out);
}
