/* What bindings.c, recording.c and training.c share: one error, views, and blocks for arenas. */
#ifndef SS_WASM_BINDINGS_H
#define SS_WASM_BINDINGS_H

#include "../../core/sinkscope.h"

/* It changes whenever a call, a word of a view or a word of an edit changes its meaning. */
#define WASM_ABI_VERSION 10

/* For JavaScript: [address, type, rank, dims x 4, strides x 4, 0], strides in elements. */
typedef struct wasm_view {
    uint32_t address, type, rank, dims[SS_RANK_MAX], strides[SS_RANK_MAX], zero;
} wasm_view;

typedef struct wasm_file {
    uint32_t address, bytes;
} wasm_file;

/* A run. For a prompt of a recording, only the trace of `run` is set. */
typedef struct wasm_run {
    void *block;
    float *numbers; /* numbers of the last metric or of the last computed maps */
    ss_run run;
} wasm_run;

extern ss_error wasm_error;
extern ss_pool *wasm_pool; /* the pool of later runs; NULL except in the binaries with threads */

/* Returns a zeroed handle of that size; NULL, with the error, if memory is short. */
void *wasm_new(size_t bytes);

void ss_wasm_close_run(wasm_run *run);

/* Returns an arena on a new block; *block is NULL, with the error, if memory is short. */
ss_arena wasm_reserve_arena(void **block, size_t bytes);

/* Returns an F32 tensor with that shape and dense strides, without data. */
ss_tensor wasm_dense(size_t dims[SS_RANK_MAX], int rank);

/* Write a view and return SS_OK. */
int wasm_view_bytes(wasm_view *view, const void *data, size_t n);
int wasm_view_tensor(wasm_view *view, const ss_tensor *tensor);

#endif
