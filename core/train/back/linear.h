/* The backward pass of a product with a layer's weights. */
#ifndef SS_TRAIN_BACK_LINEAR_H
#define SS_TRAIN_BACK_LINEAR_H

#include "../../model/model.h"

/* Number of rows whose products are added up before they are added to the sums. This bounds the
 * working memory and fixes the order of the sums. */
#define SS_BACK_ROWS 256

/* Returns the number of floats of working memory that weights [in][out] need. */
size_t ss_linear_back_work(size_t in, size_t out);

/* Propagate d[n][out], the derivative with respect to y = x w + b over n rows with F32 weights. The
 * first function writes the derivative with respect to x to dx[n][in], which may be d if the widths
 * are equal. The second one adds the derivatives with respect to w and b to sums, which are laid
 * out like `linear`. */
void ss_linear_back_inputs(float *dx, const float *d, const ss_linear *linear, size_t n,
                           float *work);
void ss_linear_back_weights(const float *x, const float *d, const ss_linear *sums, size_t n,
                            float *work);

/* Packs the transpose of rows [Kin][T], `stride` apart, into tiles for ss_matmul. */
void ss_tile_columns(float *tiles, const float *rows, size_t stride, size_t T, size_t Kin);

#endif
