/* A product with a layer's weights, backwards. */
#ifndef SS_TRAIN_BACK_LINEAR_H
#define SS_TRAIN_BACK_LINEAR_H

#include "../../model/model.h"

/* Rows whose products are summed in one go; then they are added to the sums so far. */
#define SS_BACK_ROWS 256

/* Floats of work for a product of weights [in][out]. */
size_t ss_linear_back_work(size_t in, size_t out);

/*
 * y = x w + b for n rows, weights F32, and d[n][out] the derivative by y. That by x goes to
 * dx[n][in], which may be d where both are as wide; those by w and b are added to sums, whose
 * numbers lie as linear's do.
 */
void ss_linear_back_inputs(float *dx, const float *d, const ss_linear *linear, size_t n,
                           float *work);
void ss_linear_back_weights(const float *x, const float *d, const ss_linear *sums, size_t n,
                            float *work);

/* rows [Kin][T], stride apart, become the tiles of their transpose as ss_matmul reads them. */
void ss_tile_columns(float *tiles, const float *rows, size_t stride, size_t T, size_t Kin);

#endif
