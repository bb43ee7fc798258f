/*
 * How much does a query attend, and how evenly?
 *
 * Row mass: the sum of a query's weights for tokens; 1 for operations that normalise and have no
 * bias key, and what the proxy of sink scores hides for those that do not. Entropy: -sum P ln P
 * over the n keys in sight, a bias key among them, divided by ln n; 0 for the first query, as in
 * Guo et al. 2024 (active-dormant heads), whose one key leaves nothing open. NaN for a row without
 * any mass.
 */
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>

static float mass_of(const ss_trace *trace, int l, int h, int t) {
    return ss_sum(ss_att_row(trace, l, h, t), (size_t)ss_row_end(trace, l, h, t));
}

void ss_measure_row_mass(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            for (int t = 0; t < args->T; t++) *out++ = mass_of(trace, l, h, t);
}

void ss_measure_row_mass_summary(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++, out += 3) {
            double sum = 0.0;
            float low = INFINITY, high = -INFINITY;
            for (int t = 0; t < args->T; t++) {
                float mass = mass_of(trace, l, h, t);
                sum += (double)mass;
                low = mass < low ? mass : low;
                high = mass > high ? mass : high;
            }
            out[0] = (float)(sum / (double)args->T);
            out[1] = low;
            out[2] = high;
        }
}

/* Does a row, or its bias key, have any weight? */
static bool has_mass(const float *row, int end, float bias) {
    bool found = bias != 0.0f;
    for (int j = 0; j < end && !found; j++) found = row[j] != 0.0f;
    return found;
}

static float row_entropy(const ss_trace *trace, int l, int h, int t) {
    const float *row = ss_att_row(trace, l, h, t);
    float factor = ss_share_factor(trace, l, h, t), bias = ss_bias_weight(trace, l, h, t);
    float count = *ss_row(trace, SS_FIELD_SEEN, ss_head(trace, l, h), t);
    int end = ss_row_end(trace, l, h, t);
    if (!has_mass(row, end, bias)) return NAN;
    double entropy = ss_entropy(row, factor, (size_t)end);
    if (bias != 0.0f) entropy += ss_entropy(&bias, factor, 1);
    return count == 1.0f ? 0.0f : (float)(entropy / (double)ss_logf(count));
}

void ss_measure_entropy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            for (int t = 0; t < args->T; t++) *out++ = row_entropy(trace, l, h, t);
}

static float mean_entropy(const ss_trace *trace, int l, int h, int T) {
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)row_entropy(trace, l, h, t);
    return (float)(sum / (double)T);
}

void ss_measure_entropy_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, mean_entropy, out);
}

/* How far open is the gate of a head? Mean over queries, or tokens; NaN without gates. */
static float mean_gate(const ss_trace *trace, int l, int h, int T) {
    const float *gates = ss_row(trace, SS_FIELD_GATE, ss_head(trace, l, h), 0);
    if (!gates) return NAN;
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)gates[t];
    return (float)(sum / (double)T);
}

void ss_measure_gate_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, mean_gate, out);
}
