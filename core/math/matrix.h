/*
 * Matrix: weights as their file holds them, and the product with them.
 *
 * The numbers stay where the file's bytes lie, in the type in which they are stored. A product
 * unpacks the columns it is about to use into a small panel of floats and multiplies all rows with
 * it, so that a model in memory is as large as its file. Unpacking costs what 1/T of the product
 * costs, times a small factor: it is next to nothing for a prompt and most of the time for one
 * token. Where that matters, a small model has all its panels beside it (ss_model_keep_panels), and
 * a large one, whose bytes its owner may change, has its rows interleaved where they lie
 * (ss_model_interleave).
 */
#ifndef SS_MATH_MATRIX_H
#define SS_MATH_MATRIX_H

#include "../base/pool.h"
#include "../base/tensor.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ss_matrix {
    const unsigned char *data; /* of the whole tensor, or of one slice of three dimensions */
    ss_dtype type;
    const float *scales; /* [total] of SS_I8, one for each output of the tensor; else NULL */
    size_t in, out;      /* K rows, N columns of the product */
    size_t total;        /* outputs of the tensor; ours are some of them */
    size_t first;        /* output n of ours is */
    size_t group;        /*     first + n / group * step + n % group */
    size_t step;         /* of the tensor's */
    size_t pair; /* GGUF's llama: rows of heads this wide lie as rotary pairs side by side; or 0 */
    const float *panels;  /* all columns as a product reads them (pack.h), for who multiplies with
                             them often; NULL: they are unpacked each time */
    struct ss_int8 *int8; /* all columns in eight bits (int8.h): the product is then of whole
                               numbers, and approximate; NULL: it is exact */
    bool in_out;          /* [in][total] as Conv1D of GPT-2 has it until it is interleaved, else
                             [total][in] */
    bool interleaved;     /* of each eight outputs that lie side by side, [in][8] in their place, of
                             16 bits [in/2][8][2], of types in fixed point blocks side by side
                             (blocks.h); the last outputs, fewer, are as they were */
} ss_matrix;

/* Whether its products are of integers (fixed.h). */
bool ss_matrix_is_fixed(const ss_matrix *w);

/* The tensor's output that is output n of ours. */
size_t ss_matrix_place(const ss_matrix *w, size_t n);

/* Floats of work that a product of T rows with a matrix of that many inputs needs, by so many
 * workers of a pool. */
size_t ss_matrix_work(size_t T, size_t in, size_t workers);

/* out[t] = a[t] w + bias for T rows; out may be a, where out and in are the same number; bias [out]
 * or NULL; work of ss_matrix_work(T, in, the pool's workers) floats. The pool's threads share the
 * outputs. */
void ss_matrix_times(float *out, const float *a, const ss_matrix *w, const float *bias, size_t T,
                     float *work, ss_pool *pool);

/* panels[ceil(out/8)][in][8] <- all of w. */
void ss_matrix_panels(float *panels, const ss_matrix *w);

/*
 * Interleaves the outputs of w in the bytes of its file, which must be the caller's to change and
 * in which no other matrix may have these outputs. Where the tensor is [in][total], the matrix that
 * has its first output moves all of it: it comes first, and all matrices of the tensor are
 * interleaved, which differ in `first` alone. Panels and bytes of int8 are made of matrices that
 * are not interleaved. Matrices of other quantized types, those whose outputs no panel would hold,
 * and those that have panels, stay as they are.
 */
void ss_matrix_interleave(ss_matrix *w, float *work);

/* Floats of work that it takes. */
size_t ss_matrix_interleave_work(const ss_matrix *w);

/* Fills the panels of all of w; work of ss_matrix_work(0, in, 1) floats. */
void ss_matrix_int8(struct ss_int8 *made, const ss_matrix *w, float *work);

/* out[in] = the weights of output n: of an embedding, the vector of token n. */
void ss_matrix_output(float *out, const ss_matrix *w, size_t n);

/* One of them: from input k to output n. */
float ss_matrix_weight(const ss_matrix *w, size_t n, size_t k);

/* [in][8]: outputs n, a multiple of 8, to n + 8 as products read them (pack.h), zeros for those
 * that there are not; where they lie, or in work of 16 in floats. */
const float *ss_matrix_panel(float *work, const ss_matrix *w, size_t n);

#endif
