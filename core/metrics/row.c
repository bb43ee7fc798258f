/*
 * How much does a query attend, and how evenly?
 *
 * Row mass: the sum of a query's weights; 1 for operations that normalise, and what the proxy of
 * sink scores hides for those that do not. Entropy: -sum P ln P over the n keys in sight, divided
 * by ln n; 0 for the first query, as in Guo et al. 2024 (active-dormant heads), whose one key
 * leaves nothing open. NaN for a row without any mass.
 */
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>

void ss_measure_row_mass(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            for (int t = 0; t < args->T; t++)
                *out++ = ss_sum(ss_att_row(trace, l, h, t), (size_t)t + 1);
}

void ss_measure_row_mass_summary(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++, out += 3) {
            double sum = 0.0;
            float low = INFINITY, high = -INFINITY;
            for (int t = 0; t < args->T; t++) {
                float mass = ss_sum(ss_att_row(trace, l, h, t), (size_t)t + 1);
                sum += (double)mass;
                low = mass < low ? mass : low;
                high = mass > high ? mass : high;
            }
            out[0] = (float)(sum / (double)args->T);
            out[1] = low;
            out[2] = high;
        }
}

static float row_entropy(const ss_operation *operation, const float *row, int n) {
    double factor = (double)ss_share_factor(operation, row, n), entropy = 0.0, mass = 0.0;
    for (int j = 0; j < n; j++) {
        double share = factor * fabs((double)row[j]);
        mass += share;
        if (share > 0.0) entropy -= share * ss_log(share);
    }
    if (!(mass > 0.0)) return NAN;
    return n == 1 ? 0.0f : (float)(entropy / ss_log((double)n));
}

void ss_measure_entropy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            for (int t = 0; t < args->T; t++)
                *out++ =
                    row_entropy(ss_operation_of(trace, l, h), ss_att_row(trace, l, h, t), t + 1);
}

void ss_measure_entropy_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++) {
            double sum = 0.0;
            for (int t = 0; t < args->T; t++)
                sum += (double)row_entropy(ss_operation_of(trace, l, h), ss_att_row(trace, l, h, t),
                                           t + 1);
            *out++ = (float)(sum / (double)args->T);
        }
}
