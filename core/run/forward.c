#include "forward.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "attention.h"
#include "ffn.h"
#include "linear.h"
#include "edits/evict.h"
#include "edits/hook.h"
#include "mixer.h"

#include <math.h>
#include <string.h>

void ss_norm_vectors(float *out, const float *x, const ss_norm *norm, const ss_arch *arch, size_t n,
                     size_t width) {
    float eps = norm->eps > 0.0f ? norm->eps : arch->norm_eps;
    for (size_t t = 0; t < n; t++, out += width, x += width)
        if (arch->norm == SS_NORM_RMS)
            ss_rmsnorm(out, x, norm->gain, eps, width);
        else
            ss_layernorm(out, x, norm->gain, norm->bias, eps, width);
}

static void compute_angles(ss_pass *pass, int t0, int n) {
    const ss_model *model = pass->trace->model;
    const ss_arch *arch = &model->arch;
    ss_angles *angles = pass->angles;
    const int32_t *positions = pass->positions + t0;
    ss_rotary_angles(&angles[0], model->rotary, arch->rotary.attention_factor,
                     ss_arch_pairs(arch, false), positions, n);
    if (arch->has_window_rotary)
        ss_rotary_angles(&angles[1], model->window_rotary, arch->window_rotary.attention_factor,
                         ss_arch_pairs(arch, true), positions, n);
}

static void embed_tokens(ss_pass *pass, int t0, int n) {
    const ss_model *model = pass->trace->model;
    size_t width = (size_t)model->arch.embedding_width;
    float *rows = model->embedding_in.w.data ? pass->y : pass->x;
    for (int i = 0; i < n; i++) {
        float *x = rows + (size_t)i * width;
        ss_matrix_unpack_output(x, &model->embedding.w, (size_t)ss_tokens(pass->trace)[t0 + i]);
        ss_scale(x, model->arch.embedding_scale, width);
    }
    /* No edit acts on this product: edits of weights select layers, and it belongs to none. */
    if (rows == pass->y)
        ss_matrix_times(pass->x, rows, &model->embedding_in.w, NULL, (size_t)n, pass->work,
                        pass->pool);
}

static void embed(ss_pass *pass, int t0, int n) {
    const ss_model *model = pass->trace->model;
    const ss_angles *angles = pass->angles;
    size_t D = (size_t)model->arch.D, half = D / 2;
    embed_tokens(pass, t0, n);
    for (size_t i = 0; i < (size_t)n; i++) {
        size_t t = (size_t)t0 + i;
        float *x = pass->x + i * D;
        if (model->positions) ss_add(x, model->positions + (size_t)pass->positions[t] * D, D);
        if (model->token_type) ss_add(x, model->token_type, D);
        if (model->arch.positions != SS_POSITIONS_SINUSOID) continue;
        /* Sines, then cosines, as in Gu et al.'s code; their equation 5 interleaves them. */
        ss_add(x, angles->sine + i * half, half);
        ss_add(x + half, angles->cosine + i * half, half);
    }
    if (model->arch.embedding_norm)
        ss_norm_vectors(pass->x, pass->x, &model->embedding_norm, &model->arch, (size_t)n, D);
}

static void clip_rows(float *rows, const ss_arch *arch, size_t n) {
    float limit = arch->qkv_clip;
    for (size_t i = 0; limit > 0.0f && i < n; i++)
        rows[i] = rows[i] > limit ? limit : rows[i] < -limit ? -limit : rows[i];
}

