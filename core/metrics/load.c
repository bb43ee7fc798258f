/*
 * Which heads does the sink switch off?
 *
 * Attention to the first token is withheld from all others: if the first value is small
 * (value_ratio), 1 - P_t1 acts as a gate on the rest of the output (arXiv 2602.01203). The share of
 * a bias key, P_t*, goes to no token either, so that the gate is 1 - P_t1 - P_t*. A head's load is
 * the mean of its gate over the queries after the first, whose only key is the first token. The
 * Gini coefficient of a layer's loads is 0 where all loads are equal and (H-1)/H where one head has
 * all: sum_i (2i - H - 1) x_i / (H sum x), x in ascending order; NaN where all are zero.
 */
#include "measures.h"

#include <math.h>

static float gate_of(const ss_trace *trace, int head, int t) {
    if (t <= trace->first) return NAN;
    float first = trace->statistics.first[ss_statistic_at(trace, head, t)];
    return 1.0f - first * ss_factor_of(trace, head, t) - ss_bias_share(trace, head, t);
}

void ss_measure_head_gate(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int head = 0; head < ss_heads(trace); head++)
        for (int t = 0; t < args->T; t++) *out++ = gate_of(trace, head, t);
}

static float load_of(const ss_trace *trace, int head, int T) {
    double sum = 0.0;
    int later_n = T - 1 - trace->first;
    for (int t = T - later_n; t < T; t++) sum += (double)gate_of(trace, head, t);
    return later_n > 0 ? (float)(sum / (double)later_n) : NAN;
}

void ss_measure_head_load(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_measure_each_head(trace, args, load_of, out);
}

/* Returns the Gini coefficient of a layer's loads. The sum over sorted loads equals half the sum of
 * |x_i - x_j| over all pairs of heads. */
static float gini_of(const ss_trace *trace, int layer, int T) {
    int H = trace->model->arch.H, first = layer * H;
    double sum = 0.0, differences = 0.0;
    for (int h = 0; h < H; h++) {
        double load = (double)load_of(trace, first + h, T);
        sum += load;
        for (int other = 0; other < h; other++)
            differences += fabs(load - (double)load_of(trace, first + other, T));
    }
    return sum > 0.0 ? (float)(differences / ((double)H * sum)) : NAN;
}

void ss_measure_head_gini(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int layer = 0; layer < trace->model->arch.L; layer++)
        out[layer] = gini_of(trace, layer, args->T);
}
