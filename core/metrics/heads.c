/* Row statistics of a head, and the scores alpha_k that are computed from them (sink.c). */
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
    return run_numbers[ss_statistic_index(trace, head, t)];
}

float ss_mass_of(const ss_trace *trace, int head, int t) {
    return statistic_of(trace, trace->summaries.row_mass, trace->statistics.mass, head, t);
}

float ss_factor_of(const ss_trace *trace, int head, int t) {
    return statistic_of(trace, trace->summaries.factors, trace->statistics.factor, head, t);
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
    return (float)(sums[ss_statistic_index(trace, head, k)] / queries);
}

float ss_measure_alpha(const ss_trace *trace, int head, int k, int T) {
    return mean_of_key(trace, trace->summaries.alpha, trace->statistics.alpha, head, k, T);
}

float ss_measure_alpha_raw(const ss_trace *trace, int head, int k, int T) {
    bool are_shares = trace->choices[head].operation->proxy == SS_PROXY_WEIGHTS;
    const ss_row_statistics *statistics = &trace->statistics;
    return mean_of_key(trace, trace->summaries.alpha_raw,
                       are_shares ? statistics->alpha : statistics->alpha_raw, head, k, T);
}
