#include "attention.h"

#include "../math/kernels.h"
#include "../math/pack.h"
#include "feature.h"
#include "site.h"

#include <string.h>

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* 1 with a bias key, which then stands before those of the tokens. */
static size_t bias_keys(const ss_arch *arch) {
    return arch->bias_key != SS_OWNER_NONE;
}

/* scratch keys = the bias key, or its value, and T rows of the trace; first NULL is zeros. */
static float *put_behind(ss_pass *pass, const float *first, const float *rows, size_t T) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t K = (size_t)arch->K, bias = bias_keys(arch);
    float *out = pass->keys;
    if (bias && first)
        memcpy(out, first, K * sizeof *out);
    else if (bias)
        memset(out, 0, K * sizeof *out);
    memcpy(out + bias * K, rows, T * K * sizeof *out);
    return out;
}

/* Panels of the keys of group g, through a feature map. */
static void pack_keys(ss_pass *pass, int l, int g, ss_feature feature, size_t T) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K, keys = bias_keys(arch) + T;
    const float *rows = ss_row(trace, SS_FIELD_K, l * arch->G + g, 0);
    if (feature != SS_FEATURE_NONE || keys > T) {
        float *own = put_behind(
            pass, ss_owned(trace->model->layers[l].bias_keys, arch->bias_key, g, arch->K), rows, T);
        ss_map_features(pass, l, feature, own, keys);
        rows = own;
    }
    ss_pack_rows(pass->key_panels, rows, K, keys, K);
}

/* Panels of its values; the query heads of the group share them. */
static void pack_values(ss_pass *pass, int l, int g, size_t T) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K, keys = bias_keys(arch) + T;
    const float *rows = ss_row(trace, SS_FIELD_V, l * arch->G + g, 0);
    if (keys > T)
        rows = put_behind(
            pass, ss_owned(trace->model->layers[l].bias_values, arch->bias_key_value, g, arch->K),
            rows, T);
    ss_pack_columns(pass->value_panels, rows, K, K, keys);
}

/* out[r] = sum_j weights[r][j] v[j] over the first `keys` of `all` values. */
static void mix_values(float *out, size_t out_stride, const float *tiles, const float *panels,
                       size_t rows, size_t keys, size_t all, size_t K) {
    for (size_t c = 0; c < K; c += SS_PANEL) {
        size_t width = K - c < SS_PANEL ? K - c : SS_PANEL;
        ss_matmul(out + c, out_stride, tiles, panels + c * all, NULL, rows, width, keys);
    }
}

/*
 * Which of `keys` query t of head h sees, by the mask of the head, then by edits, and where they
 * stand for it; NULL for all of them where they do. A bias key is never hidden.
 */
static const unsigned char *find_sight(const ss_site *query, const ss_mask *mask) {
    ss_pass *pass = query->pass;
    int end = ss_token_of(query, query->keys - 1) + 1; /* of the tokens */
    bool whole = mask->first >= end || mask->recent >= end - mask->first;
    if (whole && !(pass->places & SS_AT_SIGHT)) return NULL;
    for (size_t j = 0; j < query->keys; j++) {
        int token = ss_token_of(query, j);
        pass->sees[j] = whole || token < mask->first || token >= end - mask->recent;
        pass->ranks[j] = pass->positions[token];
    }
    ss_edits_at(SS_AT_SIGHT, *query);
    return pass->sees;
}

/* bias + keys scores -> weights, exact zeros for the keys out of sight; returns those in sight. */
static size_t weigh(float *x, size_t bias, size_t keys, const ss_choice *choice,
                    const unsigned char *sees) {
    /* The operation sees the keys in sight side by side; then they go back to their places. */
    size_t n = bias;
    for (size_t j = 0; j < keys; j++)
        if (!sees || sees[j]) x[n++] = x[bias + j];
    if (n > 0) choice->operation->row(x, n, choice->parameters);
    for (size_t j = keys, from = n; sees && j-- > 0;) x[bias + j] = sees[j] ? x[--from] : 0.0f;
    return n;
}

/* Numbers of query t for `keys` tokens, and 0 for those behind. */
static void record_keys(const ss_trace *trace, ss_field_id field, int head, int t, const float *x,
                        size_t keys) {
    float *row = ss_row(trace, field, head, t);
    if (!row) return;
    memcpy(row, x, keys * sizeof *x);
    memset(row + keys, 0, ((size_t)trace->capacity - keys) * sizeof *x);
}

/* Weights of query t for the bias key and `keys` tokens, and how many it saw. */
static void record_weights(const ss_trace *trace, int head, int t, const float *x, size_t keys,
                           size_t saw) {
    size_t bias = bias_keys(&trace->model->arch);
    float count = (float)saw;
    ss_record(trace, SS_FIELD_ATT_BIAS, head, t, 1, x, 1);
    ss_record(trace, SS_FIELD_SEEN, head, t, 1, &count, 1);
    record_keys(trace, SS_FIELD_ATT, head, t, x + bias, keys);
}

