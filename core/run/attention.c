#include "attention.h"

#include "../math/kernels.h"
#include "../math/pack.h"
#include "edits/evict.h"
#include "edits/hook.h"
#include "feature.h"

#include <string.h>

/* In this file l is the index of a layer among those with attention. */

void ss_prepend_bias_key(float *out, const float *bias_row, size_t bias, const float *rows,
                         size_t T, size_t width) {
    ss_clear(out, bias * width);
    if (bias && bias_row) ss_copy(out, bias_row, width);
    memcpy(out + bias * width, rows, T * width * sizeof *out);
}

static void pack_keys(ss_pass *pass, ss_scratch *scratch, int l, int g, ss_feature feature,
                      size_t T) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[arch->layers[l]];
    size_t K = (size_t)arch->K, bias = ss_bias_keys(arch);
    const float *rows = ss_row(trace, SS_FIELD_K, l * arch->G + g, 0);
    if (feature != SS_FEATURE_NONE || bias) {
        ss_prepend_bias_key(scratch->keys,
                            ss_head_vector(layer->bias_keys, arch->bias_key, g, arch->K), bias,
                            rows, T, K);
        ss_map_features(pass, l, feature, scratch->keys, bias + T);
        rows = scratch->keys;
    }
    ss_pack_rows(scratch->key_panels, rows, K, bias + T, K);
}

static void pack_values(const ss_pass *pass, ss_scratch *scratch, int l, int g, size_t T) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[arch->layers[l]];
    size_t U = (size_t)arch->U, bias = ss_bias_keys(arch);
    const float *rows = ss_row(trace, SS_FIELD_V, l * arch->G + g, 0);
    if (bias) {
        ss_prepend_bias_key(scratch->keys,
                            ss_head_vector(layer->bias_values, arch->bias_key_value, g, arch->U),
                            bias, rows, T, U);
        rows = scratch->keys;
    }
    ss_pack_columns(scratch->value_panels, rows, U, U, bias + T);
}

/* Writes out[r] = sum_j weights[r][j] v[j] over `keys` values; panels hold `panel_keys`. */
static void sum_values(float *out, size_t out_stride, const float *tiles, const float *panels,
                       size_t rows, size_t keys, size_t panel_keys, size_t U) {
    for (size_t c = 0; c < U; c += SS_PANEL) {
        size_t width = ss_min_size(U - c, SS_PANEL);
        ss_matmul(out + c, out_stride, tiles, panels + c * panel_keys, NULL, rows, width, keys);
    }
}

/* Masks the keys of a query, by the mask of its head and by edits, and sets the positions of the
 * keys. Returns an array with 1 for each slot whose key the query sees; NULL if the query sees all
 * keys at their own positions. A bias key is always visible. */
static const unsigned char *apply_mask(const ss_hook *query, const ss_mask *mask) {
    const ss_pass *pass = query->pass;
    ss_scratch *scratch = query->scratch;
    int end = ss_token_of(query, query->keys - 1) + 1;
    bool sees_all = mask->first >= end || mask->recent >= end - mask->first;
    if (sees_all && !(pass->hook_points & SS_AT_MASK)) return NULL;
    for (size_t j = 0; j < query->keys; j++) {
        int token = ss_token_of(query, j);
        scratch->visible[j] = sees_all || token < mask->first || token >= end - mask->recent;
        scratch->ranks[j] = pass->positions[token];
    }
    ss_edits_apply_at(SS_AT_MASK, *query);
    return scratch->visible;
}

static void record_keys(const ss_trace *trace, ss_field_id field, int head, int t, const float *x,
                        size_t keys) {
    float *row = ss_row(trace, field, head, t);
    if (!row) return;
    ss_copy(row, x, keys);
    ss_clear(row + keys, (size_t)trace->capacity - keys);
}

static void record_weights(const ss_trace *trace, int head, int t, const float *x, size_t keys,
                           size_t visible_n) {
    size_t bias = ss_bias_keys(&trace->model->arch);
    float count = (float)visible_n;
    ss_record(trace, SS_FIELD_ATT_BIAS, head, t, 1, x, 1);
    ss_record(trace, SS_FIELD_SEEN, head, t, 1, &count, 1);
    record_keys(trace, SS_FIELD_ATT, head, t, x + bias, keys);
}

