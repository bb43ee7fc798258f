/*
 * Is the first token's vector larger or smaller than the others'?
 *
 * L2 norms of hidden states, keys and values, and the ratio of the first token's norm to the mean
 * of the others (Gu et al. 2025, section 3.3, figure 2 top and figure 7). The last hidden state is
 * taken before the final norm. A value ratio far below 1 is value drain (Guo et al. 2024). A ratio
 * is NaN for T = 1 or where the others are zero.
 */
#include "measures.h"

/* Returns false for a key/value head that a layer with fewer heads than others lacks. */
static bool has_head(const ss_trace *trace, ss_field_id field, int row) {
    const ss_arch *arch = &trace->model->arch;
    return field == SS_FIELD_HIDDEN || row % arch->G < ss_arch_sizes(arch, row / arch->G).G;
}

static float norm_of(const ss_trace *trace, ss_field_id field, int row, int t) {
    return has_head(trace, field, row) ? ss_norm_of(trace, field, row, t) : NAN;
}

static float ratio_of(const ss_trace *trace, ss_field_id field, int row, int T) {
    if (!has_head(trace, field, row)) return NAN;
    double first_norm = (double)ss_norm_of(trace, field, row, trace->first), norm_sum = 0.0;
    for (int t = 0; t < T; t++)
        if (t != trace->first) norm_sum += (double)ss_norm_of(trace, field, row, t);
    return norm_sum > 0.0 ? (float)(first_norm * (double)(T - 1) / norm_sum) : NAN;
}

float ss_measure_hidden_norm(const ss_trace *trace, int row, int t, int T) {
    (void)T;
    return norm_of(trace, SS_FIELD_HIDDEN, row, t);
}

float ss_measure_key_norm(const ss_trace *trace, int row, int t, int T) {
    (void)T;
    return norm_of(trace, SS_FIELD_K, row, t);
}

float ss_measure_value_norm(const ss_trace *trace, int row, int t, int T) {
    (void)T;
    return norm_of(trace, SS_FIELD_V, row, t);
}

float ss_measure_hidden_ratio(const ss_trace *trace, int row, int T) {
    return ratio_of(trace, SS_FIELD_HIDDEN, row, T);
}

float ss_measure_key_ratio(const ss_trace *trace, int row, int T) {
    return ratio_of(trace, SS_FIELD_K, row, T);
}

float ss_measure_value_ratio(const ss_trace *trace, int row, int T) {
    return ratio_of(trace, SS_FIELD_V, row, T);
}
