/*
 * Blocks: the quantized types. Of GGUF's, 32 or 256 numbers share one or two half-precision scales;
 * I8 is without the scale of its row, which is the matrix's.
 *
 * What they are made of is groups of 32 numbers: integers q, a factor, and in some types a
 * summand. A group's numbers are q d + m; the product and the sum are those of the format's own
 * reader, and give the same floats.
 */
#ifndef SS_MATH_BLOCKS_H
#define SS_MATH_BLOCKS_H

#include "../base/tensor.h"
#include "kernels.h"

/*
 * Groups [first, first + n) of each of `lanes` rows, n and lanes at most what fits; first is a
 * multiple of SS_GROUPS. I8's factors are the matrix's, and left alone.
 */
void ss_read_groups(ss_groups *groups, ss_dtype type, const unsigned char *const rows[],
                    size_t lanes, size_t first, size_t n);

#endif
