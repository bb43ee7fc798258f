/*
 * Model: the architecture and its weights, ready to run.
 *
 * Matrices stay where the file's bytes lie (math/matrix.h), so the files must outlive the model;
 * vectors become floats in the model's arena. ss_model_open checks shapes and finiteness, so that
 * later stages cannot fail on them.
 */
#ifndef SS_MODEL_MODEL_H
#define SS_MODEL_MODEL_H

#include "../base/arena.h"
#include "../math/matrix.h"
#include "arch.h"
#include "files/container.h"

/* A product with weights: y = x w + b. */
typedef struct ss_linear {
    ss_matrix w;
    const float *bias; /* [out] or NULL */
} ss_linear;

typedef struct ss_norm {
    const float *gain; /* [D], [K], [H*K] or [G*K]; NULL: there is no such norm */
    const float *bias; /* as long as the gain, or NULL */
    float eps;         /* 0: the model's norm_eps */
} ss_norm;

typedef struct ss_ffn {
    ss_linear gate;     /* D -> F, gated feed-forward only */
    ss_linear up;       /* D -> F */
    ss_linear down;     /* F -> D */
    const float *curve; /* [4] for xielu: slopes above and below 0, beta, eps; or NULL */
} ss_ffn;

/* A mixer with a state (arch.h): v is written under key k, and read from it with q. */
typedef struct ss_mixer {
    ss_linear q, k, v;    /* D -> keys * key width for q and k, D -> values * value width for v */
    ss_linear z;          /* D -> values * value width: the gate; data NULL in a convolution */
    ss_linear beta, step; /* D -> values: the factor of what is written into the state, and the step
                             of the decay */
    ss_linear out;        /* values * value width -> D */
    const float *taps[3]; /* [width of q, k, v][kernel]; NULL: no convolution */
    const float *biases[3]; /* [width of q, k, v] of the convolution; or NULL */
    const float *decay;     /* [values] negative: the state is multiplied by exp(decay * step) */
    const float *offset;    /* [values] added to steps */
    const float *skip;      /* [values] factor of v in the output, or NULL */
    const float *norm;      /* gain [all values], or [value width] that all heads share; or NULL */
} ss_mixer;

typedef struct ss_layer {
    ss_norm attention_norm, ffn_norm; /* absent in models that have only branch norms */
    ss_norm attention_out_norm,
        ffn_out_norm;       /* branch norms: norms of the blocks' outputs; absent in most models */
    ss_norm v_norm;         /* gain [U] of ones, or absent */
    ss_norm q_norm, k_norm; /* [K]; or [H*K] and [G*K] for a norm of all heads as one vector */
    ss_linear q;            /* D -> H*K */
    ss_linear k, v;         /* D -> G*K, D -> G*U */
    ss_linear q_latent,
        kv_latent; /* D -> the input of q, and of k and v; data NULL: no compression */
    ss_norm q_latent_norm, kv_latent_norm;
    ss_linear
        k_shared; /* D -> the rotated part of keys, which all heads share; k gives the other part */
    ss_linear o;  /* H*U -> D; U -> D where heads are added */
    const float *sinks;        /* [H] sink logits, or NULL */
    const float *bias_keys;    /* [G][K], or [1][K] that all share, or NULL */
    const float *bias_values;  /* [G][U], or [1][U] that all share, or NULL: zeros */
    const float *value_biases; /* [H][U], or [1][U], or NULL */
    const float *scale;        /* [1] factor of the stream after the layer, or NULL */
    ss_linear gate;            /* D -> gated heads * gate width, gated only */
    ss_linear kernel_in,
        kernel_out; /* K -> K: the matrices of the mlp feature map; data NULL: there is none */
    ss_mixer mixer;
    ss_ffn ffn;               /* the feed-forward; with experts, the shared expert, if any */
    ss_ffn *experts;          /* [E], or NULL */
    ss_linear router;         /* D -> E */
    const float *router_bias; /* [E], added for the choice but not in weights; or NULL */
    ss_linear shared_gate;    /* D -> 1: factor of the shared expert; data NULL: the factor is 1 */
} ss_layer;

typedef struct ss_model {
    ss_arch arch;
    ss_linear embedding;    /* embedding width -> V: output n is the vector of token n; a tied head
                               uses this matrix too */
    ss_linear head;         /* D -> V, or embedding width -> V */
    bool headless;          /* the file has no head: there are no logits, and no losses */
    ss_linear embedding_in; /* embedding width -> D; data NULL: the widths are equal */
    ss_linear head_in; /* D -> embedding width; data NULL: the widths are equal; D -> D in a head
                          with a norm */
    ss_norm head_norm; /* norm of activation(head_in), before the head; none in most models */
    ss_norm embedding_norm;
    const float *positions;     /* [context][D], learned positions only */
    const float *token_type;    /* [D] of type 0, which every token has, or NULL */
    const float *rotary;        /* [rotary_width/2] frequencies, rotary and sinusoid */
    const float *window_rotary; /* [window rotary_width/2] frequencies of windowed layers, where
                                   they have their own */
    ss_norm norm;               /* the final norm; none with post norm */
    ss_layer *layers;           /* [blocks] */
    size_t parameters;          /* numbers in the file that the model uses */
    size_t widest;              /* number of inputs of the widest matrix */
} ss_model;

/* Returns the `width` numbers of head h, either the head's own or those that all heads share; NULL
 * if there are none. */
static inline const float *ss_head_vector(const float *numbers, ss_owner owner, int h, int width) {
    if (!numbers) return NULL;
    return numbers + (owner == SS_OWNER_SHARED ? 0 : (size_t)h * (size_t)width);
}

/* Computes the arena bytes of ss_model_open: checks names and shapes, reads no weights. */
ss_status ss_model_size(size_t *bytes, const ss_arch *arch, const ss_container *container,
                        ss_error *err);

/* Finds and checks the weights. Returns SS_BAD_TENSOR with the tensor's name, expected and actual;
 * weights that are NaN or infinite are refused with their index. */
ss_status ss_model_open(ss_model *model, const ss_arch *arch, const ss_container *container,
                        ss_arena *arena, ss_error *err);

/* Takes memory for panels of all weight matrices of the layers and the head and fills them, so that
 * later products unpack no weights; products in fixed point (math/fixed.h) need no panels. This
 * saves a sixth of a run of 64 tokens and takes four bytes per weight. No bit of a run changes.
 * After a change of the weights, the caller resets the arena and repeats the call. A measuring
 * arena only counts. */
void ss_model_keep_panels(ss_model *model, ss_arena *arena);

/* Interleaves the weights of those large matrices that math/matrix.h can interleave: products then
 * read memory in one stream, and a run of one token takes about half the time. No bit of a run
 * changes, but the bytes of the model's files do: the caller must own them, and no two tensors may
 * share numbers. `work` has ss_model_interleave_work floats. */
size_t ss_model_interleave_work(ss_model *model);
void ss_model_interleave(ss_model *model, float *work);

/* Callbacks that receive the names and shapes of the tensors of a model. */
typedef struct ss_lister {
    void *context;
    void (*tensor)(void *context, const char *name,
                   const ss_tensor *shape); /* called for each tensor, for some of them twice */
    bool (*has)(void *context,
                const char *name); /* returns true if the file has an optional tensor */
} ss_lister;

/* Lists every tensor that ss_model_open would look for in a safetensors file. *bytes becomes the
 * bytes of arena that ss_model_open takes if the container of the file is live, without its piece
 * of a byte for each tensor. */
ss_status ss_model_list(size_t *bytes, const ss_arch *arch, const ss_lister *lister, ss_error *err);

#endif
