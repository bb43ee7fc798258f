/*
 * Packing: copies matrices into the order in which ss_matmul reads them.
 *
 * Panels hold eight columns, [ceil(N/8)][Kin][8]: for each k one row of eight numbers, so that a
 * register tile reads its panel sequentially. Columns beyond N are zero.
 */
#ifndef SS_MATH_PACK_H
#define SS_MATH_PACK_H

#include <stddef.h>

/* Returns the number of floats in the panels of a matrix with N columns; the caller has checked
 * that N * Kin fits. */
size_t ss_panels_floats(size_t N, size_t Kin);

/* Packs the N rows of Kin floats, stride floats apart, as N columns. */
void ss_pack_rows(float *panels, const float *rows, size_t stride, size_t N, size_t Kin);

/* Packs Kin rows of N floats, stride apart, as N columns: a row stays a row of each panel. */
void ss_pack_columns(float *panels, const float *rows, size_t stride, size_t N, size_t Kin);

#endif