static void norm_and_rotate(ss_pass *pass, int a, float *rows, const ss_norm *head_norm, int heads,
                            int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    ss_sizes sizes = ss_arch_sizes(arch, a);
    size_t K = (size_t)sizes.K, H = (size_t)heads, pairs = (size_t)sizes.rotary_width / 2;
    if (arch->qk_norm == SS_QK_NORM_HEAD)
        ss_norm_vectors(rows, rows, head_norm, arch, (size_t)n * H, K);
    if (arch->qk_norm == SS_QK_NORM_ALL_HEADS)
        ss_norm_vectors(rows, rows, head_norm, arch, (size_t)n, H * K);
    for (size_t i = 0; arch->qk_norm == SS_QK_NORM_OWN_HEAD && i < (size_t)n * H; i++) {
        ss_norm own_norm = {.gain = head_norm->gain + i % H * K};
        ss_norm_vectors(rows + i * K, rows + i * K, &own_norm, arch, 1, K);
    }
    clip_rows(rows, arch, (size_t)n * H * K);
    if (!ss_arch_rotates(arch, a)) return;
    const ss_angles *angles = &pass->angles[arch->has_window_rotary && arch->windowed[a]];
    for (size_t i = 0; i < (size_t)n * H; i++) {
        size_t offset = i / H * pairs;
        ss_rotate(rows + i * K, rows + i * K, angles->cosine + offset, angles->sine + offset,
                  pairs);
    }
    if (arch->qk_norm == SS_QK_NORM_HEAD_ROTATED)
        ss_norm_vectors(rows, rows, head_norm, arch, (size_t)n * H, K);
}

/* Widens rows [n][layer_width] to [n][width] with zeros, which change no product, sum or norm. */
static void widen_rows(float *rows, size_t n, int layer_width, int width) {
    size_t from_width = (size_t)layer_width, to_width = (size_t)width;
    for (size_t i = n; from_width < to_width && i-- > 0;) {
        memmove(rows + i * to_width, rows + i * from_width, from_width * sizeof *rows);
        ss_clear(rows + i * to_width + from_width, to_width - from_width);
    }
}

static void narrow_rows(float *rows, size_t n, int layer_width, int width) {
    size_t to_width = (size_t)layer_width, from_width = (size_t)width;
    for (size_t i = 1; to_width < from_width && i < n; i++)
        memmove(rows + i * to_width, rows + i * from_width, to_width * sizeof *rows);
}

static void record_heads(const ss_trace *trace, ss_field_id field, int l, int heads, int t0, int n,
                         const float *rows) {
    size_t width = trace->widths[field];
    for (int h = 0; h < heads; h++)
        ss_record(trace, field, l * heads + h, t0, n, rows + (size_t)h * width,
                  (size_t)heads * width);
}

/* Stores keys or values [n][heads][width] of tokens [t0, t0+n) in the cache, the trace. */
static void cache_heads(ss_pass *pass, ss_field_id field, int l, int heads, int t0, int n,
                        const float *rows) {
    const ss_trace *trace = pass->trace;
    int G = trace->model->arch.G;
    size_t width = trace->widths[field], stride = (size_t)heads * width;
    for (int g = 0; g < heads; g++) {
        int slot = ss_filled_slots(pass, l, g, t0);
        int32_t *tokens = pass->cache.tokens;
        if (tokens) tokens += (size_t)(l * G + g) * (size_t)trace->slots + (size_t)slot;
        for (int i = 0; tokens && i < n; i++) tokens[i] = t0 + i;
        const float *head_rows = rows + (size_t)g * width;
        ss_record(trace, field, l * G + g, slot, n, head_rows, stride);
        ss_statistics_add_norms(trace, field, l * G + g, t0, n, head_rows, stride);
    }
}

/* Size of the tiles in which |W_O v| is computed: the weights and rows of one tile take under 10 KB
 * and stay in the L1 cache. */
#define NORM_ROWS (12 * SS_TILE)
#define NORM_OUTPUTS (4 * SS_PANEL)

static void add_squares(float *norms, const float *tiles, const float *const *panels, size_t n,
                        size_t width, size_t U) {
    float products[NORM_ROWS * NORM_OUTPUTS];
    for (size_t t = 0; t < n; t += NORM_ROWS) {
        size_t rows = (size_t)ss_min(NORM_ROWS, (int)(n - t));
        for (size_t c = 0; c < width; c += SS_PANEL)
            ss_matmul(products + c, NORM_OUTPUTS, tiles + t * U, panels[c / SS_PANEL], NULL, rows,
                      (size_t)ss_min(SS_PANEL, (int)(width - c)), U);
        for (size_t r = 0; r < rows; r++) {
            const float *row = products + r * NORM_OUTPUTS;
            norms[t + r] += ss_dot(row, row, width);
        }
    }
}

