/*
 * The ATTENTION OPERATION table: how the scores of one query become weights over its keys.
 *
 * x_j = q.k_j * score_scale for the n keys that the query sees (its own included). A row of the
 * table holds everything else that the rest of the house must know: whether the weights sum to 1,
 * which parameters there are, and how sink scores are taken from weights that do not sum to 1
 * (Gu et al., ICLR 2025, section 7.4 and the authors' evaluation code). A new operation is one row
 * and one function.
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
    ss_parameter parameters[SS_PARAMETERS_MAX];
    /* x: n scores in, n weights out; n >= 1. */
    void (*row)(float *x, size_t n, const float *parameters);
    const char *source;
} ss_operation;

/* The table; *n rows. */
const ss_operation *ss_operations(int *n);

/* The row's index, or -1. */
int ss_operation_find(const char *name);

/* "weights", "share", "share_abs". */
const char *ss_proxy_name(ss_proxy proxy);

/*
 * Which keys of its past a query sees: the first `first` and the last `recent`, its own included.
 * This Lambda shape is what a cache that evicts the middle leaves, positions as they were (Xiao et
 * al. 2024, StreamingLLM); first 0 is a window. recent is at least 1.
 */
typedef struct ss_mask {
    int first, recent;
} ss_mask;

/* What one head of one run computes. */
typedef struct ss_choice {
    const ss_operation *operation;
    float parameters[SS_PARAMETERS_MAX];
    ss_mask mask;
} ss_choice;

/*
 * The model's own operation, parameters from the file or their defaults. SS_UNSUPPORTED for a name
 * that is not in the table; SS_BAD_CONFIG for a parameter it does not have, or a missing per-head
 * tensor that was not given as a number either.
 */
ss_status ss_operation_own(ss_choice *choice, const ss_model *model, ss_error *err);

/* The choice for layer l, head h: per-head parameters of the model, and the layer's window, put in
 * their place. */
ss_choice ss_operation_at(const ss_choice *own, const ss_model *model, int l, int h);

#endif
