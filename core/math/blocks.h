/*
 * Blocks: the quantized types. In GGUF's types, 32 or 256 numbers share one or two half-precision
 * scales, of MXFP4 one power of two; SS_I8 has one scale per row, which ss_matrix holds.
 *
 * Every block consists of groups of 32 numbers: integers q, a factor d, and in some types a summand
 * m. A group's numbers are q d + m; the product and the sum are rounded as the format's own reader
 * rounds them, so they are the same floats.
 */
#ifndef SS_MATH_BLOCKS_H
#define SS_MATH_BLOCKS_H

#include "../base/tensor.h"
#include "kernels.h"

/* Reads groups [first, first + n) of `lanes` rows, n at most SS_GROUPS and lanes at most SS_PANEL;
 * first is a multiple of SS_GROUPS. For SS_I8 the factors stay unchanged, because the matrix holds
 * them. */
void ss_read_groups(ss_groups *groups, ss_dtype type, const unsigned char *const rows[],
                    size_t lanes, size_t first, size_t n);

#endif
