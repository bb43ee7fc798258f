/* What several questions ask of a head: its rows as shares, and one number for each. */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

float ss_share_factor(const ss_trace *trace, int l, int h, int t) {
    const ss_operation *operation = ss_choice_of(trace, l, h)->operation;
    if (operation->proxy == SS_PROXY_WEIGHTS) return 1.0f;
    const float *row = ss_att_row(trace, l, h, t);
    int n = ss_row_end(trace, l, h, t);
    float bias = ss_bias_weight(trace, l, h, t);
    if (operation->proxy == SS_PROXY_SHARE)
        return 1.0f / (ss_sum(row, (size_t)n) + bias + SS_PROXY_GUARD);
    double sum = (double)fabsf(bias);
    for (int j = 0; j < n; j++) sum += (double)fabsf(row[j]);
    return 1.0f / ((float)sum + SS_PROXY_GUARD);
}

double ss_queries_of(const ss_mask *mask, int T, int k) {
    return (double)(mask->prefix == SS_EVERY_KEY ? T : T - k);
}

void ss_each_head(const ss_trace *trace, const ss_metric_args *args,
                  float (*value)(const ss_trace *trace, int l, int h, int T), float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++) *out++ = value(trace, l, h, args->T);
}
