#include "attention.h"

#include "../../math/kernels.h"
#include "../../math/pack.h"
#include "../../run/attention.h"
#include "linear.h"

#include <string.h>

void ss_attention_back_lay_out(ss_attention_back *back, const ss_arch *arch, int length,
                               ss_arena *arena) {
    size_t T = (size_t)length, K = (size_t)arch->K, keys = T + ss_bias_keys(arch);
    size_t side = ss_max_size(keys, K);
    *back = (ss_attention_back){
        .weights = ss_arena_floats(arena, T, keys),
        .d = ss_arena_floats(arena, T, keys),
        .row = ss_arena_floats(arena, 2, keys),
        .queries = ss_arena_floats(arena, T, K),
        .d_q = ss_arena_floats(arena, T, K),
        .keys = ss_arena_floats(arena, keys, K),
        .d_k = ss_arena_floats(arena, keys, K),
        .values = ss_arena_floats(arena, keys, K),
        .d_v = ss_arena_floats(arena, keys, K),
        .inner = ss_arena_floats(arena, keys, K),
        .tiles = ss_arena_floats(arena, keys, side),
        .panels = ss_arena_floats(arena, ss_panels_floats(side, side), 1),
        .work = ss_arena_floats(
            arena, ss_max_size(ss_linear_back_work(K, K), ss_matrix_work(keys, K, 1)), 1),
    };
}

const float *ss_recorded_rows(const ss_trace *trace, ss_field_id field, int l, int h) {
    const ss_arch *arch = &trace->model->arch;
    int heads = field == SS_FIELD_K || field == SS_FIELD_V ? arch->G : arch->H;
    return ss_row(trace, field, h < 0 ? l : l * heads + h, 0);
}

static void multiply(const ss_attention_back *s, float *out, const float *a, const float *b,
                     size_t m, size_t k, size_t n) {
    ss_tile(s->tiles, a, k, m, k);
    ss_pack_columns(s->panels, b, n, n, k);
    ss_matmul(out, n, s->tiles, s->panels, NULL, m, n, k);
}

static void multiply_transposed(const ss_attention_back *s, float *out, const float *a,
                                const float *b, size_t stride, size_t m, size_t k, size_t n) {
    ss_tile_columns(s->tiles, a, m, m, k);
    ss_pack_columns(s->panels, b, stride, n, k);
    ss_matmul(out, n, s->tiles, s->panels, NULL, m, n, k);
}

static void map_mlp(const ss_attention_back *s, const ss_layer *layer, float *rows, size_t n) {
    ss_matrix_times(s->inner, rows, &layer->kernel_in.w, NULL, n, s->work, NULL);
    ss_relu(s->inner, n * layer->kernel_in.w.in);
    ss_matrix_times(rows, s->inner, &layer->kernel_out.w, NULL, n, s->work, NULL);
}

static void map_features(const ss_attention_back *s, const ss_layer *layer, ss_feature feature,
                         float *z, size_t n, size_t K) {
    if (feature == SS_FEATURE_ELU1) ss_elu1(z, n * K);
    if (feature == SS_FEATURE_MLP) map_mlp(s, layer, z, n);
}

/* Turns d from the derivative with respect to phi(z) into that with respect to z. phi_z is phi(z);
 * z is overwritten. */
static void map_back(const ss_attention_back *s, const ss_layer *layer, const ss_layer *sums,
                     ss_feature feature, float *d, const float *phi_z, float *z, size_t n,
                     size_t K) {
    if (feature == SS_FEATURE_ELU1) /* the derivative is 1 where phi > 1 (z > 0), else e^z = phi */
        for (size_t i = 0; i < n * K; i++) d[i] *= phi_z[i] < 1.0f ? phi_z[i] : 1.0f;
    if (feature != SS_FEATURE_MLP) return;
    memcpy(s->values, z,
           n * K * sizeof *z); /* keeps z in s->values, which are not needed any more */
    map_mlp(s, layer, z, n);
    ss_linear_back_weights(s->inner, d, &sums->kernel_out, n, s->work);
    ss_linear_back_inputs(d, d, &layer->kernel_out, n, s->work);
    for (size_t i = 0; i < n * K; i++) d[i] = s->inner[i] > 0.0f ? d[i] : 0.0f;
    ss_linear_back_weights(s->values, d, &sums->kernel_in, n, s->work);
    ss_linear_back_inputs(d, d, &layer->kernel_in, n, s->work);
}

