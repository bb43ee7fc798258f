/* The functions behind the metric table. Private to metrics/. */
#ifndef SS_METRICS_MEASURES_H
#define SS_METRICS_MEASURES_H

#include "../math/kernels.h"
#include "../run/statistics.h"
#include "metrics.h"

#include <math.h>

#define SS_MEASURE(name)                                                                           \
    void ss_measure_##name(const ss_trace *trace, const ss_metric_args *args, float *out)

/* sink.c */
SS_MEASURE(alpha);
SS_MEASURE(alpha_raw);
SS_MEASURE(alpha_uniform);
SS_MEASURE(sink_ratio);
SS_MEASURE(sink_ratio_raw);
SS_MEASURE(near_eps);
SS_MEASURE(alpha_bias);
SS_MEASURE(sink_ratio_bias);

/* row.c */
SS_MEASURE(row_mass);
SS_MEASURE(row_mass_summary);
SS_MEASURE(entropy);
SS_MEASURE(entropy_mean);
SS_MEASURE(gate_mean);

/* geometry.c */
SS_MEASURE(qk_dot);
SS_MEASURE(qk_cos);
SS_MEASURE(qk_norm);
SS_MEASURE(cos_gap);

/* parts.c */
SS_MEASURE(logit_parts);
SS_MEASURE(logit_parts_heads);

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
SS_MEASURE(super_weight);

/* share.c */
SS_MEASURE(first_share);
SS_MEASURE(contribution);
SS_MEASURE(contribution_at);
SS_MEASURE(contribution_out_at);
SS_MEASURE(keeps_first);

/* load.c */
SS_MEASURE(head_gate);
SS_MEASURE(head_load);
SS_MEASURE(head_gini);

/* rounding.c */
SS_MEASURE(quantise_error);
SS_MEASURE(weight_error);

/* spread.c */
SS_MEASURE(mixing);
SS_MEASURE(kurtosis);

/* tags.c */
SS_MEASURE(tag_share);
SS_MEASURE(tag_stream);

/* spectrum.c */
SS_MEASURE(matrix_entropy);
SS_MEASURE(matrix_entropy_others);

/* loss.c */
SS_MEASURE(loss_mean);
SS_MEASURE(loss_at);
SS_MEASURE(accuracy);

/* compare.c */
SS_MEASURE(kl_at);
SS_MEASURE(kl_mean);
SS_MEASURE(loss_change_at);
SS_MEASURE(loss_change);
SS_MEASURE(hidden_change);

#undef SS_MEASURE

/* A head is counted through all layers, as in a field [L][H][T]: so many are there, */
static inline int ss_heads(const ss_trace *trace) {
    return trace->model->arch.L * trace->model->arch.H;
}

/* and of its keys and values it is that one in a field [L][G][T]. */
static inline int ss_group_of(const ss_trace *trace, int head) {
    return head / (trace->model->arch.H / trace->model->arch.G);
}

/* The first token that is predicted: none is that a query before it has seen. */
static inline int ss_first_predicted(const ss_trace *trace) {
    int prefix = trace->model->arch.prefix;
    return prefix > 1 ? prefix : 1;
}

/* heads.c */

/* A metric in pieces that the run's threads share: of a head each, or of a row of the stream. */
typedef struct ss_metric_job {
    const ss_trace *trace;
    int T;
    int first; /* token of the stream that counts */
    ss_field_id field;
    float (*value)(const ss_trace *trace, int head, int T);
    float *out;
} ss_metric_job;

/* Does a piece for each head; each reads as much as a map has. */
void ss_share_heads(const ss_metric_job *job, ss_piece *piece);

/* out[L][H] = value of each head over its first T tokens. Threads share the heads: a
 * value works in no memory but its own. */
void ss_each_head(const ss_trace *trace, const ss_metric_args *args,
                  float (*value)(const ss_trace *trace, int head, int T), float *out);

/* Row statistics of the first T tokens, which are found before a metric is measured; numbers that
 * were kept come first. Of a query: the sum of its row, and what makes a weight of it a share. */
float ss_mass_of(const ss_trace *trace, int head, int t);
float ss_factor_of(const ss_trace *trace, int head, int t);

/* Share of attention that query t gives to the bias key; 0 where there is none. */
float ss_bias_share(const ss_trace *trace, int head, int t);

/* Of key k: its mean share of attention, and its mean weight. */
float ss_alpha_of(const ss_trace *trace, int head, int k, int T);
float ss_alpha_raw_of(const ss_trace *trace, int head, int k, int T);

/* Queries among which the weights of key k are averaged: all T of a bidirectional model see it;
 * else, inside a prefix too, the authors' code divides by the T - k queries from k on. */
double ss_queries_of(const ss_mask *mask, int T, int k);

#endif
