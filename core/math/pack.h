/*
 * Packing: matrices in the order in which ss_matmul reads them.
 *
 * Columns go together in panels of eight, [ceil(N/8)][Kin][8]: for each k one row of eight numbers,
 * so that a register tile reads its panel from front to back. Columns beyond N are zero. Sources
 * are bytes of a file: little-endian, unaligned, of any number type.
 */
#ifndef SS_MATH_PACK_H
#define SS_MATH_PACK_H

#include "../base/tensor.h"

#include <stddef.h>

/* Floats in the panels of an N-column matrix; the caller has proved that N * Kin fits. */
size_t ss_panels_floats(size_t N, size_t Kin);

/*
 * Element (n, k) is number n*stride_n + k*stride_k of source: [out][in] is (in, 1), [in][out] is
 * (1, out). Returns the number of the first element that is NaN or infinite, else SIZE_MAX.
 */
size_t ss_pack(float *panels, const void *source, ss_dtype type, size_t N, size_t Kin,
               size_t stride_n, size_t stride_k);

/* n numbers as they stand; returns like ss_pack. */
size_t ss_unpack_floats(float *out, const void *source, ss_dtype type, size_t n);

/* out[k] = element (n, k): an embedding's row out of panels that are the head as well. */
void ss_panel_column(float *out, const float *panels, size_t n, size_t Kin);

/* T keys of K floats, stride floats apart, as the T columns of a matrix with K rows. */
void ss_pack_keys(float *panels, const float *keys, size_t stride, size_t T, size_t K);

#endif