/* scores[rows][B+keys] of rows [t, t+rows) of head h, whose queries lie q_stride apart. */
static void score_rows(ss_pass *pass, int l, int h, const float *q, size_t q_stride, size_t rows,
                       size_t keys) {
    const ss_arch *arch = &pass->trace->model->arch;
    ss_feature feature = pass->trace->choices[l * arch->H + h].operation->feature;
    size_t K = (size_t)arch->K, bias = bias_keys(arch);
    if (feature != SS_FEATURE_NONE) {
        for (size_t r = 0; r < rows; r++)
            memcpy(pass->queries + r * K, q + r * q_stride, K * sizeof *q);
        ss_map_features(pass, l, feature, pass->queries, rows);
        q = pass->queries;
        q_stride = K;
    }
    ss_tile(pass->tiles, q, q_stride, rows, K);
    ss_matmul(pass->scores, bias + (size_t)pass->trace->slots, pass->tiles, pass->key_panels, NULL,
              rows, bias + keys, K);
}

/* The scores x[B+keys] of query t become weights; q is its vector. So many slots lie before its own
 * that are no longer there. */
static void attend_row(ss_pass *pass, int l, int h, int t, int gone, const float *q, float *x,
                       size_t keys) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_choice *choice = &pass->trace->choices[l * arch->H + h];
    size_t bias = bias_keys(arch);
    ss_site query = {.pass = pass,
                     .l = l,
                     .h = h,
                     .t = t,
                     .n = 1,
                     .rows = x + bias,
                     .keys = keys,
                     .own = t - gone,
                     .q = q,
                     .bias = bias ? x : NULL};
    size_t group = (size_t)(l * arch->G + h / (arch->H / arch->G));
    if (pass->cache.tokens) query.tokens = pass->cache.tokens + group * (size_t)trace->slots;
    const unsigned char *sees = query.sees = find_sight(&query, &choice->mask);
    ss_edits_at(SS_AT_SCORES, query);
    ss_scale(x, arch->score_scale, bias + keys);
    ss_add_distances(x + bias, keys, arch, h, query.own, sees ? pass->ranks : pass->positions);
    record_keys(pass->trace, SS_FIELD_SCORES, l * arch->H + h, t, x + bias, keys);
    size_t saw = weigh(x, bias, keys, choice, sees);
    ss_edits_at(SS_AT_WEIGHTS, query);
    record_weights(pass->trace, l * arch->H + h, t, x, keys, saw);
}

/* Rows [t, t+rows) of head h: scores, weights, mixed values. */
static void attend_rows(ss_pass *pass, int l, int h, int t0, int t, int rows, int T, int gone) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_mask *mask = &trace->choices[l * arch->H + h].mask;
    size_t K = (size_t)arch->K, width = (size_t)arch->H * K, bias = bias_keys(arch);
    size_t stride = bias + (size_t)trace->slots;
    size_t keys = (size_t)(ss_mask_end(mask, t + rows - 1, T) - gone); /* that any row sees */
    float *q = pass->heads + (size_t)(t - t0) * width + (size_t)h * K;

    score_rows(pass, l, h, q, width, (size_t)rows, keys);
    for (int r = 0; r < rows; r++) {
        float *x = pass->scores + (size_t)r * stride;
        size_t end = (size_t)(ss_mask_end(mask, t + r, T) - gone);
        attend_row(pass, l, h, t + r, gone, q + (size_t)r * width, x, end);
        memset(x + bias + end, 0, (keys - end) * sizeof *x);
    }
    ss_tile(pass->tiles, pass->scores, stride, (size_t)rows, bias + keys);
    mix_values(q, width, pass->tiles, pass->value_panels, (size_t)rows, bias + keys,
               bias + (size_t)(T - gone), K);
}

void ss_attend(ss_pass *pass, int l, int t0, int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    int share = arch->H / arch->G, T = t0 + n;
    for (int g = 0; g < arch->G; g++) {
        int gone = t0 - ss_held(pass, l, g, t0), slots = T - gone;
        pack_values(pass, l, g, (size_t)slots);
        int packed = -1; /* an edit may give the heads of a group different maps */
        for (int h = g * share; h < (g + 1) * share; h++) {
            ss_feature feature = pass->trace->choices[l * arch->H + h].operation->feature;
            if (packed != (int)feature) pack_keys(pass, l, g, feature, (size_t)slots);
            packed = (int)feature;
            for (int t = t0; t < T; t += SS_ATTENTION_ROWS)
                attend_rows(pass, l, h, t0, t, min_int(SS_ATTENTION_ROWS, T - t), T, gone);
        }
        if (pass->cache.held) ss_close_up(pass, l, g, slots);
    }
}
