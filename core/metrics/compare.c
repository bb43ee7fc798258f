/*
 * How far is a run from another of the same model and length? From the unedited one, or from that
 * of a text that differs in a token.
 *
 * Of the predictions: KL(p' || p) = sum_i p'_i ln(p'_i / p_i), p' being the other run's, and the
 * difference of the losses. Of the residual stream: |h_t - h'_t| / |h'_t|, how far a perturbed
 * token is felt (Barbero et al. 2025). What nothing predicts has no number, as it has no loss.
 */
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>

/* Tokens whose exponentials are taken together, on the stack. */
#define TOKENS 256

static double divergence(const float *from, const float *to, size_t V) {
    float top = ss_max(from, V), top_to = ss_max(to, V), weights[TOKENS];
    double sum = 0.0, sum_to = 0.0, mean = 0.0;
    for (size_t i = 0, n; i < V; i += n, from += n, to += n) {
        n = V - i < TOKENS ? V - i : TOKENS;
        sum_to += (double)ss_exp(weights, to, top_to, n);
        sum += (double)ss_exp(weights, from, top, n);
        for (size_t j = 0; j < n; j++)
            mean += (double)weights[j] * ((double)from[j] - (double)to[j]);
    }
    double found = mean / sum - ((double)top + ss_log(sum)) + ((double)top_to + ss_log(sum_to));
    return found > 0.0 ? found : 0.0; /* below it by rounding */
}

/* Of the prediction of token t, which the logits before it make. */
static double divergence_at(const ss_trace *trace, const ss_trace *base, int t) {
    const float *logits = ss_row(trace, SS_FIELD_LOGITS, 0, t - 1);
    const float *others = ss_row(base, SS_FIELD_LOGITS, 0, t - 1);
    return divergence(others, logits, (size_t)trace->model->arch.V);
}

static double loss_change_at(const ss_trace *trace, const ss_trace *base, int t) {
    return (double)ss_floats(trace, SS_FIELD_LOSS)[t] - (double)ss_floats(base, SS_FIELD_LOSS)[t];
}

typedef double (*change)(const ss_trace *trace, const ss_trace *base, int t);

static void each(const ss_trace *trace, const ss_metric_args *args, change of, float *out) {
    for (int t = 0; t < args->T; t++)
        out[t] = t < ss_first_predicted(trace) ? NAN : (float)of(trace, args->base, t);
}

static void mean(const ss_trace *trace, const ss_metric_args *args, change of, float *out) {
    int first = ss_first_predicted(trace), n = args->T - first;
    double sum = 0.0;
    for (int t = first; t < args->T; t++) sum += of(trace, args->base, t);
    *out = n > 0 ? (float)(sum / (double)n) : NAN;
}

void ss_measure_kl_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    each(trace, args, divergence_at, out);
}

void ss_measure_kl_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    mean(trace, args, divergence_at, out);
}

void ss_measure_loss_change_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    each(trace, args, loss_change_at, out);
}

void ss_measure_loss_change(const ss_trace *trace, const ss_metric_args *args, float *out) {
    mean(trace, args, loss_change_at, out);
}

void ss_measure_hidden_change(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int D = trace->model->arch.D;
    for (int l = 0; l < ss_states(&trace->model->arch); l++)
        for (int t = 0; t < args->T; t++) {
            const float *h = ss_row(trace, SS_FIELD_HIDDEN, l, t);
            const float *other = ss_row(args->base, SS_FIELD_HIDDEN, l, t);
            double apart = 0.0, length = 0.0;
            for (int d = 0; d < D; d++) {
                double gap = (double)h[d] - (double)other[d];
                apart += gap * gap;
                length += (double)other[d] * (double)other[d];
            }
            *out++ = length > 0.0 ? (float)sqrt(apart / length) : NAN;
        }
}
