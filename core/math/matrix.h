/*
 * Matrix: weights as their file stores them, and the product with them.
 *
 * Weights stay in the file's bytes, in their stored type. A product unpacks the columns it is about
 * to use into a small panel of floats and multiplies all rows with it, so that a model in memory is
 * as large as its file. Unpacking costs a small multiple of 1/T of the product: next to nothing for
 * a prompt, and most of the time for one token. Where that matters, a small model keeps all its
 * panels as well (ss_model_keep_panels), and a large one, if the caller allows changes to its
 * bytes, has its rows interleaved in place (ss_model_interleave).
 */
#ifndef SS_MATH_MATRIX_H
#define SS_MATH_MATRIX_H

#include "../base/pool.h"
#include "../base/tensor.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ss_matrix {
    const unsigned char
        *data; /* first byte of the tensor, or of one slice of a three-dimensional tensor */
    ss_dtype type;
    const float *scales; /* [total] for SS_I8, one per output of the tensor; else NULL */
    size_t in, out;      /* K rows and N columns of the product */
    size_t total;        /* outputs of the tensor; this matrix may be a part of it */
    size_t first; /* output n of the matrix is output first + n / group * step + n % group of the
                     tensor */
    size_t group; /* number of adjacent outputs; the next group begins `step` outputs later */
    size_t step;  /* outputs of the tensor from one group to the next */
    size_t pair;  /* width of heads whose rows the file stores as adjacent rotary pairs; or 0 */
    size_t
        unpaired; /* number of rows of such a head that do not rotate; they are its last outputs */
    bool pairs_last;     /* the file has the unpaired rows before the pairs */
    bool halves;         /* with pairs_last: the pairs are in order, not adjacent */
    const float *panels; /* all columns as a product reads them (pack.h), for frequent products;
                            NULL: each product unpacks them */
    bool in_out;      /* [in][total], like GPT-2's Conv1D, until the outputs are interleaved; else
                         [total][in] */
    bool interleaved; /* every eight adjacent outputs are stored in place as [in][8], 16-bit types
                         as [in/2][8][2], fixed-point types as joined blocks (joined.h); a last
                         panel of fewer outputs stays unchanged */
} ss_matrix;

/* Returns true if products with the matrix use integers (fixed.h). */
bool ss_matrix_is_fixed(const ss_matrix *w);

size_t ss_matrix_place(const ss_matrix *w, size_t n);

/* Returns the number of floats of working memory that a product of T rows with a matrix of `in`
 * inputs needs on a pool of `workers` threads. */
size_t ss_matrix_work(size_t T, size_t in, size_t workers);

/* Computes out[t] = a[t] w + bias for T rows. out may be a if out and in are equal; bias is [out]
 * or NULL; work has ss_matrix_work(T, in, workers of the pool) floats. The pool's threads share the
 * outputs. */
void ss_matrix_times(float *out, const float *a, const ss_matrix *w, const float *bias, size_t T,
                     float *work, ss_pool *pool);

/* Unpacks all of w into panels[ceil(out/8)][in][8]. */
void ss_matrix_unpack(float *panels, const ss_matrix *w);

/* Interleaves the outputs of w in the file's bytes. The caller must own the bytes, and no other
 * matrix may have the same outputs. For a tensor [in][total], the matrix with the tensor's first
 * output moves all of it: call it first, then for each other matrix of the tensor, which may differ
 * in `first` only. Build panels before interleaving. Matrices of other quantized
 * types, those whose outputs do not form panels, and those that have panels stay unchanged. */
void ss_matrix_interleave(ss_matrix *w, float *work);

size_t ss_matrix_interleave_work(const ss_matrix *w);

/* Writes the weights of output n to out[in]; output n of an embedding is the vector of token n. */
void ss_matrix_unpack_output(float *out, const ss_matrix *w, size_t n);

float ss_matrix_weight(const ss_matrix *w, size_t n, size_t k);

/* Returns outputs n to n + 8, n a multiple of 8, as [in][8], the panel that products read (pack.h),
 * with zeros beyond the last output: in place, or in work, which has 16 * in floats. */
const float *ss_matrix_panel(float *work, const ss_matrix *w, size_t n);

#endif