static void score_rows(ss_pass *pass, const ss_scratch *scratch, int l, int h, const float *q,
                       size_t q_stride, size_t rows, size_t keys) {
    const ss_arch *arch = &pass->trace->model->arch;
    ss_feature feature = pass->trace->choices[l * arch->H + h].operation->feature;
    size_t K = (size_t)arch->K, bias = ss_bias_keys(arch);
    if (feature != SS_FEATURE_NONE) {
        for (size_t r = 0; r < rows; r++)
            memcpy(scratch->queries + r * K, q + r * q_stride, K * sizeof *q);
        ss_map_features(pass, l, feature, scratch->queries, rows);
        q = scratch->queries;
        q_stride = K;
    }
    ss_tile(scratch->tiles, q, q_stride, rows, K);
    ss_matmul(scratch->scores, bias + (size_t)pass->trace->slots, scratch->tiles,
              scratch->key_panels, NULL, rows, bias + keys, K);
}

/* Caps scores by tanh u = 2 sigmoid(2u) - 1, so that the sigmoid kernel serves here, too. */
void ss_soft_cap(float *x, float cap, size_t n) {
    if (cap == 0.0f) return;
    ss_scale(x, 2.0f / cap, n);
    ss_sigmoid(x, x, 0.0f, n);
    for (size_t i = 0; i < n; i++) x[i] = (2.0f * x[i] - 1.0f) * cap;
}

/* Finishes the scores x[B+keys] of query t, whose vector is q: applies edits, scale, cap and
 * distances. Returns the query as edits see it, with its visible keys. `evicted_n` is the number of
 * evicted slots before the query's own. */
static ss_hook score_row(ss_pass *pass, ss_scratch *scratch, int l, int h, int t, int evicted_n,
                         bool is_recomputed, const float *q, float *x, size_t keys) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_choice *choice = &trace->choices[l * arch->H + h];
    size_t bias = ss_bias_keys(arch);
    ss_hook query = {.pass = pass,
                     .scratch = scratch,
                     .l = arch->layers[l],
                     .a = l,
                     .h = h,
                     .t = t,
                     .n = 1,
                     .rows = x + bias,
                     .keys = keys,
                     .query_slot = t - evicted_n,
                     .is_recomputed = is_recomputed,
                     .q = q,
                     .bias = bias ? x : NULL};
    size_t group = (size_t)(l * arch->G + ss_arch_group(arch, l, h));
    if (pass->cache.tokens) query.tokens = pass->cache.tokens + group * (size_t)trace->slots;
    const unsigned char *visible = query.visible = apply_mask(&query, &choice->mask);
    ss_edits_apply_at(SS_AT_SCORES, query);
    ss_scale(x, arch->score_scale, bias + keys);
    ss_soft_cap(x, arch->score_cap, bias + keys);
    ss_add_distances(x + bias, keys, arch, h, query.query_slot,
                     visible ? scratch->ranks : pass->positions);
    return query;
}

/* Turns the scores of the bias key and of the query's keys into weights, exactly 0 for masked keys;
 * returns the number of visible keys. */
static size_t normalize_row(const ss_hook *query, float *x) {
    const ss_trace *trace = query->pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_choice *choice = &trace->choices[query->a * arch->H + query->h];
    const unsigned char *visible = query->visible;
    size_t bias = ss_bias_keys(arch), keys = query->keys, n = bias;
    /* The operation reads the visible keys contiguously; afterwards the weights return to their
     * slots. */
    if (!visible) n += keys;
    for (size_t j = 0; visible && j < keys; j++)
        if (visible[j]) x[n++] = x[bias + j];
    if (n > 0) choice->operation->normalize_row(x, n, choice->parameters);
    for (size_t j = keys, source = n; visible && j-- > 0;)
        x[bias + j] = visible[j] ? x[--source] : 0.0f;
    ss_edits_apply_at(SS_AT_WEIGHTS, *query);
    return n;
}

static void attend_row(ss_pass *pass, ss_scratch *scratch, int l, int h, int t, int evicted_n,
                       const float *q, float *x, size_t keys) {
    const ss_trace *trace = pass->trace;
    int head = l * trace->model->arch.H + h;
    ss_hook query = score_row(pass, scratch, l, h, t, evicted_n, false, q, x, keys);
    record_keys(trace, SS_FIELD_SCORES, head, t, query.rows, keys);
    size_t visible_n = normalize_row(&query, x);
    record_weights(trace, head, t, x, keys, visible_n);
}

/* Adds rows of weights to the statistics if the run stores no maps from which they could be
 * computed later. */
static void add_row_statistics(const ss_trace *trace, int head, int t, int rows, int T,
                               const float *x) {
    size_t bias = ss_bias_keys(&trace->model->arch);
    if (trace->computed_fields & SS_BIT(SS_FIELD_ATT))
        ss_statistics_add(trace, ss_available_statistics(trace), head, t, rows, T, x + bias,
                          bias + (size_t)trace->slots);
}

