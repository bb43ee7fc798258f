/*
 * Unpacking: numbers as files store them -> floats.
 *
 * Sources are bytes of a file: little-endian, unaligned. One function per type; each conversion is
 * exact or a fixed sequence of float operations, so that every build gives the same bits.
 */
#ifndef SS_MATH_UNPACK_H
#define SS_MATH_UNPACK_H

#include "../base/tensor.h"

#include <stddef.h>

/* out[n] <- n numbers of source; n is a multiple of the type's block. */
void ss_unpack(float *out, const unsigned char *source, ss_dtype type, size_t n);

/*
 * The number of the first of n that is NaN or infinite, else SIZE_MAX. Of a block type the number
 * of the first in a block whose scale is.
 */
size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n);

#endif
