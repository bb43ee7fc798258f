/* The functions behind the metric table. Private to metrics/. */
#ifndef SS_METRICS_MEASURES_H
#define SS_METRICS_MEASURES_H

#include "metrics.h"

#define SS_MEASURE(name)                                                                           \
    void ss_measure_##name(const ss_trace *trace, const ss_metric_args *args, float *out)

/* sink.c */
SS_MEASURE(alpha);
SS_MEASURE(alpha_raw);
SS_MEASURE(alpha_uniform);
SS_MEASURE(sink_ratio);
SS_MEASURE(sink_ratio_raw);
SS_MEASURE(near_eps);

/* row.c */
SS_MEASURE(row_mass);
SS_MEASURE(row_mass_summary);
SS_MEASURE(entropy);
SS_MEASURE(entropy_mean);

/* geometry.c */
SS_MEASURE(qk_dot);
SS_MEASURE(qk_cos);
SS_MEASURE(qk_norm);
SS_MEASURE(cos_gap);

/* norm.c */
SS_MEASURE(hidden_norm);
SS_MEASURE(key_norm);
SS_MEASURE(value_norm);
SS_MEASURE(hidden_ratio);
SS_MEASURE(key_ratio);
SS_MEASURE(value_ratio);

/* massive.c */
SS_MEASURE(massive);
SS_MEASURE(massive_at);

/* loss.c */
SS_MEASURE(loss_mean);

#undef SS_MEASURE

/* [T] row t of the weights of layer l, head h; keys 0..t count. */
static inline const float *ss_att_row(const ss_trace *trace, int l, int h, int t) {
    size_t C = (size_t)trace->capacity;
    return trace->att +
           (((size_t)l * (size_t)trace->model->arch.H + (size_t)h) * C + (size_t)t) * C;
}

static inline const ss_operation *ss_operation_of(const ss_trace *trace, int l, int h) {
    return trace->choices[l * trace->model->arch.H + h].operation;
}

/*
 * The factor that makes a weight of this row a share of attention, P = weight * factor (of its
 * absolute value where the operation has signs): section 1.3 of the metrics, the authors' proxy.
 */
float ss_share_factor(const ss_operation *operation, const float *row, int n);

#endif
