/*
 * Loader: the functions with which a family loads its tensors, in one line each.
 *
 * The loader keeps the first error and does nothing after it. With a measuring arena it checks
 * names and shapes and counts bytes, but reads no weights.
 */
#ifndef SS_MODEL_LOAD_H
#define SS_MODEL_LOAD_H

#include "model.h"

typedef struct ss_loader {
    const ss_container *container;
    const ss_lister
        *lister; /* called for every tensor, in place of searching the container; or NULL */
    ss_arena *arena;
    const char *const *prefixes; /* prefixes of the family's files, up to NULL; ss_load_embeddings
                                    selects one */
    const char *prefix;          /* precedes every name, "" or "transformer." */
    int layer;                   /* number that replaces %d in names */
    unsigned char
        *is_read; /* [container->n] 1 for each tensor that was read; NULL while measuring */
    size_t parameters;
    size_t widest; /* inputs of the widest matrix so far */
    ss_status status;
    ss_error *err;
} ss_loader;

/* A matrix [out][in] of type I8 has a second tensor "<its name>_scale", F32 [out][1], as
 * compressed-tensors stores it: the integers of each row are multiplied by the scale of the row.
 * Vectors are never I8. */

typedef enum ss_layout {
    SS_OUT_IN, /* [out][in], torch.nn.Linear and embeddings */
    SS_IN_OUT  /* [in][out], the Conv1D of GPT-2 */
} ss_layout;

/* A matrix of in inputs and out outputs, and its place in a tensor with `total` outputs: output n
 * of the matrix is output first + n / group * step + n % group of the tensor. Zeros mean that the
 * matrix is all of a tensor of two dimensions. */
typedef struct ss_place {
    ss_layout layout;
    size_t in, out;
    size_t total;       /* outputs of the tensor; 0: out */
    size_t first;       /* index in the tensor of the matrix's first output */
    size_t group, step; /* outputs come in groups of `group` adjacent ones, whose starts are `step`
                           apart; 0: all are adjacent */
    size_t pair; /* head width, if the file stores the two rows of a rotary pair next to each other;
                    or 0 */
    size_t unpaired;      /* number of last dimensions of a head that do not rotate */
    bool pairs_last;      /* the file has the unrotated dimensions before the pairs */
    bool halves;          /* with pairs_last: pairs are not next to each other */
    size_t slices, slice; /* the tensor is [slices][..][..], and the matrix in one slice of it;
                             slices 0: the tensor has two dimensions */
} ss_place;

/* Returns true for files of that format, in which families may order tensors differently. */
bool ss_load_is_format(const ss_loader *loader, ss_format format);

/* Returns true if the file has that tensor; prefix and layer's number are inserted. */
bool ss_load_has_tensor(const ss_loader *loader, const char *name);

/* Returns true if the model's operation reads these sink logits and config.json does not give one
 * for all heads, or the file has them. With another operation they are refused as unread. */
bool ss_load_has_sinks(const ss_loader *loader, const ss_arch *arch, const char *name);

/* Loads the matrix of that name, which stays in the file's bytes. `bias` names a vector
 * of place->total numbers ([slices][total] if the tensor has slices); those of the outputs of the
 * matrix are loaded. NULL: there is no bias. */
void ss_load_matrix(ss_loader *loader, ss_linear *linear, const ss_place *place, const char *name,
                    const char *bias);

/* Loads the matrix "<name>.weight" and, if has_bias, the bias "<name>.bias". */
void ss_load_linear_at(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                       const ss_place *place);

/* Calls ss_load_linear_at for a matrix that is all of a tensor [out][in]. */
void ss_load_linear(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                    size_t in, size_t out);

/* Loads the gain [n] "<name>.weight" and, if has_bias, the bias "<name>.bias". */
void ss_load_norm(ss_loader *loader, ss_norm *norm, const char *name, bool has_bias, size_t n);

/* Loads q, k and v from one matrix: all queries, then all keys, then all values. by_group means
 * that the matrix has the queries, the key and the value of one group after another; GGUF does not
 * keep this order. */
void ss_load_qkv(ss_loader *loader, ss_layer *layer, const ss_arch *arch, const char *name,
                 ss_layout layout, bool by_group);

/* Selects the prefix of all later names, and loads the embedding and then the head. Files that were
 * saved from the base model (AutoModel of transformers) have names without prefix and no head; the
 * first of loader->prefixes is that of a listing, and of errors if no name has any of them. A tied
 * file may store the embedding under the head's name. */
void ss_load_embeddings(ss_loader *loader, ss_model *model, const char *embedding,
                        const char *head);

/* Selects the prefix, as ss_load_embeddings does; `name` is a tensor that every file has. */
void ss_load_find_prefix(ss_loader *loader, const char *name);

/* Loads the head, by a name without prefix, and its bias [V] if arch has one. A tied head is the
 * embedding; if the file has the head as well, it must be equal to the embedding. A file without an
 * untied head gives a model without logits. */
void ss_load_head(ss_loader *loader, ss_model *model, const char *name);

/* Loads numbers as floats, in the arena or, from a live container, in place. Their shape is
 * [rows][n]; [n] if rows is 0; that of a single number if both are 0. */
float *ss_load_numbers(ss_loader *loader, const char *name, size_t rows, size_t n);

/* Loads a convolution's kernels, one for each channel: [channels][1][kernel] in safetensors files,
 * [channels][kernel] in GGUF and in the arena. */
float *ss_load_taps(ss_loader *loader, const char *name, size_t channels, size_t kernel);

/* Returns n ones in the arena, as the gain of a norm that has none. */
float *ss_load_ones(ss_loader *loader, size_t n);

/* Loads [heads][n], or [1][n] if heads share them (ss_head_vector); NULL if `owner` is none. */
float *ss_load_head_vectors(ss_loader *loader, const char *name, ss_owner owner, size_t heads,
                            size_t n);

typedef void ss_load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch);
typedef void ss_load_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e);

/* Loads every layer of the model with `load`; loader->layer is the number of the layer. */
void ss_load_layers(ss_loader *loader, ss_model *model, ss_load_layer *load);

/* Loads the router of a layer, by its name, and its experts [E], each with `load`. */
void ss_load_experts(ss_layer *layer, ss_loader *loader, const ss_arch *arch, const char *router,
                     bool has_bias, ss_load_expert *load);

/* Prepares the loader to mark the tensors that are read. */
void ss_load_begin(ss_loader *loader);

/* Refuses a file with a tensor that was not read, because the tensor might change what the model
 * computes. Buffers, and parts for other tasks, are ignored. */
void ss_refuse_unread_tensors(ss_loader *loader, const ss_arch *arch);

#endif
