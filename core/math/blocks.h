/*
 * Blocks: the quantised types. Of GGUF's, 32 or 256 numbers share one or two half-precision scales;
 * I8 is without the scale of its row, which is the matrix's.
 *
 * out[n] <- the n / block blocks at source. The products and sums are those of the format's own
 * reader, in its order, so that both give the same floats.
 */
#ifndef SS_MATH_BLOCKS_H
#define SS_MATH_BLOCKS_H

#include <stddef.h>

#define SS_BLOCKS(name) void ss_unpack_##name(float *out, const unsigned char *source, size_t n)

SS_BLOCKS(i8);
SS_BLOCKS(q8_0);
SS_BLOCKS(q4_0);
SS_BLOCKS(q4_1);
SS_BLOCKS(q5_0);
SS_BLOCKS(q5_1);
SS_BLOCKS(q4_k);
SS_BLOCKS(q5_k);
SS_BLOCKS(q6_k);

#endif