static void close_gap(float *x, size_t first, size_t hidden_n, size_t n) {
    memmove(x + first, x + first + hidden_n, (n - first - hidden_n) * sizeof *x);
}

static void open_gap(float *x, size_t first, size_t hidden_n, size_t n) {
    memmove(x + first + hidden_n, x + first, (n - first - hidden_n) * sizeof *x);
    memset(x + first, 0, hidden_n * sizeof *x);
}

/* Turns d[n], the derivative with respect to a row of weights, into that with respect to the row's
 * scores. Hidden keys get 0. Returns the derivative with respect to the operation's parameter. */
static float row_back(const ss_attention_back *s, float *d, const float *weights, size_t n,
                      const ss_choice *choice, size_t bias, size_t keys_max) {
    float *x = s->row, *w = s->row + keys_max;
    /* Among the masks of models only a window hides keys before a query. It hides the first tokens,
     * never the bias key. */
    size_t tokens = n - bias, recent = (size_t)choice->mask.recent;
    size_t hidden_n = recent < tokens ? tokens - recent : 0;
    memcpy(w, weights, n * sizeof *w);
    if (hidden_n) {
        close_gap(d, bias, hidden_n, n);
        close_gap(x, bias, hidden_n, n);
        close_gap(w, bias, hidden_n, n);
    }
    float parameter_gradient = choice->operation->back(d, x, w, n - hidden_n, choice->parameters);
    if (hidden_n) open_gap(d, bias, hidden_n, n);
    return parameter_gradient;
}

/* Turns s->d from the derivative with respect to the weights of head h into that with respect to
 * the products q.k. Returns the derivative with respect to the operation's parameter. */
static float scores_back(const ss_attention_back *s, const ss_trace *trace, int l, int h) {
    const ss_arch *arch = &trace->model->arch;
    const ss_choice *choice = &trace->choices[l * arch->H + h];
    const float *scores = ss_recorded_rows(trace, SS_FIELD_SCORES, l, h);
    size_t T = (size_t)trace->T, C = (size_t)trace->capacity, K = (size_t)arch->K;
    size_t bias = ss_bias_keys(arch), keys = bias + T;
    float parameter_gradient = 0.0f;
    for (size_t t = 0; t < T; t++) {
        float *d = s->d + t * keys;
        size_t visible_n = (size_t)ss_mask_end(&choice->mask, (int)t, (int)T);
        if (bias) s->row[0] = ss_dot(s->queries + t * K, s->keys, K) * arch->score_scale;
        memcpy(s->row + bias, scores + t * C, visible_n * sizeof *d);
        parameter_gradient +=
            row_back(s, d, s->weights + t * keys, bias + visible_n, choice, bias, keys);
        ss_scale(d, arch->score_scale, bias + visible_n);
        memset(d + bias + visible_n, 0, (T - visible_n) * sizeof *d);
    }
    return parameter_gradient;
}

static void read_weights(const ss_attention_back *s, const ss_trace *trace, int l, int h) {
    size_t T = (size_t)trace->T, C = (size_t)trace->capacity;
    size_t bias = ss_bias_keys(&trace->model->arch), keys = bias + T;
    const float *att = ss_recorded_rows(trace, SS_FIELD_ATT, l, h);
    const float *bias_weights = bias ? ss_recorded_rows(trace, SS_FIELD_ATT_BIAS, l, h) : NULL;
    for (size_t t = 0; t < T; t++) {
        if (bias_weights) s->weights[t * keys] = bias_weights[t];
        memcpy(s->weights + t * keys + bias, att + t * C, T * sizeof *att);
    }
}

