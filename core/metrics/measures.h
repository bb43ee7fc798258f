/* The functions of the metric table, one paragraph for each file, and helpers that several files
 * share. Private to metrics/. */
#ifndef SS_METRICS_MEASURES_H
#define SS_METRICS_MEASURES_H

#include "../math/kernels.h"
#include "../run/statistics.h"
#include "metrics.h"

#include <math.h>

/* The three kinds of functions; ss_metric (metrics.h) says what each computes. */
#define SS_MEASURE(name)                                                                           \
    void ss_measure_##name(const ss_trace *trace, const ss_metric_args *args, float *out)
#define SS_MEASURE_ROW(name) float ss_measure_##name(const ss_trace *trace, int row, int T)
#define SS_MEASURE_TOKEN(name) float ss_measure_##name(const ss_trace *trace, int row, int t, int T)

SS_MEASURE_TOKEN(alpha);
SS_MEASURE_TOKEN(alpha_raw);
SS_MEASURE(alpha_uniform);
SS_MEASURE(sink_ratio);
SS_MEASURE(sink_ratio_raw);
SS_MEASURE(near_eps);
SS_MEASURE_ROW(alpha_bias);
SS_MEASURE(sink_ratio_bias);

SS_MEASURE_TOKEN(row_mass);
SS_MEASURE(row_mass_summary);
SS_MEASURE_TOKEN(entropy);
SS_MEASURE_ROW(entropy_mean);
SS_MEASURE(diagonal);
SS_MEASURE_ROW(gate_mean);

SS_MEASURE(qk_dot);
SS_MEASURE(qk_cos);
SS_MEASURE(qk_norm);
SS_MEASURE_ROW(cos_gap);

SS_MEASURE(logit_parts);
SS_MEASURE(logit_parts_heads);

SS_MEASURE_TOKEN(hidden_norm);
SS_MEASURE_TOKEN(key_norm);
SS_MEASURE_TOKEN(value_norm);
SS_MEASURE_ROW(hidden_ratio);
SS_MEASURE_ROW(key_ratio);
SS_MEASURE_ROW(value_ratio);

SS_MEASURE(massive);
SS_MEASURE(massive_at);
SS_MEASURE(super_weight);

SS_MEASURE_ROW(first_share);
SS_MEASURE_ROW(contribution);
SS_MEASURE_TOKEN(contribution_at);
SS_MEASURE_TOKEN(contribution_out_at);
SS_MEASURE_ROW(keeps_first);

SS_MEASURE_TOKEN(head_gate);
SS_MEASURE_ROW(head_load);
SS_MEASURE_ROW(head_gini);

SS_MEASURE_ROW(quantize_error);
SS_MEASURE_ROW(weight_error);

SS_MEASURE_ROW(mixing);
SS_MEASURE_ROW(kurtosis);

SS_MEASURE_ROW(tag_share);
SS_MEASURE(tag_stream);
SS_MEASURE(stable_rank);

SS_MEASURE(matrix_entropy);
SS_MEASURE(matrix_entropy_others);

SS_MEASURE(loss_mean);
SS_MEASURE(loss_at);
SS_MEASURE(accuracy);

SS_MEASURE(kl_mean);
SS_MEASURE(cache_hits);
SS_MEASURE(loss_change_at);
SS_MEASURE(loss_change);
SS_MEASURE(hidden_change);

#undef SS_MEASURE
#undef SS_MEASURE_ROW
#undef SS_MEASURE_TOKEN

/* A metric, divided into pieces for the run's threads: one head or one hidden state per piece. */
typedef struct ss_metric_job {
    const ss_trace *trace;
    int T;
    int first; /* first token of the stream to measure */
    float *out;
} ss_metric_job;

/* ss_mass_of returns the sum of the weights of query t, ss_factor_of the factor that turns them
 * into shares. Both return a recording's own number if it has one, else a row statistic, which is
 * computed before a metric is measured. */
float ss_mass_of(const ss_trace *trace, int head, int t);
float ss_factor_of(const ss_trace *trace, int head, int t);

/* Returns the share of attention that query t gives to the bias key; 0 without a bias key. */
float ss_bias_share(const ss_trace *trace, int head, int t);

/* Returns the number of queries over which the mean of key k is taken: all T in a bidirectional
 * model, else the T - k queries from k on, as in the authors' code, also inside a prefix. */
double ss_queries_of(const ss_mask *mask, int T, int k);

#endif
