/* How well are the tokens predicted? The mean of -ln p, and the share of tokens that were the
 * model's first choice, over the tokens that no earlier query saw; NaN where there are none. */
#include "measures.h"

#include <math.h>
#include <string.h>

void ss_measure_loss_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int first = ss_first_predicted(trace);
    const float *loss = ss_floats(trace, SS_FIELD_LOSS);
    double sum = 0.0;
    for (int t = first; t < args->T; t++) sum += (double)loss[t];
    *out = first < args->T ? (float)(sum / (double)(args->T - first)) : NAN;
}

void ss_measure_loss_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    memcpy(out, ss_floats(trace, SS_FIELD_LOSS), (size_t)args->T * sizeof *out);
}

void ss_measure_accuracy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int first = ss_first_predicted(trace), correct = 0;
    const float *ranks = ss_floats(trace, SS_FIELD_RANK);
    for (int t = first; t < args->T; t++) correct += ranks[t] == 0.0f;
    *out = first < args->T ? (float)((double)correct / (double)(args->T - first)) : NAN;
}
