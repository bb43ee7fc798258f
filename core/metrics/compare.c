/*
 * How far is a run from another of the same model and length: the unedited run, or a run over a
 * text that differs in a token?
 *
 * Predictions differ by KL(p' || p) = sum_i p'_i ln(p'_i / p_i), p' being the other run's, and by
 * their losses. Residual streams differ by |h_t - h'_t| / |h'_t|, which shows how far the effect of
 * a perturbed token reaches (Barbero et al. 2025). A token that nothing predicts has NaN, as its
 * loss does.
 *
 * An eviction differs by what its cache lacks: a hit is a key that a query of the other run uses,
 * and that is still there.
 */
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "../run/edits/evict.h"
#include "../run/maps.h"
#include "measures.h"

#include <math.h>

/* Logits whose exponentials are computed together, in an array on the stack. */
#define LOGITS_AT_ONCE 256

static double divergence(const float *base_logits, const float *logits, size_t V) {
    float base_top = ss_max(base_logits, V), top = ss_max(logits, V), weights[LOGITS_AT_ONCE];
    double base_sum = 0.0, sum = 0.0, mean = 0.0;
    for (size_t i = 0, n; i < V; i += n, base_logits += n, logits += n) {
        n = ss_min_size(V - i, LOGITS_AT_ONCE);
        sum += (double)ss_exp(weights, logits, top, n);
        base_sum += (double)ss_exp(weights, base_logits, base_top, n);
        for (size_t j = 0; j < n; j++)
            mean += (double)weights[j] * ((double)base_logits[j] - (double)logits[j]);
    }
    double kl =
        mean / base_sum - ((double)base_top + ss_log(base_sum)) + ((double)top + ss_log(sum));
    return kl > 0.0 ? kl : 0.0; /* rounding can make the sum negative */
}

static double divergence_at(const ss_trace *trace, const ss_trace *base, int t) {
    const float *logits = ss_row(trace, SS_FIELD_LOGITS, 0, t - 1);
    const float *base_logits = ss_row(base, SS_FIELD_LOGITS, 0, t - 1);
    return divergence(base_logits, logits, (size_t)trace->model->arch.V);
}

static double loss_change_at(const ss_trace *trace, const ss_trace *base, int t) {
    return (double)ss_floats(trace, SS_FIELD_LOSS)[t] - (double)ss_floats(base, SS_FIELD_LOSS)[t];
}

typedef double (*change_function)(const ss_trace *trace, const ss_trace *base, int t);

static void write_per_token(const ss_trace *trace, const ss_metric_args *args,
                            change_function measure, float *out) {
    for (int t = 0; t < args->T; t++)
        out[t] = t < ss_first_predicted(trace) ? NAN : (float)measure(trace, args->base, t);
}

static void write_mean(const ss_trace *trace, const ss_metric_args *args, change_function measure,
                       float *out) {
    int first = ss_first_predicted(trace), n = args->T - first;
    double sum = 0.0;
    for (int t = first; t < args->T; t++) sum += measure(trace, args->base, t);
    *out = n > 0 ? (float)(sum / (double)n) : NAN;
}

void ss_measure_kl_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_mean(trace, args, divergence_at, out);
}

void ss_measure_loss_change_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_per_token(trace, args, loss_change_at, out);
}

void ss_measure_loss_change(const ss_trace *trace, const ss_metric_args *args, float *out) {
    write_mean(trace, args, loss_change_at, out);
}

void ss_measure_hidden_change(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int D = trace->model->arch.D;
    for (int l = 0; l < ss_states(&trace->model->arch); l++)
        for (int t = 0; t < args->T; t++) {
            const float *h = ss_row(trace, SS_FIELD_HIDDEN, l, t);
            const float *base_h = ss_row(args->base, SS_FIELD_HIDDEN, l, t);
            double distance = 0.0, length = 0.0;
            for (int d = 0; d < D; d++) {
                double difference = (double)h[d] - (double)base_h[d];
                distance += difference * difference;
                length += (double)base_h[d] * (double)base_h[d];
            }
            *out++ = length > 0.0 ? (float)sqrt(distance / length) : NAN;
        }
}

typedef struct cache_uses {
    const float *evicted;
    double hits_n, uses_n;
} cache_uses;

/* Counts each query's uses of earlier keys: its own enters the cache just before. */
static void count_uses(void *context, int t, int n, const float *x, size_t stride) {
    cache_uses *uses = context;
    for (int end = t + n; t < end; t++, x += stride) {
        float even_share = ss_even_share(x, (size_t)t + 1);
        for (int j = 0; j < t; j++) {
            if (!(fabsf(x[j]) > even_share)) continue;
            uses->uses_n++;
            uses->hits_n += !(uses->evicted[j] <= (float)t);
        }
    }
}

void ss_measure_cache_hits(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    ss_map_link(args->base);
    for (int head = 0; head < arch->L * arch->H; head++) {
        cache_uses uses = {ss_row(trace, SS_FIELD_EVICTED, head, 0), 0.0, 0.0};
        ss_map_read(args->base, SS_FIELD_ATT, head, 0, args->T, 0, count_uses, &uses);
        out[head] = uses.uses_n > 0.0 ? (float)(uses.hits_n / uses.uses_n) : NAN;
    }
}