/* Records |W_O v| for every head and token, from values [n][G][U]. */
static void record_out_norms(ss_pass *pass, int a, const float *values, int t0, int n) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_matrix *o = &trace->model->layers[arch->layers[a]].o.w;
    ss_sizes sizes = ss_arch_sizes(arch, a);
    size_t U = (size_t)sizes.U, G = (size_t)sizes.G, H = (size_t)arch->H, rows = (size_t)n;
    float *norms = ss_row(trace, SS_FIELD_OUT_NORM, a * arch->H, t0);
    size_t stride = (size_t)trace->capacity;
    if (!norms) return;
    float *tiles = pass->head_out; /* unused until the head outputs are computed */
    for (size_t g = 0; g < G; g++) ss_tile(tiles + g * rows * U, values + g * U, G * U, rows, U);
    for (size_t h = 0; h < H; h++) memset(norms + h * stride, 0, rows * sizeof *norms);
    for (size_t d = 0; d < o->out; d += NORM_OUTPUTS) {
        size_t width = (size_t)ss_min(NORM_OUTPUTS, (int)(o->out - d));
        const float *row_panels[NORM_OUTPUTS / SS_PANEL], *head_panels[NORM_OUTPUTS / SS_PANEL];
        for (size_t c = 0; c < width; c += SS_PANEL)
            row_panels[c / SS_PANEL] = ss_matrix_panel(pass->work + c * o->in, o, d + c);
        for (size_t h = 0; h < H; h++) {
            size_t first = arch->added_heads ? 0 : h * U;
            for (size_t c = 0; c < width; c += SS_PANEL)
                head_panels[c / SS_PANEL] = row_panels[c / SS_PANEL] + first * SS_PANEL;
            add_squares(norms + h * stride, tiles + h / (H / G) * rows * U, head_panels, rows,
                        width, U);
        }
    }
    for (size_t i = 0; i < rows * H; i++) {
        float *norm = &norms[i % H * stride + i / H];
        *norm = sqrtf(*norm);
    }
}

static void edit_heads(ss_pass *pass, unsigned point, int a, float *rows, int heads, int width,
                       int t0, int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    ss_edits_apply_at(point, (ss_hook){.pass = pass,
                                       .l = arch->layers[a],
                                       .a = a,
                                       .t = t0,
                                       .n = n,
                                       .rows = rows,
                                       .heads = (size_t)heads,
                                       .width = (size_t)width});
}

static void norm_block_input(ss_pass *pass, const ss_norm *block_norm, int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t D = (size_t)arch->D;
    if (arch->post_norm || !block_norm->gain)
        memcpy(pass->y, pass->x, (size_t)n * D * sizeof *pass->y);
    else
        ss_norm_vectors(pass->y, pass->x, block_norm, arch, (size_t)n, D);
}

static void add_block_output(ss_pass *pass, const ss_norm *block_norm, const float *block_out,
                             int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    ss_add(pass->x, block_out, (size_t)n * (size_t)arch->D);
    if (arch->post_norm && block_norm->gain)
        ss_norm_vectors(pass->x, pass->x, block_norm, arch, (size_t)n, (size_t)arch->D);
}

/* Records the field `gate` of tokens [t0, t0+n): each query head's mean over its gate numbers. */
static void record_gates(ss_pass *pass, int a, int t0, int n) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t heads = (size_t)ss_arch_gated_heads(arch), width = (size_t)ss_arch_gate_width(arch);
    size_t group_heads = (size_t)arch->H / heads, H = (size_t)arch->H;
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t h = 0; h < H; h++) {
            const float *gates = pass->gates + (i * heads + h / group_heads) * width;
            float mean = ss_sum(gates, width) / (float)width;
            ss_record(trace, SS_FIELD_GATE, a * arch->H + (int)h, t0 + (int)i, 1, &mean, 1);
        }
}

void ss_multiply_by_gates(float *rows, const float *gates, const ss_arch *arch, size_t n) {
    size_t U = (size_t)arch->U;
    if (ss_arch_gate_width(arch) == arch->U)
        ss_multiply(rows, gates, n * U);
    else
        for (size_t i = 0; i < n; i++) ss_scale(rows + i * U, gates[i], U);
}

