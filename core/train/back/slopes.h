/*
 * Slopes: activations and norms backwards, number by number or row by row.
 *
 * Written as plain loops without calls or branches, which compilers turn into vectors; nothing is
 * summed but by the kernels of math/, so every build gives the same bits.
 */
#ifndef SS_TRAIN_BACK_SLOPES_H
#define SS_TRAIN_BACK_SLOPES_H

#include "../../model/model.h"

/* True if the activation has a slope here. */
bool ss_has_slope(ss_activation activation);

/* x[i] = a(x[i]), d[i] *= a'(x[i]) with the x[i] of before. */
void ss_activation_back(float *x, float *d, ss_activation activation, size_t n);

/*
 * For rows x[n][width] and d[n][width], the derivative by norm(x): d becomes the derivative by x,
 * that by gain and bias is added to gain_sum[width] and bias_sum[width] (NULL where the norm has
 * none). x is overwritten.
 */
void ss_norm_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums, ss_norm_kind kind,
                  float eps, size_t n, size_t width);

#endif
