/* Row statistics of a head, and helpers for metrics with one number per head. */
#include "measures.h"

#include <math.h>

double ss_queries_of(const ss_mask *mask, int T, int k) {
    return (double)(mask->prefix == SS_EVERY_KEY ? T : T - k);
}

/* Returns the statistic from a recording's numbers [L][H][T], if it has them, else from those
 * computed from the maps. */
static float statistic_of(const ss_trace *trace, const float *recording_numbers,
                          const float *run_numbers, int head, int t) {
    if (recording_numbers) return recording_numbers[(size_t)head * (size_t)trace->T + (size_t)t];
    return run_numbers[ss_statistic_at(trace, head, t)];
}

float ss_mass_of(const ss_trace *trace, int head, int t) {
    return statistic_of(trace, trace->kept.row_mass, trace->statistics.mass, head, t);
}

float ss_factor_of(const ss_trace *trace, int head, int t) {
    return statistic_of(trace, trace->kept.factors, trace->statistics.factor, head, t);
}

float ss_bias_share(const ss_trace *trace, int head, int t) {
    float weight = ss_bias_weight(trace, head, t);
    if (trace->choices[head].operation->proxy == SS_PROXY_SHARE_ABS) weight = fabsf(weight);
    return weight * ss_factor_of(trace, head, t);
}

static float mean_of_key(const ss_trace *trace, const float *recording_numbers, const double *sums,
                         int head, int k, int T) {
    if (recording_numbers && T == trace->T)
        return recording_numbers[(size_t)head * (size_t)trace->T + (size_t)k];
    double queries = ss_queries_of(&trace->choices[head].mask, T, k);
    return (float)(sums[ss_statistic_at(trace, head, k)] / queries);
}

float ss_alpha_of(const ss_trace *trace, int head, int k, int T) {
    return mean_of_key(trace, trace->kept.alpha, trace->statistics.alpha, head, k, T);
}

float ss_alpha_raw_of(const ss_trace *trace, int head, int k, int T) {
    bool are_shares = trace->choices[head].operation->proxy == SS_PROXY_WEIGHTS;
    const ss_row_statistics *statistics = &trace->statistics;
    return mean_of_key(trace, trace->kept.alpha_raw,
                       are_shares ? statistics->alpha : statistics->alpha_raw, head, k, T);
}

void ss_run_each_head(const ss_metric_job *job, ss_piece *piece) {
    uint64_t heads = (uint64_t)ss_heads(job->trace), T = (uint64_t)job->T;
    ss_pool_run(job->trace->pool, piece, job, (size_t)heads, heads * T * T);
}

static void measure_head(const void *context, size_t head, size_t worker) {
    const ss_metric_job *job = context;
    (void)worker;
    job->out[head] = job->value(job->trace, (int)head, job->T);
}

void ss_measure_each_head(const ss_trace *trace, const ss_metric_args *args,
                          float (*value)(const ss_trace *trace, int head, int T), float *out) {
    ss_metric_job job = {.trace = trace, .T = args->T, .value = value, .out = out};
    ss_run_each_head(&job, measure_head);
}
