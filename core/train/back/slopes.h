/*
 * Slopes: the backward pass of activations and norms, elementwise or row by row.
 *
 * Loops have no calls or branches, so that compilers vectorise them; only the kernels of math/ sum,
 * so that every build gives the same bits.
 */
#ifndef SS_TRAIN_BACK_SLOPES_H
#define SS_TRAIN_BACK_SLOPES_H

#include "../../model/model.h"

/* Returns true if the activation has a backward function. */
bool ss_has_slope(ss_activation activation);

/* Computes d[i] *= a'(x[i]) and x[i] = a(x[i]). */
void ss_activation_back(float *x, float *d, ss_activation activation, size_t n);

/*
 * Takes rows x[n][width] and d[n][width], the derivative by norm(x). Turns d into the derivative by
 * x and adds those by gain and bias to sums. x is overwritten.
 */
void ss_norm_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums, ss_norm_kind kind,
                  float eps, size_t n, size_t width);

#endif
