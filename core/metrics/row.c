/*
 * How much does a query attend, and how evenly?
 *
 * The row sum adds a query's weights for tokens. It is 1 for operations that normalize and have no
 * bias key; for all others, sink scores are computed from shares (operation.h), which hide the sum.
 * Entropy is -sum P ln P over the n visible keys, a bias key included, divided by ln n. It is 0 for
 * the first query, which sees one key (as in Guo et al. 2024, active-dormant heads), and NaN for a
 * row of zeros. A head with a diagonal pattern gives each query's own key, or one or two before it,
 * most of its attention (arXiv 2605.08453).
 */
#include "measures.h"

#include <math.h>

float ss_measure_row_mass(const ss_trace *trace, int head, int t, int T) {
    (void)T;
    return ss_mass_of(trace, head, t);
}

void ss_measure_row_mass_summary(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int head = 0; head < ss_heads(trace); head++, out += 3) {
        double sum = 0.0;
        float low = INFINITY, high = -INFINITY;
        for (int t = 0; t < args->T; t++) {
            float mass = ss_mass_of(trace, head, t);
            sum += (double)mass;
            low = mass < low ? mass : low;
            high = mass > high ? mass : high;
        }
        out[0] = (float)(sum / (double)args->T);
        out[1] = low;
        out[2] = high;
    }
}

float ss_measure_entropy(const ss_trace *trace, int head, int t, int T) {
    (void)T;
    return trace->statistics.entropy[ss_statistic_index(trace, head, t)];
}

float ss_measure_entropy_mean(const ss_trace *trace, int head, int T) {
    const float *entropy = trace->statistics.entropy + ss_statistic_index(trace, head, 0);
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)entropy[t];
    return (float)(sum / (double)T);
}

void ss_measure_diagonal(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int i = 0; i < SS_DIAGONALS * ss_heads(trace); i++) {
        int queries = args->T - i % SS_DIAGONALS;
        out[i] = queries > 0 ? (float)(trace->statistics.diagonals[i] / (double)queries) : NAN;
    }
}

float ss_measure_gate_mean(const ss_trace *trace, int head, int T) {
    const float *gates = ss_row(trace, SS_FIELD_GATE, head, 0);
    if (!gates) return NAN;
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)gates[t];
    return (float)(sum / (double)T);
}