static void read_head(const ss_attention_back *s, const ss_trace *trace, int l, int h, size_t g,
                      ss_feature feature) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t T = (size_t)trace->T, K = (size_t)arch->K, bias = ss_bias_keys(arch);
    memcpy(s->queries, ss_recorded_rows(trace, SS_FIELD_Q, l, h), T * K * sizeof(float));
    map_features(s, layer, feature, s->queries, T, K);
    ss_prepend_bias_key(s->keys, ss_head_vector(layer->bias_keys, arch->bias_key, (int)g, arch->K),
                        bias, ss_recorded_rows(trace, SS_FIELD_K, l, (int)g), T, K);
    map_features(s, layer, feature, s->keys, bias + T, K);
    ss_prepend_bias_key(s->values,
                        ss_head_vector(layer->bias_values, arch->bias_key_value, (int)g, arch->K),
                        bias, ss_recorded_rows(trace, SS_FIELD_V, l, (int)g), T, K);
}

static void add_head(float *out, size_t h, size_t heads, const float *rows, size_t T, size_t K) {
    for (size_t t = 0; t < T; t++) ss_add(out + (t * heads + h) * K, rows + t * K, K);
}

static void head_back(const ss_attention_back *s, float *d_q, float *d_k, float *d_v,
                      const float *d_head_out, const ss_trace *trace, int l, int h,
                      const ss_layer *sums) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t T = (size_t)trace->T, K = (size_t)arch->K, H = (size_t)arch->H, G = (size_t)arch->G;
    size_t bias = ss_bias_keys(arch), keys = bias + T, g = (size_t)h / (H / G);
    ss_feature feature = trace->choices[l * arch->H + h].operation->feature;
    read_weights(s, trace, l, h);
    read_head(s, trace, l, h, g, feature);

    /* out = weights * values, so d_weights = d_out * values^T and d_values = weights^T * d_out. */
    const float *d = d_head_out + (size_t)h * K;
    ss_tile(s->tiles, d, H * K, T, K);
    ss_pack_rows(s->panels, s->values, K, keys, K);
    ss_matmul(s->d, keys, s->tiles, s->panels, NULL, T, keys, K);
    multiply_transposed(s, s->d_v, s->weights, d, H * K, keys, T, K);

    float parameter_gradient = scores_back(s, trace, l, h);
    if (sums->sinks) ((float *)(size_t)sums->sinks)[h] += parameter_gradient;

    /* products = queries * keys^T, so d_queries = d_products * keys and
     * d_keys = d_products^T * queries. */
    multiply(s, s->d_q, s->d, s->keys, T, keys, K);
    multiply_transposed(s, s->d_k, s->d, s->queries, K, keys, T, K);
    if (feature != SS_FEATURE_NONE) {
        float *rows = s->tiles;
        memcpy(rows, ss_recorded_rows(trace, SS_FIELD_Q, l, h), T * K * sizeof *rows);
        map_back(s, layer, sums, feature, s->d_q, s->queries, rows, T, K);
        ss_prepend_bias_key(rows, ss_head_vector(layer->bias_keys, arch->bias_key, (int)g, arch->K),
                            bias, ss_recorded_rows(trace, SS_FIELD_K, l, (int)g), T, K);
        map_back(s, layer, sums, feature, s->d_k, s->keys, rows, keys, K);
    }
    add_head(d_q, (size_t)h, H, s->d_q, T, K);
    add_head(d_k, g, G, s->d_k + bias * K, T, K);
    add_head(d_v, g, G, s->d_v + bias * K, T, K);
    const float *key_sum = ss_head_vector(sums->bias_keys, arch->bias_key, (int)g, arch->K);
    const float *value_sum =
        ss_head_vector(sums->bias_values, arch->bias_key_value, (int)g, arch->K);
    if (bias && key_sum) ss_add((float *)(size_t)key_sum, s->d_k, K);
    if (bias && value_sum) ss_add((float *)(size_t)value_sum, s->d_v, K);
}

void ss_attention_back_run(const ss_attention_back *back, float *d_q, float *d_k, float *d_v,
                           const float *d_head_out, const ss_trace *trace, int l,
                           const ss_layer *sums) {
    const ss_arch *arch = &trace->model->arch;
    size_t T = (size_t)trace->T, K = (size_t)arch->K;
    memset(d_q, 0, T * (size_t)arch->H * K * sizeof *d_q);
    memset(d_k, 0, T * (size_t)arch->G * K * sizeof *d_k);
    memset(d_v, 0, T * (size_t)arch->G * K * sizeof *d_v);
    for (int h = 0; h < arch->H; h++) head_back(back, d_q, d_k, d_v, d_head_out, trace, l, h, sums);
}
