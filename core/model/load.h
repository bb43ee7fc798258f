/*
 * Loader: what a family file says about its tensors, in one line each.
 *
 * It keeps the first error and does nothing after it. With a measuring arena it checks names and
 * shapes and counts room, and reads no weight.
 */
#ifndef SS_MODEL_LOAD_H
#define SS_MODEL_LOAD_H

#include "model.h"

typedef struct ss_loader {
    const ss_container *container;
    ss_arena *arena;
    const char *prefix; /* stands before every name, "" or "transformer." */
    int layer;          /* fills the %d of names */
    size_t parameters;
    ss_status status;
    ss_error *err;
} ss_loader;

/* How a matrix lies in the file. */
typedef enum ss_layout {
    SS_OUT_IN, /* [out][in], torch.nn.Linear and embeddings */
    SS_IN_OUT  /* [in][out], the Conv1D of GPT-2 */
} ss_layout;

/* True if the prefixed, numbered name is in the file. */
bool ss_load_has(const ss_loader *loader, const char *name);

/*
 * Packs columns [first, first + out) of the matrix at name, which must have in x total outputs.
 * bias is the name of a vector of total numbers, or NULL.
 */
void ss_load_columns(ss_loader *loader, ss_linear *linear, ss_layout layout, const char *name,
                     const char *bias, size_t in, size_t total, size_t first, size_t out);

/* Like ss_load_columns, but the whole matrix. */
void ss_load_linear(ss_loader *loader, ss_linear *linear, ss_layout layout, const char *name,
                    const char *bias, size_t in, size_t out);

/* Numbers of shape [rows][n], or [n] where rows is 0. */
const float *ss_load_numbers(ss_loader *loader, const char *name, size_t rows, size_t n);

/* [L], cleared; NULL while measuring, then layers are loaded into ss_load_layer's spare. */
ss_layer *ss_load_layers(ss_loader *loader, int L);

/* Layer l to fill: of layers, or spare while measuring. Names get the number l from here on. */
ss_layer *ss_load_layer(ss_loader *loader, ss_layer *layers, ss_layer *spare, int l);

#endif
