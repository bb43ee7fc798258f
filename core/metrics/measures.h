/* The functions behind the metric table. Private to metrics/. */
#ifndef SS_METRICS_MEASURES_H
#define SS_METRICS_MEASURES_H

#include "../math/kernels.h"
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

/* [C] row t of the weights of a head; keys 0 .. ss_row_end - 1 count. */
static inline const float *ss_att_row(const ss_trace *trace, int head, int t) {
    return ss_row(trace, SS_FIELD_ATT, head, t);
}

/* The tokens that query t may see end here; a mask or an edit may hide some before. */
static inline int ss_row_end(const ss_trace *trace, int head, int t) {
    return ss_mask_end(&trace->choices[head].mask, t, trace->T);
}

/* Weight of the bias key in that row; 0 where there is none. */
static inline float ss_bias_weight(const ss_trace *trace, int head, int t) {
    const float *weight = ss_row(trace, SS_FIELD_ATT_BIAS, head, t);
    return weight ? *weight : 0.0f;
}

/* The first token that is predicted: none is that a query before it has seen. */
static inline int ss_first_predicted(const ss_trace *trace) {
    int prefix = trace->model->arch.prefix;
    return prefix > 1 ? prefix : 1;
}

/* The norm of a field's vector of so many numbers in row `row` at token t: the one that was kept,
 * or its own. */
static inline float ss_norm_of(const ss_trace *trace, ss_field_id field, int row, int t,
                               int width) {
    const float *kept = trace->kept.norms[field];
    if (kept) return kept[(size_t)row * (size_t)trace->T + (size_t)t];
    const float *x = ss_row(trace, field, row, t);
    return sqrtf(ss_dot(x, x, (size_t)width));
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

/* Does a piece for each head; each reads the rows of a map. */
void ss_share_heads(const ss_metric_job *job, ss_piece *piece);

/* out[L][H] = value of each head over its first T tokens. Threads share the heads: a
 * value works in no memory but its own, and row statistics that it reads are found before. */
void ss_each_head(const ss_trace *trace, const ss_metric_args *args,
                  float (*value)(const ss_trace *trace, int head, int T), float *out);

/*
 * Row statistics, [L][H][T] each, of one reading of the maps. Every row has its mass and the factor
 * that makes a weight, or that of the bias key, a share of attention, P = weight * factor (of the
 * absolute value where the operation has signs): section 1.3 of the metrics, the authors' proxy.
 * Every key has alpha, and the same of the raw weights.
 */
typedef enum ss_statistic { SS_MASS, SS_FACTOR, SS_ALPHA, SS_ALPHA_RAW } ss_statistic;
const float *ss_find_statistic(const ss_trace *trace, int T, ss_statistic what);
void ss_copy_statistic(const ss_trace *trace, const ss_metric_args *args, ss_statistic what,
                       float *out);

/* Queries among which the weights of key k are averaged: all T of a bidirectional model see it;
 * else, inside a prefix too, the authors' code divides by the T - k queries from k on. */
double ss_queries_of(const ss_mask *mask, int T, int k);

#endif