/* Multiplies rows[n][gated heads * U] by sigmoid(gate y), per number or per head; y may be rows. */
static void apply_gates(ss_pass *pass, int a, float *rows, int t0, int n) {
    const ss_model *model = pass->trace->model;
    float *gates = pass->gates;
    size_t width = (size_t)ss_arch_gate_width(&model->arch);
    size_t heads = (size_t)n * (size_t)ss_arch_gated_heads(&model->arch);
    const float *y = model->arch.gate == SS_GATE_VALUE_STATE ? rows : pass->y;
    ss_linear_rows(pass, gates, y, &model->layers[model->arch.layers[a]].gate, (size_t)n);
    ss_sigmoid(gates, gates, 0.0f, heads * width);
    record_gates(pass, a, t0, n);
    ss_multiply_by_gates(rows, gates, &model->arch, heads);
}

void ss_add_value_biases(float *out, const ss_layer *layer, const ss_arch *arch, size_t n,
                         size_t U) {
    for (size_t i = 0; layer->value_biases && i < n * (size_t)arch->H; i++, out += U) {
        int h = (int)(i % (size_t)arch->H);
        ss_add(out, ss_head_vector(layer->value_biases, arch->value_bias, h, (int)U), U);
    }
}

void ss_add_heads(float *out, const ss_arch *arch, size_t n) {
    size_t H = (size_t)arch->H, U = (size_t)arch->U;
    for (size_t i = 0; i < n; i++) {
        float *sum = out + i * U;
        const float *row = out + i * H * U;
        memmove(sum, row, U * sizeof *sum);
        for (size_t h = 1; h < H; h++) ss_add(sum, row + h * U, U);
    }
}

/* Turns head outputs [n][H*U] into the input of W_O: adds value biases, applies gates and edits,
 * sums heads. */
static void finish_heads(ss_pass *pass, int a, float *out, int t0, int n) {
    const ss_model *model = pass->trace->model;
    int U = ss_arch_sizes(&model->arch, a).U;
    ss_add_value_biases(out, &model->layers[model->arch.layers[a]], &model->arch, (size_t)n,
                        (size_t)U);
    if (model->arch.gate && model->arch.gate < SS_GATE_VALUE_ELEMENT)
        apply_gates(pass, a, out, t0, n);
    edit_heads(pass, SS_AT_HEADS, a, out, model->arch.H, U, t0, n);
    if (model->arch.added_heads) ss_add_heads(out, &model->arch, (size_t)n);
}

/* Returns what queries, or keys and values, are projected from: y, or norm(y w) if latent. */
static const float *compress(ss_pass *pass, const ss_linear *w, const ss_norm *latent_norm, int n) {
    if (!w->w.data) return pass->y;
    ss_linear_rows(pass, pass->latent, pass->y, w, (size_t)n);
    ss_norm_vectors(pass->latent, pass->latent, latent_norm, &pass->trace->model->arch, (size_t)n,
                    w->w.out);
    return pass->latent;
}

/* Computes the keys pass->kv[n][G][K]; in latent attention each begins with the rotated part that
 * all heads share. */
static void project_keys(ss_pass *pass, const ss_layer *layer, const float *in, int groups, int n) {
    size_t shared_width = layer->k_shared.w.out, K = (size_t)pass->trace->model->arch.K,
           head_width = K - shared_width;
    size_t heads = (size_t)n * (size_t)groups;
    float *head_keys = pass->q,
          *shared_keys = head_keys + heads * head_width; /* unused until queries are computed */
    if (!layer->k_shared.w.data) {
        ss_linear_rows(pass, pass->kv, in, &layer->k, (size_t)n);
        return;
    }
    ss_linear_rows(pass, head_keys, in, &layer->k, (size_t)n);
    ss_linear_rows(pass, shared_keys, pass->y, &layer->k_shared, (size_t)n);
    for (size_t i = 0; i < heads; i++) {
        size_t t = i / (heads / (size_t)n);
        ss_copy(pass->kv + i * K, shared_keys + t * shared_width, shared_width);
        ss_copy(pass->kv + i * K + shared_width, head_keys + i * head_width, head_width);
    }
}

