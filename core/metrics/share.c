/*
 * What does a sink carry? How much attention ends on the first token, and how much of what a head
 * returns comes from there.
 *
 * First-token share: mean over queries of a_t1 (Qiu et al. 2025: "F-Attn"); it is alpha_1, beside
 * what even attention would give. The contribution of key 1 to what query t mixes is |A_t1| |v_1|
 * over the sum of |A_tj| |v_j| (specification, 1.7): a key may take all attention and give nothing.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

/* Mean over queries of the first token's part of sum_j |A_tj| |v_j|; NaN where a query mixes
 * nothing. A bias key's value counts among the others' nowhere: it is of no token. */
static float contribution(const ss_trace *trace, int l, int h, int T) {
    const ss_arch *arch = &trace->model->arch;
    int group = l * arch->G + h / (arch->H / arch->G);
    size_t K = (size_t)arch->K;
    double mean = 0.0;
    for (int t = 0; t < T; t++) {
        const float *row = ss_att_row(trace, l, h, t);
        double first = 0.0, sum = 0.0;
        for (int j = 0; j < ss_row_end(trace, l, h, t); j++) {
            const float *v = ss_row(trace, SS_FIELD_V, group, j);
            double part = fabs((double)row[j]) * sqrt((double)ss_dot(v, v, K));
            if (j == 0) first = part;
            sum += part;
        }
        mean += sum > 0.0 ? first / sum / (double)T : (double)NAN;
    }
    return (float)mean;
}

void ss_measure_contribution(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, contribution, out);
}

/* Mean over queries of the share that token 1 receives. */
static float first_share(const ss_trace *trace, int l, int h, int T) {
    bool absolute = ss_choice_of(trace, l, h)->operation->proxy == SS_PROXY_SHARE_ABS;
    double sum = 0.0;
    for (int t = 0; t < T; t++) {
        double weight = (double)*ss_att_row(trace, l, h, t);
        sum += (double)ss_share_factor(trace, l, h, t) * (absolute ? fabs(weight) : weight);
    }
    return (float)(sum / (double)T);
}

void ss_measure_first_share(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, first_share, out);
}

/* Does the cache of a head still hold token 1 at the last query? 1 or 0; 1 without an eviction. */
static float keeps_first(const ss_trace *trace, int l, int h, int T) {
    const float *gone = ss_row(trace, SS_FIELD_EVICTED, ss_head(trace, l, h), 0);
    return gone[0] < (float)T ? 0.0f : 1.0f;
}

void ss_measure_keeps_first(const ss_trace *trace, const ss_metric_args *args, float *out) {
    ss_each_head(trace, args, keeps_first, out);
}
