/*
 * Is the first token's vector larger or smaller than the others'?
 *
 * L2 norms of hidden states, keys and values, and the ratio of the first token's norm to the mean
 * of the others (Gu et al. 2025, section 3.3, figure 2 top and figure 7). The last hidden state is
 * taken before the final norm. A value ratio far below 1 is value drain (Guo et al. 2024). A ratio
 * is NaN for T = 1 or where the others are zero.
 */
#include "measures.h"

/* Returns false for a key/value head that does not exist, in a layer with fewer heads than others.
 */
static bool has_head(const ss_trace *trace, ss_field_id field, int row) {
    const ss_arch *arch = &trace->model->arch;
    return field == SS_FIELD_HIDDEN || row % arch->G < ss_arch_sizes(arch, row / arch->G).G;
}

static void write_norms(const ss_trace *trace, ss_field_id field, int rows, int width, int T,
                        float *out) {
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < T; t++)
            *out++ = has_head(trace, field, r) ? ss_norm_of(trace, field, r, t, width) : NAN;
}

static void write_ratios(const ss_trace *trace, ss_field_id field, int rows, int width, int T,
                         float *out) {
    for (int r = 0; r < rows; r++) {
        out[r] = NAN;
        if (!has_head(trace, field, r)) continue;
        double first = (double)ss_norm_of(trace, field, r, trace->first, width), others = 0.0;
        for (int t = 0; t < T; t++)
            if (t != trace->first) others += (double)ss_norm_of(trace, field, r, t, width);
        if (others > 0.0) out[r] = (float)(first * (double)(T - 1) / others);
    }
}

static int hidden_rows(const ss_trace *trace) {
    return ss_states(&trace->model->arch);
}

static int head_rows(const ss_trace *trace) {
    return trace->model->arch.L * trace->model->arch.G;
}

void ss_measure_hidden_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_norms(trace, SS_FIELD_HIDDEN, hidden_rows(trace), trace->model->arch.D, args->T, out);
}

void ss_measure_key_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_norms(trace, SS_FIELD_K, head_rows(trace), trace->model->arch.K, args->T, out);
}

void ss_measure_value_norm(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_norms(trace, SS_FIELD_V, head_rows(trace), trace->model->arch.U, args->T, out);
}

void ss_measure_hidden_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_ratios(trace, SS_FIELD_HIDDEN, hidden_rows(trace), trace->model->arch.D, args->T, out);
}

void ss_measure_key_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_ratios(trace, SS_FIELD_K, head_rows(trace), trace->model->arch.K, args->T, out);
}

void ss_measure_value_ratio(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_ratios(trace, SS_FIELD_V, head_rows(trace), trace->model->arch.U, args->T, out);
}
