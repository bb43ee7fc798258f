/*
 * The ATTENTION OPERATION table: how the scores of one query become weights over its keys.
 *
 * x_j = q.k_j * score_scale for the n keys that the query sees (its own included, and the bias key
 * of models that have one), or phi(q).phi(k_j) * score_scale where the row has a feature map phi. A
 * row of the table holds everything else that the rest of the house must know: whether the weights
 * sum to 1, which parameters there are, and how sink scores are taken from weights that do not sum
 * to 1 (Gu et al., ICLR 2025, section 7.4 and the authors' evaluation code). A new operation is one
 * row and one function.
 */
#ifndef SS_RUN_OPERATION_H
#define SS_RUN_OPERATION_H

#include "../model/model.h"

/* Sink scores are taken from P, which is */
typedef enum ss_proxy {
    SS_PROXY_WEIGHTS,  /* the weights: their rows sum to 1 */
    SS_PROXY_SHARE,    /* w / (sum w + 1e-8): weights are never negative */
    SS_PROXY_SHARE_ABS /* |w| / (sum |w| + 1e-8): weights have signs */
} ss_proxy;

#define SS_PROXY_GUARD 1e-8f

/* phi, through which queries and keys go before they are multiplied. */
typedef enum ss_feature {
    SS_FEATURE_NONE,
    SS_FEATURE_ELU1, /* elu(z) + 1, number by number */
    SS_FEATURE_MLP   /* M2 relu(M1 z) with the layer's kernel_in and kernel_out */
} ss_feature;

typedef struct ss_parameter {
    const char *name; /* NULL: there is no such parameter */
    float standard, low, high;
    bool per_head; /* a model may carry one per query head (ss_layer.sinks) */
    const char *meaning;
} ss_parameter;

typedef struct ss_operation {
    const char *name, *label, *formula;
    bool normalises; /* every row of weights sums to 1 */
    ss_proxy proxy;
    ss_feature feature;
    ss_parameter parameters[SS_PARAMETERS_MAX];
    /* x: n scores in, n weights out; n >= 1. */
    void (*row)(float *x, size_t n, const float *parameters);
    /* d: derivatives by the n weights in, by the n scores x out, where row made w of x; the
     * derivative by parameters[0] is returned. NULL: a model that does this cannot be trained. */
    float (*back)(float *d, const float *x, const float *w, size_t n, const float *parameters);
    const char *source;
} ss_operation;

/* The table; *n rows. */
const ss_operation *ss_operations(int *n);

/* x[i] = elu(x[i]) + 1, which is an operation and a feature map. */
void ss_elu1(float *x, size_t n);

/* The row's index, or -1. */
int ss_operation_find(const char *name);

/* "weights", "share", "share_abs". */
const char *ss_proxy_name(ss_proxy proxy);

/* "none", "elu1", "mlp". */
const char *ss_feature_name(ss_feature feature);

/*
 * Which keys a query sees: of its past the first `first` and the last `recent`, its own included,
 * and the first `prefix` wherever the query is. The Lambda shape of the former two is what a cache
 * that evicts the middle leaves, positions as they were (Xiao et al. 2024, StreamingLLM); first 0
 * is a window. recent is at least 1. A prefix comes with all of the past.
 */
typedef struct ss_mask {
    int first, recent, prefix;
} ss_mask;

/* What query t of T sees lies before this key. */
static inline int ss_mask_end(const ss_mask *mask, int t, int T) {
    int prefix = mask->prefix < T ? mask->prefix : T;
    return prefix > t + 1 ? prefix : t + 1;
}

/* What one head of one run computes. */
typedef struct ss_choice {
    const ss_operation *operation;
    float parameters[SS_PARAMETERS_MAX];
    ss_mask mask;
} ss_choice;

/*
 * The model's own operation, parameters from the file or their defaults. SS_UNSUPPORTED for a name
 * that is not in the table; SS_BAD_CONFIG for a parameter it does not have, or a missing per-head
 * tensor that was not given as a number either; SS_BAD_TENSOR where a feature map needs tensors
 * that are not there.
 */
ss_status ss_operation_own(ss_choice *choice, const ss_model *model, ss_error *err);

/* True if the model has the tensors that the operation's feature map needs. */
bool ss_operation_fits(const ss_operation *operation, const ss_model *model);

/* The choice for layer l, head h: per-head parameters of the model, and the layer's window, put in
 * their place. */
ss_choice ss_operation_at(const ss_choice *own, const ss_model *model, int l, int h);

#endif
