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
    const ss_lister *lister; /* called for every tensor instead of finding it; or NULL */
    ss_arena *arena;
    const char *prefix;   /* precedes every name, "" or "transformer." */
    int layer;            /* fills the %d of names */
    unsigned char *found; /* [container->n] 1 for a tensor that was read; NULL: only measuring */
    size_t parameters;
    size_t widest; /* inputs of the widest matrix so far */
    ss_status status;
    ss_error *err;
} ss_loader;

/*
 * A matrix [out][in] of type I8 has beside it a tensor "<its name>_scale", F32 [out][1], with which
 * the whole numbers of each row are multiplied, as compressed-tensors stores it. Vectors are never
 * I8.
 */

/* How a matrix lies in the file. */
typedef enum ss_layout {
    SS_OUT_IN, /* [out][in], torch.nn.Linear and embeddings */
    SS_IN_OUT  /* [in][out], the Conv1D of GPT-2 */
} ss_layout;

/*
 * A matrix of in inputs and out outputs, and its place in its tensor: output n is output
 * first + n / group * step + n % group of the tensor's total. Zeros mean the plain case: all of a
 * tensor of two dimensions.
 */
typedef struct ss_place {
    ss_layout layout;
    size_t in, out;
    size_t total; /* outputs of the tensor; 0: out */
    size_t first; /* where ours begin */
    size_t group,
        step;    /* `group` adjacent outputs, the next group `step` further on; 0: all adjacent */
    size_t pair; /* head width, if the file keeps rotary pairs side by side; or 0 */
    size_t unpaired;      /* of that width, the last dimensions, which do not rotate */
    bool pairs_last;      /* the file has those before the pairs */
    size_t slices, slice; /* of a tensor [slices][..][..], this one; slices 0: no such dimension */
} ss_place;

/* True if the files are of that format, which may keep tensors in an order of its own. */
bool ss_load_is(const ss_loader *loader, ss_format format);

/* True if the prefixed, numbered name is in the file. */
bool ss_load_has(const ss_loader *loader, const char *name);

/*
 * The matrix of that name, left in its place. bias names a vector of place->total numbers ([slices]
 * of them where there are slices), and the same outputs of it are taken, or is NULL.
 */
void ss_load_matrix(ss_loader *loader, ss_linear *linear, const ss_place *place, const char *name,
                    const char *bias);

/* The matrix "<name>.weight", with its bias "<name>.bias" where has_bias. */
void ss_load_place(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                   const ss_place *place);

/* The plain case of it: all of a tensor [out][in]. */
void ss_load_linear(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                    size_t in, size_t out);

/* The gain [n] "<name>.weight", with its bias where has_bias. */
void ss_load_norm(ss_loader *loader, ss_norm *norm, const char *name, bool has_bias, size_t n);

/*
 * q, k and v from one matrix: all queries, then all keys, then all values. by_group: the queries of
 * a group, its key and its value, then the next group's, which GGUF keeps like the others.
 */
void ss_load_qkv(ss_loader *loader, ss_layer *layer, const ss_arch *arch, const char *name,
                 ss_layout layout, bool by_group);

/* Like ss_load_linear for the head, whose name has no prefix; the embedding, where it is tied. */
void ss_load_head(ss_loader *loader, ss_model *model, const char *name);

/* The same with a bias [V], which a tied head has beside the embedding. */
void ss_load_biased_head(ss_loader *loader, ss_model *model, const char *name);

/* Numbers of shape [rows][n], or [n] where rows is 0, or one number of no shape where both are, as
 * floats in the arena. */
float *ss_load_numbers(ss_loader *loader, const char *name, size_t rows, size_t n);

/* The kernels of a convolution of each channel by itself: [channels][1][kernel] in safetensors
 * files, [channels][kernel] in GGUF and here. */
float *ss_load_taps(ss_loader *loader, const char *name, size_t channels, size_t kernel);

/* n ones in the arena: the gain of a norm that has none. */
float *ss_load_ones(ss_loader *loader, size_t n);

/*
 * [heads][n] numbers of attention, or [1][n] where they are shared (ss_owned). NULL where no owner
 * is.
 */
float *ss_load_owned(ss_loader *loader, const char *name, ss_owner owner, size_t heads, size_t n);

/* What a family does for one layer, and for expert e of one layer. */
typedef void ss_load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch);
typedef void ss_load_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e);

/* Loads every layer of the model; in load, names get its number. */
void ss_load_layers(ss_loader *loader, ss_model *model, ss_load_layer *load);

/* [E] experts of the layer; NULL while measuring. */
ss_ffn *ss_load_experts(ss_loader *loader, const ss_arch *arch, ss_load_expert *load);

/* Takes room to mark the tensors that are read. */
void ss_load_begin(ss_loader *loader);

/* Refuses, by its name, a tensor that was not read and would change what the model computes, as far
 * as this build knows: all but buffers, and parts for other tasks. */
void ss_load_end(ss_loader *loader, const ss_arch *arch);

#endif