static const float *copy_keys_as_values(ss_pass *pass, const ss_layer *layer, size_t n) {
    if (layer->v.w.data) return NULL;
    return memcpy(pass->q, pass->kv, n * sizeof *pass->q); /* unused until queries are computed */
}

/* Computes Attention(norm(x)) of attention layer a, normed again in models with branch norms.
 * Returns [n][D], in the trace if it is recorded. */
static const float *compute_attention_block(ss_pass *pass, int a, int t0, int n) {
    ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[arch->layers[a]];
    size_t D = (size_t)arch->D;

    norm_block_input(pass, &layer->attention_norm, n);
    ss_apply_factor(pass->y, arch->attention_in_scale, (size_t)n * D);

    ss_sizes sizes = ss_arch_sizes(arch, a);
    size_t groups = (size_t)n * (size_t)sizes.G, heads = (size_t)n * (size_t)arch->H;
    const float *in = compress(pass, &layer->kv_latent, &layer->kv_latent_norm, n);
    project_keys(pass, layer, in, sizes.G, n);
    ss_apply_factor(pass->kv, arch->key_scale, groups * (size_t)sizes.K);
    const float *values = copy_keys_as_values(pass, layer, groups * (size_t)sizes.K);
    norm_and_rotate(pass, a, pass->kv, &layer->k_norm, sizes.G, n);
    edit_heads(pass, SS_AT_KEYS, a, pass->kv, sizes.G, sizes.K, t0, n);
    widen_rows(pass->kv, groups, sizes.K, arch->K);
    cache_heads(pass, SS_FIELD_K, a, sizes.G, t0, n, pass->kv);
    if (values)
        memcpy(pass->kv, values, groups * (size_t)sizes.U * sizeof *pass->kv);
    else
        ss_linear_rows(pass, pass->kv, in, &layer->v, (size_t)n);
    clip_rows(pass->kv, arch, groups * (size_t)sizes.U);
    if (layer->v_norm.gain)
        ss_norm_vectors(pass->kv, pass->kv, &layer->v_norm, arch, groups, (size_t)sizes.U);
    ss_apply_factor(pass->kv, arch->value_scale, groups * (size_t)sizes.U);
    if (arch->gate >= SS_GATE_VALUE_ELEMENT) apply_gates(pass, a, pass->kv, t0, n);
    edit_heads(pass, SS_AT_VALUES, a, pass->kv, sizes.G, sizes.U, t0, n);
    record_out_norms(pass, a, pass->kv, t0, n);
    widen_rows(pass->kv, groups, sizes.U, arch->U);
    cache_heads(pass, SS_FIELD_V, a, sizes.G, t0, n, pass->kv);

    in = compress(pass, &layer->q_latent, &layer->q_latent_norm, n);
    ss_linear_rows(pass, pass->q, in, &layer->q, (size_t)n);
    norm_and_rotate(pass, a, pass->q, &layer->q_norm, arch->H, n);
    edit_heads(pass, SS_AT_QUERIES, a, pass->q, arch->H, sizes.K, t0, n);
    widen_rows(pass->q, heads, sizes.K, arch->K);
    record_heads(trace, SS_FIELD_Q, a, arch->H, t0, n, pass->q);

    float *head_out = pass->head_out;
    ss_attend(pass, a, t0, n);
    for (int g = 0; pass->cache.filled_slots && g < sizes.G; g++)
        ss_cache_compact(pass, a, g, n + ss_filled_slots(pass, a, g, t0));
    record_heads(trace, SS_FIELD_HEAD_OUT, a, arch->H, t0, n, head_out);
    narrow_rows(head_out, heads, sizes.U, arch->U);
    finish_heads(pass, a, head_out, t0, n);
    float *trace_rows = ss_row(trace, SS_FIELD_ATT_OUT, a, t0);
    float *out = trace_rows ? trace_rows : pass->attn_out;
    ss_linear_rows(pass, out, head_out, &layer->o, (size_t)n);
    ss_apply_factor(out, arch->branch_scale * arch->attention_out_scale, (size_t)n * D);
    if (layer->attention_out_norm.gain)
        ss_norm_vectors(out, out, &layer->attention_out_norm, arch, (size_t)n, D);
    return out;
}