static void add_query_statistics(const ss_trace *trace, int head, int t, int rows, int T,
                                 const float *q, size_t stride) {
    if (trace->summed_fields & SS_BIT(SS_FIELD_Q))
        ss_statistics_add_queries(trace, head, t, rows, T, q, stride);
}

static void attend_rows(ss_pass *pass, ss_scratch *scratch, int l, int h, int t0, int t, int rows,
                        int T, int evicted_n) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_mask *mask = &trace->choices[l * arch->H + h].mask;
    size_t K = (size_t)arch->K, width = (size_t)arch->H * K, bias = ss_bias_keys(arch);
    size_t stride = bias + (size_t)trace->slots;
    size_t keys = (size_t)(ss_mask_end(mask, t + rows - 1, T) - evicted_n);
    float *q = pass->q + (size_t)(t - t0) * width + (size_t)h * K;
    size_t U = (size_t)arch->U, out_width = (size_t)arch->H * U;
    float *out = pass->head_out + (size_t)(t - t0) * out_width + (size_t)h * U;

    add_query_statistics(trace, l * arch->H + h, t, rows, T, q, width);
    score_rows(pass, scratch, l, h, q, width, (size_t)rows, keys);
    for (int r = 0; r < rows; r++) {
        float *x = scratch->scores + (size_t)r * stride;
        size_t end = (size_t)(ss_mask_end(mask, t + r, T) - evicted_n);
        attend_row(pass, scratch, l, h, t + r, evicted_n, q + (size_t)r * width, x, end);
        ss_clear(x + bias + end, keys - end);
    }
    add_row_statistics(trace, l * arch->H + h, t, rows, T, scratch->scores);
    ss_tile(scratch->tiles, scratch->scores, stride, (size_t)rows, bias + keys);
    sum_values(out, out_width, scratch->tiles, scratch->value_panels, (size_t)rows, bias + keys,
               bias + (size_t)(T - evicted_n), U);
}

/* Returns true if a single row should read its keys and values in place: packing them would cost
 * more than the product. */
static bool is_single_row(const ss_pass *pass, int rows, ss_feature feature) {
    return rows == 1 && feature == SS_FEATURE_NONE && !ss_bias_keys(&pass->trace->model->arch);
}

/* Reads the keys as SS_PANEL sequences, which processors prefetch as they do not a few keys at a
 * time. The sequences begin an odd number of keys apart: at multiples of a page they would share
 * few places of the cache. */
static void score_single_row(float *scores, const float *q, const float *k, size_t n, size_t K) {
    size_t apart = ((n + SS_PANEL - 1) / SS_PANEL) | 1;
    for (size_t j = 0; j < ss_min_size(n, apart); j++) {
        const void *rows[SS_PANEL];
        float sums[SS_PANEL] = {0};
        for (size_t i = 0, t = j; i < SS_PANEL; i++, t += apart) rows[i] = k + (t < n ? t : j) * K;
        ss_times_rows(sums, q, rows, K);
        for (size_t i = 0, t = j; i < SS_PANEL && t < n; i++, t += apart) scores[t] = sums[i];
    }
}

static void attend_single_row(ss_pass *pass, ss_scratch *scratch, int l, int h, int t,
                              int evicted_n) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_mask *mask = &trace->choices[l * arch->H + h].mask;
    size_t K = (size_t)arch->K, U = (size_t)arch->U;
    size_t keys = (size_t)(ss_mask_end(mask, t, t + 1) - evicted_n);
    int group = l * arch->G + ss_arch_group(arch, l, h);
    float *q = pass->q + (size_t)h * K, *out = pass->head_out + (size_t)h * U;
    add_query_statistics(trace, l * arch->H + h, t, 1, t + 1, q, K);
    score_single_row(scratch->scores, q, ss_row(trace, SS_FIELD_K, group, 0), keys, K);
    attend_row(pass, scratch, l, h, t, evicted_n, q, scratch->scores, keys);
    add_row_statistics(trace, l * arch->H + h, t, 1, t + 1, scratch->scores);
    ss_clear(out, U);
    ss_times_columns(out, scratch->scores, ss_row(trace, SS_FIELD_V, group, 0), U * sizeof *out, U,
                     keys);
}

typedef struct attention_job {
    ss_pass *pass;
    int l, t0, n;
} attention_job;

