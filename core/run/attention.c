#include "attention.h"

#include "../math/kernels.h"
#include "../math/pack.h"
#include "feature.h"

#include <string.h>

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* 1 with a bias key, which then stands before those of the tokens. */
static size_t bias_keys(const ss_arch *arch) {
    return arch->bias_key != SS_OWNER_NONE;
}

/* scratch keys = the bias key, or its value, and T rows of the trace; first NULL is zeros. */
static float *put_behind(ss_run *run, const float *first, const float *rows, size_t T) {
    const ss_arch *arch = &run->trace.model->arch;
    size_t K = (size_t)arch->K, bias = bias_keys(arch);
    float *out = run->scratch.keys;
    if (bias && first)
        memcpy(out, first, K * sizeof *out);
    else if (bias)
        memset(out, 0, K * sizeof *out);
    memcpy(out + bias * K, rows, T * K * sizeof *out);
    return out;
}

/* Row g*K of an array of heads, or NULL. */
static const float *head_of(const float *heads, int g, int K) {
    return heads ? heads + (size_t)g * (size_t)K : NULL;
}

static size_t group_at(const ss_trace *trace, int l, int g) {
    const ss_arch *arch = &trace->model->arch;
    size_t group = (size_t)l * (size_t)arch->G + (size_t)g;
    return group * (size_t)trace->capacity * (size_t)arch->K;
}

/* Panels of the keys of group g, through a feature map. */
static void pack_keys(ss_run *run, int l, int g, ss_feature feature, size_t T) {
    const ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K, keys = bias_keys(arch) + T;
    const float *rows = trace->k + group_at(trace, l, g);
    if (feature != SS_FEATURE_NONE || keys > T) {
        float *own =
            put_behind(run, head_of(trace->model->layers[l].bias_keys, g, arch->K), rows, T);
        ss_map_features(run, l, feature, own, keys);
        rows = own;
    }
    ss_pack_rows(run->scratch.key_panels, rows, K, keys, K);
}

/* Panels of its values; the query heads of the group share them. */
static void pack_values(ss_run *run, int l, int g, size_t T) {
    const ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K, keys = bias_keys(arch) + T;
    const float *rows = trace->v + group_at(trace, l, g);
    if (keys > T)
        rows = put_behind(run, head_of(trace->model->layers[l].bias_values, g, arch->K), rows, T);
    ss_pack_columns(run->scratch.value_panels, rows, K, K, keys);
}

/* out[r] = sum_j weights[r][j] v[j] over the first `keys` of `all` values. */
static void mix_values(float *out, size_t out_stride, const float *tiles, const float *panels,
                       size_t rows, size_t keys, size_t all, size_t K) {
    for (size_t c = 0; c < K; c += SS_PANEL) {
        size_t width = K - c < SS_PANEL ? K - c : SS_PANEL;
        ss_matmul(out + c, out_stride, tiles, panels + c * all, NULL, rows, width, keys);
    }
}

/* n scores -> n weights, exact zeros for the keys that the mask hides. A bias key is never hidden.
 */
static void weigh(float *x, size_t n, const ss_choice *choice, size_t bias) {
    size_t first = bias + (size_t)choice->mask.first, recent = (size_t)choice->mask.recent;
    if (first >= n || recent >= n - first) {
        choice->operation->row(x, n, choice->parameters);
        return;
    }
    /* The operation sees the keys in sight side by side; then they go back to their places. */
    size_t hidden = n - first - recent;
    memmove(x + first, x + first + hidden, recent * sizeof *x);
    choice->operation->row(x, first + recent, choice->parameters);
    memmove(x + first + hidden, x + first, recent * sizeof *x);
    memset(x + first, 0, hidden * sizeof *x);
}

/* Weights of query t for the bias key and `keys` tokens, where they are recorded. */
static void record_weights(const ss_trace *trace, int l, int h, int t, const float *x,
                           size_t keys) {
    size_t C = (size_t)trace->capacity, bias = bias_keys(&trace->model->arch);
    size_t row = ((size_t)l * (size_t)trace->model->arch.H + (size_t)h) * C + (size_t)t;
    if (trace->att_bias) trace->att_bias[row] = x[0];
    if (!trace->att) return;
    memcpy(trace->att + row * C, x + bias, keys * sizeof *x);
    memset(trace->att + row * C + keys, 0, (C - keys) * sizeof *x);
}

/* scores[rows][B+keys] of rows [t, t+rows) of head h, whose queries lie q_stride apart. */
static void score_rows(ss_run *run, int l, int h, const float *q, size_t q_stride, size_t rows,
                       size_t keys) {
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    ss_feature feature = run->trace.choices[l * arch->H + h].operation->feature;
    size_t K = (size_t)arch->K, bias = bias_keys(arch);
    if (feature != SS_FEATURE_NONE) {
        for (size_t r = 0; r < rows; r++)
            memcpy(s->queries + r * K, q + r * q_stride, K * sizeof *q);
        ss_map_features(run, l, feature, s->queries, rows);
        q = s->queries;
        q_stride = K;
    }
    ss_tile(s->tiles, q, q_stride, rows, K);
    ss_matmul(s->scores, bias + (size_t)run->trace.capacity, s->tiles, s->key_panels, NULL, rows,
              bias + keys, K);
}

/* Rows [t, t+rows) of head h: scores, weights, mixed values. */
static void attend_rows(ss_run *run, int l, int h, int t0, int t, int rows, int T) {
    const ss_trace *trace = &run->trace;
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_choice *choice = &trace->choices[l * arch->H + h];
    size_t K = (size_t)arch->K, width = (size_t)arch->H * K, bias = bias_keys(arch);
    size_t stride = bias + (size_t)trace->capacity;
    size_t keys = (size_t)ss_mask_end(&choice->mask, t + rows - 1, T); /* that any row sees */
    float *q = s->heads + (size_t)(t - t0) * width + (size_t)h * K;

    score_rows(run, l, h, q, width, (size_t)rows, keys);
    for (int r = 0; r < rows; r++) {
        float *x = s->scores + (size_t)r * stride;
        size_t sees = (size_t)ss_mask_end(&choice->mask, t + r, T);
        ss_scale(x, arch->score_scale, bias + sees);
        ss_add_distances(x + bias, sees, arch, h, t + r);
        weigh(x, bias + sees, choice, bias);
        memset(x + bias + sees, 0, (keys - sees) * sizeof *x);
        record_weights(trace, l, h, t + r, x, keys);
    }
    ss_tile(s->tiles, s->scores, stride, (size_t)rows, bias + keys);
    mix_values(q, width, s->tiles, s->value_panels, (size_t)rows, bias + keys, bias + (size_t)T, K);
}

void ss_attend(ss_run *run, int l, int t0, int n) {
    const ss_arch *arch = &run->trace.model->arch;
    int share = arch->H / arch->G, T = t0 + n;
    for (int g = 0; g < arch->G; g++) {
        pack_values(run, l, g, (size_t)T);
        int packed = -1; /* an edit may give the heads of a group different maps */
        for (int h = g * share; h < (g + 1) * share; h++) {
            ss_feature feature = run->trace.choices[l * arch->H + h].operation->feature;
            if (packed != (int)feature) pack_keys(run, l, g, feature, (size_t)T);
            packed = (int)feature;
            for (int t = t0; t < T; t += SS_ATTENTION_ROWS)
                attend_rows(run, l, h, t0, t, min_int(SS_ATTENTION_ROWS, T - t), T);
        }
    }
}