/* Computes FFN(norm(x)) of layer l, normed again in models with branch norms. Returns [n][D], in
 * the trace if it is recorded. */
static const float *compute_ffn_block(ss_pass *pass, int l, int t0, int n) {
    ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D;

    norm_block_input(pass, &layer->ffn_norm, n);
    float *trace_rows = ss_layer_row(pass, SS_FIELD_MLP_OUT, t0);
    float *out = trace_rows ? trace_rows : pass->ffn_out;
    ss_feed_forward(pass, out, l, n);
    ss_apply_factor(out, arch->branch_scale * arch->ffn_out_scale, (size_t)n * D);
    if (arch->E && pass->a >= 0)
        ss_record(trace, SS_FIELD_ROUTER, pass->a, t0, n, pass->router, (size_t)arch->E);
    if (layer->ffn_out_norm.gain)
        ss_norm_vectors(out, out, &layer->ffn_out_norm, arch, (size_t)n, D);
    return out;
}

/* Applies edits to the residual stream after layer l - 1 (l = 0: the embedding) and records it;
 * the next layer reads the result. */
static void record_hidden(ss_pass *pass, int l, int t0, int n) {
    size_t D = (size_t)pass->trace->model->arch.D;
    ss_trace_clear_rounded(pass->trace, l, t0, n, 0);
    ss_edits_apply_at(
        SS_AT_HIDDEN,
        (ss_hook){.pass = pass, .l = l, .t = t0, .n = n, .rows = pass->x, .heads = 1, .width = D});
    ss_record(pass->trace, SS_FIELD_HIDDEN, l, t0, n, pass->x, D);
    ss_statistics_add_norms(pass->trace, SS_FIELD_HIDDEN, l, t0, n, pass->x, D);
}

/* Computes one layer: x += Attention(norm(x)); x += FFN(norm(x)). In parallel models both sums read
 * the same x. With post norm, x = norm(x + Attention(x)); x = norm(x + FFN(x)). A mixer replaces
 * attention or is added to it. */
static void compute_layer(ss_pass *pass, int l, int t0, int n) {
    const ss_arch *arch = &pass->trace->model->arch;
    const ss_layer *layer = &pass->trace->model->layers[l];
    float *mixer_out = pass->ffn_out; /* unused until the feed-forward */
    pass->a = ss_attention_of(arch, l);
    if (pass->a < 0 || arch->mixer.in_every_layer) {
        norm_block_input(pass, &layer->attention_norm, n);
        ss_mix(pass, mixer_out, l, n);
    }
    const float *attn_out = pass->a < 0 ? mixer_out : compute_attention_block(pass, pass->a, t0, n);
    if (arch->mixer.in_every_layer) ss_add(pass->x, mixer_out, (size_t)n * (size_t)arch->D);
    if (!arch->parallel) add_block_output(pass, &layer->attention_norm, attn_out, n);
    const float *ffn_out = compute_ffn_block(pass, l, t0, n);
    if (arch->parallel) add_block_output(pass, &layer->attention_norm, attn_out, n);
    add_block_output(pass, &layer->ffn_norm, ffn_out, n);
    if (layer->scale) ss_scale(pass->x, *layer->scale, (size_t)n * (size_t)arch->D);
    record_hidden(pass, l + 1, t0, n);
}

/* Returns -ln softmax(logits)[token]; work [V] is overwritten and may be the logits themselves. */
static float loss_of(const float *logits, int token, size_t V, float *work) {
    float logit = logits[token], top = ss_max(logits, V);
    float sum = ss_exp(work, logits, top, V);
    return (float)((double)top + ss_log((double)sum) - (double)logit);
}

/* Returns the number of tokens with a larger logit than `token`, or an equal one and a lower id. */
static float rank_of(const float *logits, int token, size_t V) {
    size_t lower = (size_t)token;
    return (float)(ss_count(logits, logits[lower], true, lower) +
                   ss_count(logits + lower, logits[lower], false, V - lower));
}

