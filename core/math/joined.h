/*
 * Eight rows side by side, of the types whose products are of integers (fixed.h): of each group
 * what its blocks begin with, two bytes of every row after two bytes of every row, and then the
 * integers as in fixed.h. Blocks of several groups have their beginning distributed over these.
 */
#ifndef SS_MATH_JOINED_H
#define SS_MATH_JOINED_H

#include "../base/tensor.h"
#include "fixed.h"

/* Whether products with the type are of integers. */
bool ss_is_fixed(ss_dtype type);

/* out <- n blocks of such a type, of eight rows side by side of which `lanes` are there: of the
 * others, zeros. As many bytes as those of eight rows. */
void ss_join_blocks(unsigned char *out, const void *const rows[], size_t lanes, ss_dtype type,
                    size_t n);

/* Of rows side by side groups [0, n), of a type of blocks of several groups those of one block. */
void ss_read_fixed_groups(ss_fixed_groups *groups, ss_dtype type, const unsigned char *joined,
                          size_t n);

/*
 * Eight scales and eight minima of six bits in twelve bytes: the first four of each have a byte's
 * low six bits; the others four bits of a byte and the two that the first four left over. They
 * multiply a block's d and m; the product with m is subtracted.
 */
void ss_scale_groups(float d[][SS_PANEL], float m[][SS_PANEL], const float block_d[],
                     const float block_m[], const unsigned char *const scales[], size_t lanes,
                     size_t n);

#endif
