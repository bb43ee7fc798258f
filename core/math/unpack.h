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

/*
 * Index of the first of n numbers that is NaN or infinite, else SIZE_MAX. For a block type, the
 * index of the first number of the first block with such a scale.
 */
size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n);

#endif