static void record_predicted(const ss_trace *trace, int t, const float *logits, float *work) {
    size_t V = (size_t)trace->model->arch.V;
    int token = ss_tokens(trace)[t];
    bool has_prediction = t >= ss_first_predicted(trace);
    if (ss_floats(trace, SS_FIELD_RANK)) {
        float rank = has_prediction ? rank_of(logits, token, V) : NAN;
        ss_record(trace, SS_FIELD_RANK, 0, t, 1, &rank, 1);
    }
    if (ss_floats(trace, SS_FIELD_LOSS)) {
        float loss = has_prediction ? loss_of(logits, token, V, work) : NAN;
        ss_record(trace, SS_FIELD_LOSS, 0, t, 1, &loss, 1);
    }
}

void ss_forward_begin(ss_pass *pass) {
    record_predicted(pass->trace, pass->trace->T, ss_floats(pass->trace, SS_FIELD_NEXT),
                     pass->logits);
}

/* Computes logits for rows [first, first+rows) of the chunk at t0 from y[n][embedding width], and
 * records these logits with losses and ranks. In a model without a head they are NaN. */
static void compute_logit_rows(ss_pass *pass, const float *y, int t0, int first, int rows,
                               int total) {
    ss_trace *trace = pass->trace;
    const ss_model *model = trace->model;
    size_t V = (size_t)model->arch.V, width = (size_t)model->arch.embedding_width;
    float *trace_rows = ss_row(trace, SS_FIELD_LOGITS, 0, t0 + first);
    float *next = ss_floats(trace, SS_FIELD_NEXT), *out = trace_rows ? trace_rows : pass->logits;
    if (!model->headless)
        ss_linear_rows(pass, out, y + (size_t)first * width, &model->head, (size_t)rows);
    else
        for (size_t i = 0; i < (size_t)rows * V; i++) out[i] = NAN;
    ss_scale(out, model->arch.logit_scale, (size_t)rows * V);
    ss_soft_cap(out, model->arch.logit_cap, (size_t)rows * V);
    for (int i = 0; i < rows; i++) {
        int t = t0 + first + i;
        float *row = out + (size_t)i * V;
        if (next && t == total - 1) memcpy(next, row, V * sizeof *row);
        if (t + 1 < total) record_predicted(trace, t + 1, row, trace_rows ? pass->logits : row);
    }
}

static const float *compute_head_input(ss_pass *pass, int n) {
    const ss_model *model = pass->trace->model;
    const ss_arch *arch = &model->arch;
    size_t rows = (size_t)n, width = (size_t)arch->embedding_width;
    norm_block_input(pass, &model->norm, n);
    if (!model->head_in.w.data) return pass->y;
    ss_linear_rows(pass, pass->attn_out, pass->y, &model->head_in, rows);
    if (model->head_norm.gain) {
        ss_activate(pass->attn_out, arch->activation, rows * width);
        ss_norm_vectors(pass->attn_out, pass->attn_out, &model->head_norm, arch, rows, width);
    }
    return pass->attn_out;
}

static void compute_logits(ss_pass *pass, int t0, int n, int total) {
    ss_trace *trace = pass->trace;
    bool needs_all = trace->fields & (SS_BIT(SS_FIELD_LOGITS) | SS_FIELDS_PREDICTED);
    bool needs_last = trace->fields & SS_BIT(SS_FIELD_NEXT) && t0 + n == total;
    /* Each product reads all weights of the head, so it has as many rows as the buffer holds. */
    int rows_max = trace->fields & SS_BIT(SS_FIELD_LOGITS) ? n : SS_LOGIT_ROWS;
    if (!needs_all && !needs_last) return;
    const float *y = compute_head_input(pass, n);
    for (int first = needs_all ? 0 : n - 1, rows; first < n; first += rows) {
        rows = n - first < rows_max ? n - first : rows_max;
        compute_logit_rows(pass, y, t0, first, rows, total);
    }
}

