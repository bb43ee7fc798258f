/*
 * Packing: matrices in the order in which ss_matmul reads them.
 *
 * Columns go together in panels of eight, [ceil(N/8)][Kin][8]: for each k one row of eight numbers,
 * so that a register tile reads its panel from front to back. Columns beyond N are zero.
 */
#ifndef SS_MATH_PACK_H
#define SS_MATH_PACK_H

#include <stddef.h>

/* Floats in the panels of an N-column matrix; the caller has proved that N * Kin fits. */
size_t ss_panels_floats(size_t N, size_t Kin);

/* N rows of Kin floats, stride floats apart, become the N columns. */
void ss_pack_rows(float *panels, const float *rows, size_t stride, size_t N, size_t Kin);

/* Kin rows of N floats, stride floats apart, stay rows. */
void ss_pack_columns(float *panels, const float *rows, size_t stride, size_t N, size_t Kin);

#endif
