/*
 * Slopes: the backward pass of activations and norms, elementwise or row by row.
 *
 * Loops have no calls or branches, so that compilers vectorize them. Sums are computed by the
 * kernels of math/ only, so that every build gives the same bits.
 */
#ifndef SS_TRAIN_BACK_SLOPES_H
#define SS_TRAIN_BACK_SLOPES_H

#include "../../model/model.h"

bool ss_has_slope(ss_activation activation);

/* Multiplies d[i] by the derivative a'(x[i]) of the activation and replaces x[i] by a(x[i]). */
void ss_activation_back(float *x, float *d, ss_activation activation, size_t n);

/* Takes rows x[n][width], and d[n][width], the derivative with respect to norm(x). Turns d into the
 * derivative with respect to x, and adds the derivatives with respect to gain and bias to sums. x
 * is overwritten. */
void ss_norm_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums, ss_norm_kind kind,
                  float eps, size_t n, size_t width);

#endif