void ss_forward_next(ss_pass *pass) {
    ss_trace *trace = pass->trace;
    size_t D = (size_t)trace->model->arch.D;
    int last = trace->T - 1, layer = pass->layer;
    if (!(trace->fields & SS_BIT(SS_FIELD_NEXT))) return;
    pass->layer = trace->model->arch.blocks; /* edits of weights skip the LM head */
    memcpy(pass->x, ss_row(trace, SS_FIELD_HIDDEN, pass->layer, last), D * sizeof *pass->x);
    compute_logit_rows(pass, compute_head_input(pass, 1), last, 0, 1, trace->T);
    pass->layer = layer;
}

/* Starts a chunk from its tokens, or from another run's edited residual stream. */
static void begin_chunk(ss_pass *pass, int t0, int n) {
    size_t D = (size_t)pass->trace->model->arch.D;
    compute_angles(pass, t0, n);
    if (pass->source_stream) {
        ss_trace_clear_rounded(pass->trace, pass->first_layer, t0, n, 2);
        memcpy(pass->x, pass->source_stream + (size_t)t0 * D, (size_t)n * D * sizeof *pass->x);
        return;
    }
    embed(pass, t0, n);
    record_hidden(pass, 0, t0, n);
}

static void enter_chunk(ss_pass *pass, int t0) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t offset = pass->by_layer ? (size_t)t0 : 0;
    pass->x = pass->stream + offset * (size_t)arch->D;
    for (int i = 0; i < (arch->has_window_rotary ? 2 : 1) && arch->rotary_width > 0; i++) {
        size_t pairs = ss_arch_pairs(arch, i);
        pass->angles[i] = (ss_angles){pass->text_angles[i].cosine + offset * pairs,
                                      pass->text_angles[i].sine + offset * pairs};
    }
}

static void begin_text(ss_pass *pass) {
    for (int t = 0, n; t < pass->total; t += n) {
        n = ss_min(pass->chunk, pass->total - t);
        enter_chunk(pass, t);
        begin_chunk(pass, t, n);
    }
    ss_statistics_add_spectrum(pass->trace, 0, pass->stream, pass->total);
}

/* Moves on after n tokens of a layer: to the chunk's next layer or, by_layer, the next chunk. */
static void advance(ss_pass *pass, int n) {
    ss_trace *trace = pass->trace;
    bool is_complete = pass->layer == trace->model->arch.blocks;
    trace->T += is_complete ? n : 0;
    pass->mixing.tokens = is_complete ? trace->T : -1;
    if (pass->by_layer || is_complete) pass->t0 += n;
    if (pass->by_layer && pass->t0 < pass->total) return;
    pass->layer = is_complete ? pass->first_layer : pass->layer + 1;
    if (!pass->by_layer || is_complete) return;
    pass->t0 = 0;
    ss_statistics_add_spectrum(trace, pass->layer, pass->stream, pass->total);
}

static int pieces_left(const ss_pass *pass) {
    int chunk = pass->chunk, layers = pass->trace->model->arch.blocks - pass->first_layer;
    int chunks_left = (pass->total - pass->t0 + chunk - 1) / chunk;
    int layers_done = pass->layer - pass->first_layer;
    if (chunks_left == 0) return 0;
    return pass->by_layer
               ? (layers - layers_done) * ((pass->total + chunk - 1) / chunk) + chunks_left
               : chunks_left * (layers + 1) - layers_done;
}

int ss_forward_step(ss_pass *pass) {
    ss_trace *trace = pass->trace;
    int t0 = pass->t0, n = ss_min(pass->total - t0, pass->chunk), G = trace->model->arch.G;
    if (n == 0) return 0;
    if (pass->by_layer && t0 == 0 && pass->layer == 0) begin_text(pass);
    enter_chunk(pass, t0);
    if (!pass->by_layer && pass->layer == pass->first_layer) begin_chunk(pass, t0, n);
    const ss_arch *arch = &trace->model->arch;
    if (pass->layer < arch->blocks) {
        int below = ss_attention_layers_below(arch, pass->layer);
        if (pass->by_layer)
            trace->first_rows[SS_FIELD_K] = trace->first_rows[SS_FIELD_V] = below * G;
        compute_layer(pass, pass->layer, t0, n);
    } else {
        compute_logits(pass, t0, n, pass->total);
    }
    advance(pass, n);
    return pieces_left(pass);
}
