/* What bindings.c and training.c share: one error, views, and blocks for arenas. */
#ifndef SS_WASM_BINDINGS_H
#define SS_WASM_BINDINGS_H

#include "../../core/sinkscope.h"

/* Changes whenever a call, a word of a view or a word of an edit changes its meaning. */
#define WASM_ABI_VERSION 9

/* [address, type, rank, dims x 4, strides x 4, 0]; strides in elements. */
typedef struct wasm_view {
    uint32_t address, type, rank, dims[SS_RANK_MAX], strides[SS_RANK_MAX], zero;
} wasm_view;

/* A file of weights that JavaScript has put into a reserved block. */
typedef struct wasm_file {
    uint32_t address, bytes;
} wasm_file;

/* A run; of a recording's prompt it has the trace alone. */
typedef struct wasm_run {
    void *block;
    float *numbers; /* the last metric, or maps that were computed */
    ss_run run;
} wasm_run;

extern ss_error wasm_error;
extern ss_pool *wasm_pool; /* NULL in all binaries but that of threads */

/* An arena on a new block of that size; *block is NULL, with the error, if there is none. */
ss_arena wasm_reserve_arena(void **block, size_t bytes);

/* A new F32 tensor's shape and strides, without data. */
ss_tensor wasm_dense(size_t dims[SS_RANK_MAX], int rank);

/* Each returns SS_OK. */
int wasm_view_bytes(wasm_view *view, const void *data, size_t n);
int wasm_view_tensor(wasm_view *view, const ss_tensor *tensor);

#endif
