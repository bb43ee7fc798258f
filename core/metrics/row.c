/*
 * How much does a query attend, and how evenly?
 *
 * Row sum: the sum of a query's weights for tokens; 1 for operations that normalise and have no
 * bias key, and what the proxy of sink scores hides for those that do not. Entropy: -sum P ln P
 * over the n visible keys, a bias key among them, divided by ln n; 0 for the first query, as in
 * Guo et al. 2024 (active-dormant heads), whose one key leaves nothing open. NaN for a row without
 * any mass.
 */
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>

void ss_measure_row_mass(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_copy_statistic(trace, args, SS_MASS, out);
}

void ss_measure_row_mass_summary(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const float *mass = ss_find_statistic(trace, args->T, SS_MASS);
    for (int head = 0; head < ss_heads(trace); head++, out += 3) {
        double sum = 0.0;
        float low = INFINITY, high = -INFINITY;
        for (int t = 0; t < args->T; t++, mass++) {
            sum += (double)*mass;
            low = *mass < low ? *mass : low;
            high = *mass > high ? *mass : high;
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

static float row_entropy(const ss_trace *trace, int head, int t, float factor) {
    const float *row = ss_att_row(trace, head, t);
    float bias = ss_bias_weight(trace, head, t);
    float count = *ss_row(trace, SS_FIELD_SEEN, head, t);
    int end = ss_row_end(trace, head, t);
    if (!has_mass(row, end, bias)) return NAN;
    double entropy = ss_entropy(row, factor, (size_t)end);
    if (bias != 0.0f) entropy += ss_entropy(&bias, factor, 1);
    return count == 1.0f ? 0.0f : (float)(entropy / (double)ss_logf(count));
}

static void entropy_piece(const void *shared, size_t head, size_t worker) {
    const ss_metric_job *job = shared;
    size_t at = head * (size_t)job->T;
    const float *factors = ss_find_statistic(job->trace, job->T, SS_FACTOR) + at;
    (void)worker;
    for (int t = 0; t < job->T; t++)
        job->out[at + (size_t)t] = row_entropy(job->trace, (int)head, t, factors[t]);
}

void ss_measure_entropy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_metric_job job = {.trace = trace, .T = args->T, .out = out};
    ss_find_statistic(trace, args->T, SS_FACTOR);
    ss_share_heads(&job, entropy_piece);
}

static float mean_entropy(const ss_trace *trace, int head, int T) {
    const float *factors = ss_find_statistic(trace, T, SS_FACTOR) + (size_t)head * (size_t)T;
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)row_entropy(trace, head, t, factors[t]);
    return (float)(sum / (double)T);
}

void ss_measure_entropy_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_find_statistic(trace, args->T, SS_FACTOR);
    ss_each_head(trace, args, mean_entropy, out);
}

/* How far open is the gate of a head? Mean over queries, or tokens; NaN without gates. */
static float mean_gate(const ss_trace *trace, int head, int T) {
    const float *gates = ss_row(trace, SS_FIELD_GATE, head, 0);
    if (!gates) return NAN;
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)gates[t];
    return (float)(sum / (double)T);
}

void ss_measure_gate_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, mean_gate, out);
}
