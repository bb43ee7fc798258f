/*
 * Blocks: the quantised types. Of GGUF's, 32 or 256 numbers share one or two half-precision scales;
 * I8 is without the scale of its row, which is the matrix's.
 *
 * What they are made of is groups of 32 numbers: integers q, a factor, and in some types a
 * summand. A group's numbers are q d + m; the product and the sum are those of the format's own
 * reader, and give the same floats.
 *
 * Products with some types are of integers (fixed.h). They read eight rows that lie side by side: of
 * each group what its blocks begin with, two bytes of every row after two bytes of every row, and then
 * the integers as in fixed.h. Blocks of several groups have their beginning distributed over these.
 */
#ifndef SS_MATH_BLOCKS_H
#define SS_MATH_BLOCKS_H

#include "../base/tensor.h"
#include "fixed.h"
#include "kernels.h"

/*
 * Groups [first, first + n) of each of `lanes` rows, n and lanes at most what fits; first is a
 * multiple of SS_GROUPS. I8's factors are the matrix's, and left alone.
 */
void ss_read_groups(ss_groups *groups, ss_dtype type, const unsigned char *const rows[],
                    size_t lanes, size_t first, size_t n);

/* Whether products with the type are of integers. */
bool ss_is_fixed(ss_dtype type);

/* out <- n blocks of such a type, of eight rows side by side of which `lanes` are there: of the others,
 * zeros. As many bytes as those of eight rows. */
void ss_join_blocks(unsigned char *out, const unsigned char *const rows[], size_t lanes,
                    ss_dtype type, size_t n);

/* Of rows side by side groups [0, n), of a type of blocks of several groups those of one block. */
void ss_read_fixed_groups(ss_fixed_groups *groups, ss_dtype type, const unsigned char *joined,
                          size_t n);

#endif
