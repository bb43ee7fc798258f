/*
 * Architecture: the ONE description that every family is translated into.
 *
 * config.json -> ss_arch. The forward pass and all later stages read only this, not the
 * file. Sizes are capitals; all are at least 1 and their products fit a size_t.
 */
#ifndef SS_MODEL_ARCH_H
#define SS_MODEL_ARCH_H

#include "../base/bytes.h"
#include "../base/status.h"

#include <limits.h>

/* Upper bounds of the layers, and of the experts of a layer, that a config may ask for: far above
 * any published model. */
#define SS_LAYERS_MAX 1024
#define SS_EXPERTS_MAX 1024

typedef enum ss_positions {
    SS_POSITIONS_NONE,
    SS_POSITIONS_LEARNED, /* each position has a learned vector, added to the embedding */
    SS_POSITIONS_ROTARY,
    SS_POSITIONS_SINUSOID, /* sines, then cosines, of the rotary angles, added to the embedding
                              (Vaswani et al.) */
    SS_POSITIONS_ALIBI,    /* scores fall with the distance of the key (Press et al. 2022) */
    SS_POSITIONS_RELATIVE, /* the index of T5's bucket of the distance is added to scores, as in Gu
                              et al. */
    SS_POSITIONS_N
} ss_positions;
typedef enum ss_norm_kind { SS_NORM_LAYER, SS_NORM_RMS, SS_NORM_N } ss_norm_kind;
typedef enum ss_ffn_kind { SS_FFN_PLAIN, SS_FFN_GATED, SS_FFN_NONE, SS_FFN_N } ss_ffn_kind;

/* Whether attention has a vector (bias key, its value, value bias), and heads share it. */
typedef enum ss_owner { SS_OWNER_NONE, SS_OWNER_HEAD, SS_OWNER_SHARED, SS_OWNER_N } ss_owner;

/* What the sigmoids of attention's gate multiply (Qiu et al. 2025: G1 and G2). */
typedef enum ss_gate {
    SS_GATE_NONE,
    SS_GATE_OUTPUT_ELEMENT, /* every number of the outputs of a query's heads */
    SS_GATE_OUTPUT_HEAD,    /* each head's vector as a whole */
    SS_GATE_VALUE_ELEMENT,  /* every number of a token's values, before attention */
    SS_GATE_VALUE_HEAD,
    SS_GATE_VALUE_STATE, /* every number of a token's values, by a gate computed from these values
                          */
    SS_GATE_N
} ss_gate;

typedef enum ss_qk_norm {
    SS_QK_NORM_NONE,
    SS_QK_NORM_HEAD,         /* head by head, before rotation */
    SS_QK_NORM_HEAD_ROTATED, /* head by head, after rotation */
    SS_QK_NORM_ALL_HEADS,    /* the heads of a token as one vector, before rotation */
    SS_QK_NORM_OWN_HEAD,     /* head by head with gains of its own, before rotation */
    SS_QK_NORM_N
} ss_qk_norm;

typedef enum ss_router {
    SS_ROUTER_SOFTMAX,
    SS_ROUTER_SIGMOID, /* the sigmoid of each score; a bias is added when experts are chosen, not in
                          weights (DeepSeek-V3) */
    SS_ROUTER_SPARSEMIXER /* two experts, chosen one after the other; the weight of each is its
                       softmax over the scores near its own, for the second one without the first
                       (SparseMixer-v2 of Phi-3.5-MoE) */
} ss_router;

/* The value of ss_arch.prefix in a model whose queries also see all later keys. */
#define SS_EVERY_KEY INT_MAX

typedef enum ss_activation {
    SS_ACTIVATION_SILU,
    SS_ACTIVATION_GELU_TANH,
    SS_ACTIVATION_GELU, /* exact, with erf */
    SS_ACTIVATION_RELU,
    SS_ACTIVATION_RELU2,          /* the square of relu (So et al. 2021) */
    SS_ACTIVATION_CLAMPED_SWIGLU, /* gpt-oss: SwiGLU with gate_limit and gate_slope; needs a gate */
    SS_ACTIVATION_XIELU,          /* each layer has a curve of its own (Huang 2024); no gate */
    SS_ACTIVATION_N
} ss_activation;

