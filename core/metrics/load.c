/*
 * Which heads does the sink switch off?
 *
 * Attention to the first token is withheld from all others: if the first value is small
 * (value_ratio), 1 - P_t1 acts as a gate on the rest of the output (arXiv 2602.01203). The share of
 * a bias key, P_t*, goes to no token either, so that the gate is 1 - P_t1 - P_t*. A head's load is
 * the mean of its gate over all queries but the first, which sees only the first token. The
 * Gini coefficient of a layer's loads is 0 where all loads are equal and (H-1)/H where one head has
 * all: sum_i (2i - H - 1) x_i / (H sum x), x in ascending order; NaN where all are zero.
 */
#include "measures.h"

#include <math.h>

float ss_measure_head_gate(const ss_trace *trace, int head, int t, int T) {
    (void)T;
    if (t <= trace->first) return NAN;
    float first_weight = trace->statistics.first_weight[ss_statistic_index(trace, head, t)];
    return 1.0f - first_weight * ss_factor_of(trace, head, t) - ss_bias_share(trace, head, t);
}

float ss_measure_head_load(const ss_trace *trace, int head, int T) {
    double sum = 0.0;
    int later_n = T - 1 - trace->first;
    for (int t = T - later_n; t < T; t++) sum += (double)ss_measure_head_gate(trace, head, t, T);
    return later_n > 0 ? (float)(sum / (double)later_n) : NAN;
}

/* Returns the Gini coefficient of a layer's loads. The sum over sorted loads equals half the sum of
 * |x_i - x_j| over all pairs of heads. */
float ss_measure_head_gini(const ss_trace *trace, int layer, int T) {
    int H = trace->model->arch.H, first_head = layer * H;
    double sum = 0.0, differences = 0.0;
    for (int h = 0; h < H; h++) {
        double load = (double)ss_measure_head_load(trace, first_head + h, T);
        sum += load;
        for (int other = 0; other < h; other++)
            differences += fabs(load - (double)ss_measure_head_load(trace, first_head + other, T));
    }
    return sum > 0.0 ? (float)(differences / ((double)H * sum)) : NAN;
}