static void attend_head(const void *job, size_t i, size_t worker) {
    const attention_job *a = job;
    ss_pass *pass = a->pass;
    ss_scratch *scratch = &pass->scratch[worker];
    const ss_arch *arch = &pass->trace->model->arch;
    int l = a->l, h = (int)i, g = ss_arch_group(arch, l, h), T = a->t0 + a->n;
    int evicted_n = a->t0 - ss_filled_slots(pass, l, g, a->t0);
    /* The feature maps of a group's heads may differ, since an edit can change a head's operation.
     */
    ss_feature feature = pass->trace->choices[l * arch->H + h].operation->feature;
    if (is_single_row(pass, a->n, feature)) {
        attend_single_row(pass, scratch, l, h, a->t0, evicted_n);
        return;
    }
    if (scratch->group != g) pack_values(pass, scratch, l, g, (size_t)(T - evicted_n));
    if (scratch->group != g || scratch->feature != feature)
        pack_keys(pass, scratch, l, g, feature, (size_t)(T - evicted_n));
    scratch->group = g;
    scratch->feature = feature;
    for (int t = a->t0; t < T; t += SS_MAP_ROWS)
        attend_rows(pass, scratch, l, h, a->t0, t, ss_min(SS_MAP_ROWS, T - t), T, evicted_n);
}

/* Returns whether heads may run on different threads. Edits of single queries and MLP feature maps
 * share buffers of the pass, so with them heads may not. */
static bool heads_are_independent(const ss_pass *pass, int l) {
    const ss_arch *arch = &pass->trace->model->arch;
    for (int h = 0; h < arch->H; h++)
        if (pass->trace->choices[l * arch->H + h].operation->feature == SS_FEATURE_MLP)
            return false;
    return !(pass->hook_points & (SS_AT_MASK | SS_AT_SCORES | SS_AT_WEIGHTS));
}

bool ss_heads_are_independent(const ss_pass *pass) {
    bool are_independent = true;
    for (int l = 0; l < pass->trace->model->arch.L; l++)
        are_independent &= heads_are_independent(pass, l);
    return are_independent;
}

static void recompute_rows(ss_pass *pass, ss_scratch *scratch, ss_field_id field, int l, int h,
                           int t, int n) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    int head = l * arch->H + h, T = trace->T;
    const ss_mask *mask = &trace->choices[head].mask;
    size_t K = (size_t)arch->K, stride = ss_bias_keys(arch) + (size_t)trace->slots;
    size_t keys = (size_t)ss_mask_end(mask, t + n - 1, T);
    const float *q = ss_row(trace, SS_FIELD_Q, head, t);
    if (is_single_row(pass, n, trace->choices[head].operation->feature))
        score_single_row(scratch->scores, q,
                         ss_row(trace, SS_FIELD_K, l * arch->G + ss_arch_group(arch, l, h), 0),
                         keys, K);
    else
        score_rows(pass, scratch, l, h, q, K, (size_t)n, keys);
    for (int r = 0; r < n; r++) {
        float *x = scratch->scores + (size_t)r * stride;
        size_t end = (size_t)ss_mask_end(mask, t + r, T);
        ss_hook query = score_row(pass, scratch, l, h, t + r, 0, true, q + (size_t)r * K, x, end);
        if (field == SS_FIELD_ATT) normalize_row(&query, x);
    }
}

void ss_recompute_rows(ss_pass *pass, ss_field_id field, int head, int t, int n, size_t worker,
                       ss_map_reader *reader, void *context) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    ss_scratch *scratch = &pass->scratch[worker];
    int l = head / arch->H, h = head % arch->H, layer = pass->layer;
    int rows_max = ss_min(SS_MAP_ROWS, pass->chunk);
    size_t bias = ss_bias_keys(arch);
    ss_feature feature = trace->choices[head].operation->feature;
    /* An MLP feature map multiplies by weights, whose edits read the layer of the pass. */
    if (feature == SS_FEATURE_MLP) pass->layer = arch->layers[l];
    if (!is_single_row(pass, n, feature))
        pack_keys(pass, scratch, l, ss_arch_group(arch, l, h), feature,
                  (size_t)ss_mask_end(&trace->choices[head].mask, t + n - 1, trace->T));
    for (int end = t + n, rows; t < end; t += rows) {
        rows = ss_min(rows_max, end - t);
        recompute_rows(pass, scratch, field, l, h, t, rows);
        reader(context, t, rows, scratch->scores + bias, bias + (size_t)trace->slots);
    }
    if (feature == SS_FEATURE_MLP) pass->layer = layer;
}

void ss_attend(ss_pass *pass, int l, int t0, int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    attention_job a = {pass, l, t0, n};
    /* Multiplications for the scores and the outputs. Packing keys and values costs as much as
     * about 8 rows more. */
    uint64_t work = 2 * (uint64_t)(n + 8) * (uint64_t)(t0 + n) * (uint64_t)(arch->H * arch->K);
    for (size_t i = 0; i < ss_pool_workers(pass->pool); i++) pass->scratch[i].group = -1;
    ss_pool_run(heads_are_independent(pass, l) ? pass->pool : NULL, attend_head, &a,
                (size_t)arch->H, work);
}
