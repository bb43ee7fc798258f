/*
 * Unpacking: converts numbers as files store them to floats.
 *
 * Sources are bytes of a file: little-endian, unaligned. One function per type; each conversion is
 * exact or a fixed sequence of float operations, so that every build gives the same bits.
 */
#ifndef SS_MATH_UNPACK_H
#define SS_MATH_UNPACK_H

#include "../base/tensor.h"

#include <stddef.h>

/* Unpacks n numbers of source into out; n is a multiple of the type's block. */
void ss_unpack(float *out, const unsigned char *source, ss_dtype type, size_t n);

/* Returns the index of the first of n numbers that is NaN or infinite, or SIZE_MAX if all are
 * finite. For a block type it is the index of the first number of the first block whose scale is
 * not finite; for MXFP4, of the first block whose exponent is above 252, or below 3 in a block that
 * has other numbers than 0. */
size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n);

#endif
