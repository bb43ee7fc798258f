/*
 * Model: the architecture and its weights, ready to run.
 *
 * Matrices stay where the file's bytes lie (math/matrix.h), so the files must outlive the model;
 * vectors become floats in the model's arena. Shapes and finiteness are proved here, so that
 * nothing behind this room can fail on them.
 */
#ifndef SS_MODEL_MODEL_H
#define SS_MODEL_MODEL_H

#include "../base/arena.h"
#include "../math/matrix.h"
#include "arch.h"
#include "files/container.h"

/* y = x w + b. */
typedef struct ss_linear {
    ss_matrix w;
    const float *bias; /* [out] or NULL */
} ss_linear;

typedef struct ss_norm {
    const float *gain; /* [D], [K], [H*K] or [G*K]; NULL: there is no such norm */
    const float *bias; /* the same, or NULL */
} ss_norm;

typedef struct ss_ffn {
    ss_linear gate;     /* D -> F, gated feed-forward only */
    ss_linear up;       /* D -> F */
    ss_linear down;     /* F -> D */
    const float *curve; /* [4] of xielu: slopes above and below 0, beta, eps; or NULL */
} ss_ffn;

/* A mixer with a state (arch.h): v is written into the state under k and read by q. */
typedef struct ss_mixer {
    ss_linear q, k, v;      /* D -> keys * key width, the same, values * value width */
    ss_linear z;            /* D -> values * value width, the gate; none of a convolution */
    ss_linear beta, step;   /* D -> values: factors of writing and of forgetting */
    ss_linear out;          /* values * value width -> D */
    const float *taps[3];   /* [width of q, k, v][kernel]; NULL: no convolution */
    const float *biases[3]; /* the same, without the kernel */
    const float *decay;     /* [values] negative: the state is multiplied by exp(decay step) */
    const float *offset;    /* [values] added to steps */
    const float *skip;      /* [values] factor of v in the output, or NULL */
    const float *norm;      /* gain of all values, or of one head for all heads; or NULL */
} ss_mixer;

typedef struct ss_layer {
    ss_norm attention_norm, ffn_norm;         /* none with branch norms only */
    ss_norm attention_out_norm, ffn_out_norm; /* branch norms only */
    ss_norm v_norm;                           /* [U] ones, or none */
    ss_norm q_norm, k_norm;                   /* [K], or [H*K] and [G*K] of all heads as one */
    ss_linear q;                              /* D -> H*K */
    ss_linear k, v;                           /* D -> G*K, D -> G*U */
    ss_linear q_latent, kv_latent;            /* D -> input of q, and of k and v; data NULL: none */
    ss_norm q_latent_norm, kv_latent_norm;
    ss_linear k_shared;              /* D -> the rotated part of all keys; k has the rest of each */
    ss_linear o;                     /* H*U -> D; U -> D where heads are added */
    const float *sinks;              /* [H] sink logits, or NULL */
    const float *bias_keys;          /* [G][K], or [1][K] that all share, or NULL */
    const float *bias_values;        /* the same, U for K; NULL: zeros */
    const float *value_biases;       /* [H][U], or [1][U], or NULL */
    const float *scale;              /* [1] factor of the stream after the layer, or NULL */
    ss_linear gate;                  /* D -> gated heads * gate width, gated only */
    ss_linear kernel_in, kernel_out; /* K -> K, the mlp feature map; data NULL: there is none */
    ss_mixer mixer;
    ss_ffn ffn;               /* with experts: the one that every token goes through, if any */
    ss_ffn *experts;          /* [E], or NULL */
    ss_linear router;         /* D -> E */
    const float *router_bias; /* [E], added for the choice but not in weights; or NULL */
    ss_linear shared_gate;    /* D -> 1: factor of ffn beside experts; none: 1 */
} ss_layer;

typedef struct ss_model {
    ss_arch arch;
    ss_linear embedding;     /* outputs are token vectors: width -> V; the head too, where tied */
    ss_linear head;          /* D -> V, or embedding width -> V; data NULL: there are no logits */
    ss_linear embedding_in;  /* embedding width -> D; data NULL: they are the same */
    ss_linear head_in;       /* D -> embedding width, likewise; with a norm of the head D -> D */
    ss_norm head_norm;       /* of activation(head_in), before the head; none in most models */
    ss_norm embedding_norm;  /* none in most models */
    const float *positions;  /* [context][D], learned positions only */
    const float *token_type; /* [D] of type 0, which every token has, or NULL */
    const float *rotary;     /* [rotary_width/2] frequencies, rotary and sinusoid */
    const float *window_rotary; /* the same of windowed layers, where they have their own */
    ss_norm norm;               /* the last one; none with post norm */
    ss_layer *layers;           /* [blocks] */
    size_t parameters;          /* numbers in the file that the model uses */
    size_t widest;              /* inputs of the widest matrix */
} ss_model;

/* Returns the `width` numbers of head h, which are its own or shared by all; NULL if there are
 * none. */
static inline const float *ss_owned(const float *numbers, ss_owner owner, int h, int width) {
    if (!numbers) return NULL;
    return numbers + (owner == SS_OWNER_SHARED ? 0 : (size_t)h * (size_t)width);
}

/* Bytes of arena that ss_model_open takes; checks every name and shape, reads no weight. */
ss_status ss_model_size(size_t *bytes, const ss_arch *arch, const ss_container *container,
                        ss_error *err);

/*
 * Finds the weights and proves them. SS_BAD_TENSOR with the tensor's name, expected and actual;
 * weights that are NaN or infinite are refused with their index.
 */
ss_status ss_model_open(ss_model *model, const ss_arch *arch, const ss_container *container,
                        ss_arena *arena, ss_error *err);

/*
 * Takes panels for all matrices that products read and fills them, so that no product unpacks
 * weights from here on: a sixth of a run of 64 tokens, for four bytes a weight. No bit changes. Of
 * a model whose weights have changed since, to be called again on the same room. A measuring arena
 * counts.
 */
void ss_model_keep_panels(ss_model *model, ss_arena *arena);

/*
 * Interleaves the weights of the matrices that products read, unless they are quantized
 * (math/matrix.h): the memory is then read in one stream, and one token takes about half of its
 * time. No bit of a run changes, but the bytes of the model's files do, which must be the caller's
 * and in which no two tensors may share numbers. Work of ss_model_interleave_work floats.
 */
size_t ss_model_interleave_work(ss_model *model);
void ss_model_interleave(ss_model *model, float *work);

/*
 * Takes what products in eight bits read (math/int8.h), a byte for each weight, and fills it: from
 * here on the products with queries, keys, values, outputs, gates, feed-forwards and the head are
 * approximate. All else stays in floats: norms, attention, routers, feature maps. A measuring arena
 * counts; work of ss_matrix_work(0, widest, 1) floats.
 */
void ss_model_keep_int8(ss_model *model, ss_arena *arena, float *work);

/* Receives the names and shapes of a model's file. */
typedef struct ss_lister {
    void *context;
    void (*tensor)(void *context, const char *name, const ss_tensor *shape); /* some come twice */
    bool (*has)(void *context, const char *name); /* is one that not every file has to be there? */
} ss_lister;

/* Lists every tensor that ss_model_open would ask a safetensors file for. *bytes: of the arena
 * that it takes where that file's container is live. */
ss_status ss_model_list(size_t *bytes, const ss_arch *arch, const ss_lister *lister, ss_error *err);

#endif
