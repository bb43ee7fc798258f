/* How large is the error of a quantization? |x' - x| / |x| over all activations that it rounded in
 * a layer, without first tokens that stay exact, or over all weights of the layer; NaN where no
 * number was rounded. */
#include "measures.h"

#include <math.h>

float ss_measure_quantize_error(const ss_trace *trace, int l, int T) {
    double error = 0.0, squares = 0.0;
    for (int t = 0; t < T; t++) {
        const float *sums = ss_row(trace, SS_FIELD_ROUNDED, l, t);
        error += (double)sums[0] + (double)sums[2];
        squares += (double)sums[1] + (double)sums[3];
    }
    return squares > 0.0 ? (float)sqrt(error / squares) : NAN;
}

float ss_measure_weight_error(const ss_trace *trace, int l, int T) {
    const float *sums = ss_floats(trace, SS_FIELD_WEIGHT_ROUNDED) + 2 * l;
    (void)T;
    return sums[1] > 0.0f ? (float)sqrt((double)sums[0] / (double)sums[1]) : NAN;
}
