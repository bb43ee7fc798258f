/*
 * Do the tokens' vectors stay distinct, and does the stream have outliers?
 *
 * Over-mixing is measured by |V - mean over tokens|, the Frobenius distance of the residual stream
 * from the mean of its tokens, over sqrt(T) (Barbero et al. 2025, mu). Kurtosis is the fourth
 * central moment over the square of the second, over all tokens and channels of a hidden state: 3
 * for normal numbers, thousands where a few are massive (Zuhri et al. 2025).
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>

/* Channels whose means the stack holds at a time, so that rows are read in memory order. */
#define CHANNELS 64

static double spread_of(const ss_trace *trace, int row, int T, size_t d, size_t n) {
    double means[CHANNELS] = {0}, sum = 0.0;
    for (int t = 0; t < T; t++)
        ss_add_shares(means, ss_row(trace, SS_FIELD_HIDDEN, row, t) + d, 1.0 / (double)T, false, n);
    for (int t = 0; t < T; t++) {
        const float *h = ss_row(trace, SS_FIELD_HIDDEN, row, t) + d;
        for (size_t i = 0; i < n; i++) sum += ((double)h[i] - means[i]) * ((double)h[i] - means[i]);
    }
    return sum;
}

float ss_measure_mixing(const ss_trace *trace, int row, int T) {
    size_t D = (size_t)trace->model->arch.D;
    double sum = 0.0;
    for (size_t d = 0; d < D; d += CHANNELS)
        sum += spread_of(trace, row, T, d, ss_min_size(D - d, CHANNELS));
    return (float)sqrt(sum / (double)T);
}

float ss_measure_kurtosis(const ss_trace *trace, int row, int T) {
    const float *x = ss_row(trace, SS_FIELD_HIDDEN, row, 0);
    size_t n = (size_t)T * (size_t)trace->model->arch.D;
    double mean = 0.0, square_sum = 0.0, fourth_sum = 0.0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double square = ((double)x[i] - mean) * ((double)x[i] - mean);
        square_sum += square;
        fourth_sum += square * square;
    }
    return square_sum > 0.0 ? (float)(fourth_sum / square_sum * ((double)n / square_sum)) : NAN;
}
