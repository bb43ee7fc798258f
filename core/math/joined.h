/* Joined blocks: eight rows interleaved, for the types with integer products (fixed.h). Each group
 * starts with the block's scale bytes, two of every row at a time, followed by the integers in the
 * order of fixed.h. A block of several groups distributes its scale bytes over the groups. */
#ifndef SS_MATH_JOINED_H
#define SS_MATH_JOINED_H

#include "../base/tensor.h"
#include "fixed.h"

/* Joins n blocks of `lanes` rows into the bytes of eight rows; the other rows become zeros. */
void ss_join_blocks(unsigned char *out, const void *const rows[], size_t lanes, ss_dtype type,
                    size_t n);

/* Reads groups [0, n) of joined rows; of a type with several per block, those of one block. */
void ss_read_fixed_groups(ss_fixed_groups *groups, ss_dtype type, const unsigned char *joined,
                          size_t n);

/* Unpacks eight 6-bit scales and eight 6-bit minima from twelve bytes: the first four of each are
 * the low six bits of a byte; the last four are four bits of a byte and the top two bits of the
 * first four. Scales multiply the block's d, minima its m; the product with m is subtracted. */
void ss_scale_groups(float d[][SS_PANEL], float m[][SS_PANEL], const float block_d[],
                     const float block_m[], const unsigned char *const scales[], size_t lanes,
                     size_t n);

#endif