/* How rotary positions are scaled beyond the context that the model was first trained with. */
typedef enum ss_rope_scaling {
    SS_ROPE_PLAIN,
    SS_ROPE_LINEAR, /* every frequency is divided by factor (Chen et al. 2023) */
    SS_ROPE_LLAMA3, /* low frequencies are divided by factor, high ones stay, those between are
                       divided in part */
    SS_ROPE_PROPORTIONAL, /* only the first pairs rotate, a share of `part`, at frequencies divided
                             by factor (Gemma 4) */
    SS_ROPE_YARN, /* as llama3, but the frequencies between are interpolated by the index of their
                     pair (Peng et al. 2023) */
    SS_ROPE_LONG  /* each frequency is divided by a factor of its own (LongRoPE, Ding et al. 2024);
                     longer texts than the first training's have other factors, and are refused */
} ss_rope_scaling;

/* Upper bound of the rotary pairs of a head with longrope. */
#define SS_LONG_PAIRS_MAX 128

typedef struct ss_rotary {
    double base; /* theta: pair j has the frequency base^(-2j/rotary_width) */
    double part; /* share of the head width that is rotated, 0 .. 1 */
    ss_rope_scaling scaling;
    double factor;
    double original_context; /* context length of the first training; llama3 and yarn only, as are
                        `low` and `high` */
    double low, high; /* rotations in `original_context` tokens: a low frequency makes fewer than
                         `low`, a high one more than `high` */
    bool is_dynamic;  /* the base grows with texts beyond the context, which no run has */
    int pairs_n;      /* longrope: number of factors */
    float pair_factors[SS_LONG_PAIRS_MAX];
    bool only_long;  /* the family has no other scaling than longrope, which older files call su or
                        yarn */
    bool has_halves; /* deepseek_v3: the file stores the pair (j, j + half), not neighbors */
    bool truncate; /* yarn: the indices of the pairs with `low` and `high` rotations are rounded */
    bool has_sections; /* the config divides pairs into sections that rotate by different positions
                      in images */
    float attention_factor; /* factor of rotated vectors; 1 except in yarn and longrope */
} ss_rotary;

/* What a layer computes with a state of fixed size, in place of attention or in addition to it. */
typedef enum ss_mixer_kind {
    SS_MIXER_NONE,
    SS_MIXER_CONVOLUTION, /* a short convolution between two products (LFM2) */
    SS_MIXER_DELTA,       /* Gated DeltaNet (Yang et al. 2025) */
    SS_MIXER_MAMBA,       /* Mamba-2 (Dao & Gu 2024) */
    SS_MIXER_N
} ss_mixer_kind;

typedef struct ss_mixer_sizes {
    ss_mixer_kind kind;
    bool in_every_layer; /* the mixer is added to attention in every layer; else it replaces
                            attention in some layers */
    bool bias, taps_bias, out_bias; /* whether the products with the input, the convolution and the
                                       output have biases */
    bool gate_first;                /* the gate multiplies before the norm, not after it */
    int kernel;                     /* tokens that the convolution reads */
    int keys;                       /* number of key heads, and of query heads */
    int values;                     /* number of value heads, a multiple of `keys` */
    int key_width, value_width;
    int norms; /* number of equal parts of a token's values that are normed separately; 0: no norm
                */
    float step_low, step_high;
    /* Factors of the mixer's input, of its products with it, and of its output; usually 1. */
    float in_scale, scales[3], z_scale, step_scale, out_scale;
} ss_mixer_sizes;

#define SS_PARAMETERS_MAX 2

/* The model's own attention operation, by name: run/ holds the table of operations. */
typedef struct ss_attention {
    char operation[24];
    int parameters_n; /* number of parameters that the file gives; the others take their defaults */
    struct {
        char name[16];
        float value;
    } parameters[SS_PARAMETERS_MAX];
} ss_attention;

/* Sizes of attention; layers that see all keys and layers with a window may have different ones. */
typedef struct ss_sizes {
    int G, K, U, rotary_width;
} ss_sizes;

