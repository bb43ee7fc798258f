/*
 * The ATTENTION OPERATION table: how the scores of one query become weights over its keys.
 *
 * x_j = q.k_j * score_scale for the n keys that the query sees (its own included, and the bias key
 * if the model has one), or phi(q).phi(k_j) * score_scale if the row has a feature map phi. A row
 * holds everything else that depends on the operation: whether the weights sum to 1, its
 * parameters, and how sink scores are computed from weights that do not sum to 1 (Gu et al., ICLR
 * 2025, section 7.4 and the authors' evaluation code). A new operation is a row, a function
 * and its derivative.
 */
#ifndef SS_RUN_OPERATION_H
#define SS_RUN_OPERATION_H

#include "../model/model.h"

/* What sink scores are computed from. */
typedef enum ss_proxy {
    SS_PROXY_WEIGHTS,  /* the weights themselves: their rows sum to 1 */
    SS_PROXY_SHARE,    /* w / (sum w + 1e-8), for weights that are never negative */
    SS_PROXY_SHARE_ABS /* |w| / (sum |w| + 1e-8), for weights with signs */
} ss_proxy;

#define SS_PROXY_GUARD 1e-8f

/* The feature map phi, applied to queries and keys before their product. */
typedef enum ss_feature {
    SS_FEATURE_NONE,
    SS_FEATURE_ELU1, /* elu(z) + 1, elementwise */
    SS_FEATURE_MLP   /* M2 relu(M1 z) with the layer's kernel_in and kernel_out */
} ss_feature;

typedef struct ss_parameter {
    const char *name; /* NULL ends the list */
    float default_value, low, high;
    bool per_head; /* a model may have one value per query head (ss_layer.sinks) */
    const char *meaning;
} ss_parameter;

typedef struct ss_operation {
    const char *name, *label, *formula;
    bool normalizes; /* every row of weights sums to 1 */
    ss_proxy proxy;
    ss_feature feature;
    ss_parameter parameters[SS_PARAMETERS_MAX];
    /* Replaces n scores in x by n weights; n >= 1. */
    void (*normalize_row)(float *x, size_t n, const float *parameters);
    /* Turns n gradients d with respect to the weights into gradients with respect to the scores x,
     * from which `normalize_row` computed the weights w. Returns the gradient with respect to
     * parameters[0] if models may learn it (per_head), else 0. NULL: a model with this operation
     * cannot be trained. */
    float (*back)(float *d, const float *x, const float *w, size_t n, const float *parameters);
    const char *source;
} ss_operation;

/* Returns the table and, unless n is NULL, its number of rows. */
const ss_operation *ss_operations(int *n);

/* Replaces x[i] by elu(x[i]) + 1; serves as an operation and as a feature map. */
void ss_elu1(float *x, size_t n);

/* Returns the index of the row with that name, or -1. */
int ss_operation_find(const char *name);

const char *ss_proxy_name(ss_proxy proxy);

const char *ss_feature_name(ss_feature feature);

/* The keys that a query sees: the first `first` and the last `recent` keys up to its own, which
 * counts as recent, and the first `prefix` keys of the text, even those after the query. The
 * numbers first and recent give the Lambda-shaped mask of a cache that evicts the middle without
 * moving positions (Xiao et al. 2024, StreamingLLM); first = 0 is a window. recent is at least 1. A
 * mask with a prefix shows all of the past. */
typedef struct ss_mask {
    int first, recent, prefix;
} ss_mask;

/* Returns the index after the last key that query t of T may see. */
static inline int ss_mask_end(const ss_mask *mask, int t, int T) {
    int prefix = mask->prefix < T ? mask->prefix : T;
    return prefix > t + 1 ? prefix : t + 1;
}

/* The operation and mask of one head in one run. */
typedef struct ss_choice {
    const ss_operation *operation;
    float parameters[SS_PARAMETERS_MAX];
    ss_mask mask;
} ss_choice;

/* Finds the model's own operation, with parameters from the file or their defaults. Returns
 * SS_UNSUPPORTED for a name that the table lacks; SS_BAD_CONFIG for a parameter that the operation
 * lacks, or a per-head parameter that neither a tensor nor the config gives; SS_BAD_TENSOR if the
 * tensors of a feature map are missing. */
ss_status ss_operation_own(ss_choice *choice, const ss_model *model, ss_error *err);

bool ss_operation_fits(const ss_operation *operation, const ss_model *model);

/* Returns the choice for head h of attention layer a: fills in the model's per-head parameters and
 * the layer's window. */
ss_choice ss_operation_at(const ss_choice *model_choice, const ss_model *model, int a, int h);

#endif
