/*
 * Architecture: the ONE description that every family is translated into.
 *
 * config.json -> ss_arch. The forward pass and everything behind it read this and nothing of the
 * file. Sizes are capitals; all are at least 1 and their products fit a size_t.
 */
#ifndef SS_MODEL_ARCH_H
#define SS_MODEL_ARCH_H

#include "../base/bytes.h"
#include "../base/status.h"
#include "json.h"

typedef enum ss_positions {
    SS_POSITIONS_NONE,
    SS_POSITIONS_LEARNED,
    SS_POSITIONS_ROTARY
} ss_positions;
typedef enum ss_norm_kind { SS_NORM_LAYER, SS_NORM_RMS } ss_norm_kind;
typedef enum ss_ffn_kind { SS_FFN_PLAIN, SS_FFN_GATED } ss_ffn_kind;
typedef enum ss_activation { SS_ACTIVATION_SILU, SS_ACTIVATION_GELU_TANH } ss_activation;

/* Parameters that one attention operation can have. */
#define SS_PARAMETERS_MAX 2

/* The model's own attention operation, by name: the table of operations stands in run/. */
typedef struct ss_attention {
    char operation[24];
    int parameters_n; /* given in the file; the others take their defaults */
    struct {
        char name[16];
        float value;
    } parameters[SS_PARAMETERS_MAX];
} ss_attention;

typedef struct ss_arch {
    char family[16];
    int L;       /* layers */
    int H;       /* query heads */
    int G;       /* key/value heads; divides H */
    int D;       /* model width */
    int K;       /* head width */
    int F;       /* feed-forward width */
    int V;       /* vocabulary */
    int context; /* most tokens in a sequence */
    ss_positions positions;
    int rotary_width;   /* first so many of the K dims are rotated; even */
    double rotary_base; /* theta: pair j turns by base^(-2j/rotary_width) per position */
    ss_norm_kind norm;  /* before attention, before feed-forward, and at the end */
    float norm_eps;
    ss_ffn_kind ffn;
    ss_activation activation;
    float score_scale;   /* x = q.k * score_scale, usually 1/sqrt(K) */
    bool attention_bias; /* q, k, v, o have biases */
    bool ffn_bias;
    bool tied; /* the head is the embedding */
    ss_attention attention;
} ss_arch;

/* The words that the report uses. */
const char *ss_positions_name(ss_positions positions);
const char *ss_norm_name(ss_norm_kind norm);
const char *ss_ffn_name(ss_ffn_kind ffn);
const char *ss_activation_name(ss_activation activation);

/*
 * Reads config.json. SS_BAD_CONFIG with the key; SS_UNSUPPORTED for a model_type, or a value of a
 * key that changes the arithmetic, which this build does not compute.
 */
ss_status ss_arch_read(ss_arch *arch, ss_bytes config, ss_error *err);

#endif