typedef struct ss_arch {
    char family[24];
    int L;                       /* layers with attention; in most models all layers */
    int blocks;                  /* all layers, with or without attention */
    short layers[SS_LAYERS_MAX]; /* [L] indices of the layers with attention, ascending */
    ss_mixer_sizes mixer; /* mixer of the layers without attention, or of all layers in addition to
                             attention */
    int H;                /* query heads */
    int G;                /* key/value heads; divides H */
    int D;                /* model width */
    int K;                /* head width, of queries and keys */
    int U;                /* value width: of values and head outputs; K in most models */
    int q_latent, kv_latent; /* widths of the compressed vectors from which heads compute their
                                queries, and keys and values (DeepSeek-V2); 0: no compression.
                                With kv_latent, all heads share the rotated part of a key */
    int F;                   /* feed-forward width; of one expert, where there are experts */
    int V;                   /* vocabulary */
    int E;                   /* experts of a layer; 0: one feed-forward for all tokens */
    int context;             /* maximum number of tokens in a sequence */
    ss_positions positions;
    int rotary_width; /* number of rotated dimensions of a head, its first ones; even. D with
                         sinusoids; 0 without rotation */
    ss_rotary
        rotary; /* for layers that see all keys, and for all layers unless has_window_rotary */
    ss_rotary window_rotary; /* for layers with a window, if has_window_rotary */
    bool has_window_rotary;
    ss_sizes sizes[2]; /* of layers that see all keys, and of layers with a window, if these differ;
                          G, K, U and rotary_width are then the larger ones. sizes[0].K 0: all
                          layers have G, K, U and rotary_width */
    bool unrotated[SS_LAYERS_MAX]; /* [L] layers whose queries and keys have no positions */
    int window;                   /* keys that a query of a windowed layer sees, its own included */
    bool windowed[SS_LAYERS_MAX]; /* [L] layers with that window */
    int prefix;     /* number of first keys that every query sees, usually 0; or SS_EVERY_KEY */
    int mask_token; /* id of the token that replaces hidden tokens in masked diffusion; or -1 */
    float embedding_scale;
    int embedding_width; /* width of token vectors; vectors of another width than D are projected to
                            D, and back before the head */
    bool embedding_norm; /* the sum of token, position and type vectors is normed */
    int token_types;     /* rows of the table of token types; 0: there is none */
    ss_norm_kind norm; /* kind of the norms before attention, before feed-forward, and at the end */
    float norm_eps;
    bool bare_norm;     /* LayerNorm has neither gain nor bias */
    bool no_norm_bias;  /* LayerNorm has a gain and no bias */
    bool gain_plus_one; /* norms multiply by 1 + w; files store w */
    bool post_norm;     /* x = norm(x + block(x)) and no norm at the end, not x + block(norm(x)) */
    bool branch_norms; /* the outputs of attention and feed-forward are normed before they are added
                        */
    bool branch_only;  /* branch norms, without norms before attention and feed-forward */
    ss_qk_norm qk_norm;
    bool value_norm;     /* values are normed head by head, without a gain */
    bool keys_as_values; /* layers that see all keys use keys before norm and rotation as values */
    bool parallel;       /* attention and feed-forward read the same residual stream */
    ss_ffn_kind ffn;
    ss_activation activation;
    float gate_limit, gate_slope; /* bounds and slope of the clamped SwiGLU */
    float qkv_clip;     /* q, k and v are clipped to [-qkv_clip, qkv_clip]; 0: no clipping */
    float score_scale;  /* factor of q.k in scores, usually 1/sqrt(K) */
    float branch_scale; /* factor of the outputs of attention and feed-forward before they are
                           added; usually 1 */
    /* Factors of attention's input and output, of keys, of the feed-forward's gate before the
     * activation, and of the feed-forward's output; usually 1. */
    float attention_in_scale, attention_out_scale, key_scale, ffn_gate_scale, ffn_out_scale;
    float value_scale;
    float logit_scale;
    float score_cap, logit_cap; /* a cap c turns x into c tanh(x/c); 0: no cap (Gemma 2) */
    bool attention_bias;        /* q, k, v have biases */
    bool output_bias;
    bool added_heads;        /* o reads the sum of the heads' outputs, not their concatenation */
    ss_owner bias_key;       /* a key that belongs to no token and that every query sees */
    ss_owner bias_key_value; /* the value of the bias key; none: zeros */
    ss_owner value_bias;     /* a vector that is added to the output of each head */
    ss_gate gate;
    bool ffn_bias;
    bool head_bias;     /* the LM head has a bias, in a family where it may have one */
    int top_k;          /* number of experts that each token uses, 1 .. E */
    bool router_shares; /* the weights of the chosen experts are shares of all E, so their sum is
                           below 1; else it is 1 */
    ss_router router;
    int router_groups;     /* number of equal groups of experts; usually 1 */
    int router_top_groups; /* number of groups whose experts a token can use */
    int router_best;       /* a group is ranked by the sum of this many of its best scores */
    float router_scale;
    float router_jitter; /* SparseMixer: scores within twice this share of the best count as near it
                          */
    int shared_F;        /* width of the shared expert, which every token uses; 0: there is none */
    int dense_F; /* feed-forward width of the layers without experts, in a model that also has
                    layers with experts */
    bool dense[SS_LAYERS_MAX]; /* [L] layers without experts, if others have experts */
    bool tied;                 /* the LM head uses the matrix of the embedding */
    ss_attention attention;
    bool window_sinks; /* only layers with a window have sink logits; the others have softmax */
} ss_arch;

