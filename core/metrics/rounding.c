/*
 * How large is the error of a quantization? |x' - x| / |x| over all activations that it rounded in
 * a layer, without first tokens that stay exact, or over all weights of the layer; NaN where no
 * number was rounded.
 */
#include "measures.h"

#include <math.h>

void ss_measure_quantize_error(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int l = 0; l < ss_states(&trace->model->arch); l++) {
        double error = 0.0, squares = 0.0;
        for (int t = 0; t < args->T; t++) {
            const float *sums = ss_row(trace, SS_FIELD_ROUNDED, l, t);
            error += (double)sums[0] + (double)sums[2];
            squares += (double)sums[1] + (double)sums[3];
        }
        *out++ = squares > 0.0 ? (float)sqrt(error / squares) : NAN;
    }
}

void ss_measure_weight_error(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const float *sums = ss_floats(trace, SS_FIELD_WEIGHT_ROUNDED);
    (void)args;
    for (int l = 0; l < trace->model->arch.L; l++, sums += 2)
        out[l] = sums[1] > 0.0f ? (float)sqrt((double)sums[0] / (double)sums[1]) : NAN;
}