/* Returns a token's number of hidden states: after the embedding and after each layer. */
static inline int ss_states(const ss_arch *arch) {
    return arch->blocks + 1;
}

static inline int ss_attention_layers_below(const ss_arch *arch, int l) {
    int a = 0;
    while (a < arch->L && arch->layers[a] < l) a++;
    return a;
}

/* Returns the index of layer l among the layers with attention; -1 if layer l has no attention. */
static inline int ss_attention_of(const ss_arch *arch, int l) {
    int a = ss_attention_layers_below(arch, l);
    return a < arch->L && arch->layers[a] == l ? a : -1;
}

static inline void ss_attend_everywhere(ss_arch *arch) {
    arch->blocks = arch->L;
    for (int l = 0; l < arch->L; l++) arch->layers[l] = (short)l;
}

const char *ss_positions_name(ss_positions positions);
const char *ss_norm_name(ss_norm_kind norm);
const char *ss_ffn_name(ss_ffn_kind ffn);
const char *ss_activation_name(ss_activation activation);
const char *ss_owner_name(ss_owner owner);    /* NULL for none */
const char *ss_gate_name(ss_gate gate);       /* NULL for none */
const char *ss_qk_norm_name(ss_qk_norm norm); /* NULL for none */
const char *ss_mask_name(const ss_arch *arch);
const char *ss_rope_scaling_name(ss_rope_scaling scaling);

static inline ss_sizes ss_arch_sizes(const ss_arch *arch, int a) {
    ss_sizes sizes = arch->sizes[arch->windowed[a]];
    return sizes.K ? sizes : (ss_sizes){arch->G, arch->K, arch->U, arch->rotary_width};
}

static inline int ss_arch_group(const ss_arch *arch, int a, int h) {
    return h / (arch->H / ss_arch_sizes(arch, a).G);
}

/* Returns the row of a field [L][G][T] that belongs to row `head` of a field [L][H][T]. */
static inline int ss_arch_group_row(const ss_arch *arch, int head) {
    int a = head / arch->H;
    return a * arch->G + ss_arch_group(arch, a, head % arch->H);
}

/* Returns the number of rotated pairs in layers with a window, or in those that see all keys. */
static inline size_t ss_arch_pairs(const ss_arch *arch, bool windowed) {
    const ss_sizes *sizes = &arch->sizes[windowed];
    return (size_t)(sizes->K ? sizes->rotary_width : arch->rotary_width) / 2;
}

/* Returns the number of heads with gates: query heads, or value heads if the gate is on values. */
static inline int ss_arch_gated_heads(const ss_arch *arch) {
    return arch->gate < SS_GATE_VALUE_ELEMENT ? arch->H : arch->G;
}

/* Returns how many gate numbers a head has: U, or 1 for the whole head. */
static inline int ss_arch_gate_width(const ss_arch *arch) {
    bool is_per_head = arch->gate == SS_GATE_OUTPUT_HEAD || arch->gate == SS_GATE_VALUE_HEAD;
    return is_per_head ? 1 : arch->U;
}

static inline bool ss_arch_rotates(const ss_arch *arch, int l) {
    return arch->positions == SS_POSITIONS_ROTARY && !arch->unrotated[l];
}

/* Returns the largest number of keys that a query of layer l sees, including its own; 0 if it sees
 * all earlier keys. */
static inline int ss_arch_window(const ss_arch *arch, int l) {
    return arch->windowed[l] ? arch->window : 0;
}

/* Reads config.json. Returns SS_BAD_CONFIG with the key of a wrong value; SS_UNSUPPORTED for a
 * model_type, or a value of a key, that this build does not compute. */
ss_status ss_arch_read(ss_arch *arch, ss_bytes config, ss_error *err);

#endif
