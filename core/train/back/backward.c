#include "backward.h"

#include "../../math/kernels.h"
#include "../../model/rotary.h"
#include "../../run/forward.h"
#include "linear.h"
#include "slopes.h"

#include <math.h>
#include <string.h>

uint32_t ss_backward_fields(const ss_arch *arch) {
    const ss_field_id fields[] = {SS_FIELD_HIDDEN,   SS_FIELD_Q,       SS_FIELD_K,
                                  SS_FIELD_V,        SS_FIELD_ATT,     SS_FIELD_SCORES,
                                  SS_FIELD_HEAD_OUT, SS_FIELD_ATT_OUT, SS_FIELD_FFN_UP,
                                  SS_FIELD_MLP_OUT,  SS_FIELD_LOGITS};
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) mask |= SS_BIT(fields[i]);
    return arch->ffn == SS_FFN_GATED ? mask | SS_BIT(SS_FIELD_FFN_GATE) : mask;
}

static bool is_factor(float scale) {
    return scale < 1.0f || scale > 1.0f;
}

static bool has_unrotated_layer(const ss_arch *arch) {
    bool is_found = false;
    for (int l = 0; l < arch->L; l++) is_found |= arch->unrotated[l];
    return is_found;
}

ss_status ss_backward_check(const ss_arch *arch, ss_error *err) {
    const char *feature = arch->E                           ? "experts"
                          : arch->mixer.kind                ? "mixers"
                          : arch->ffn == SS_FFN_NONE        ? "no feed-forward"
                          : arch->branch_norms              ? "branch norms"
                          : is_factor(arch->branch_scale)   ? "scaled branches"
                          : is_factor(arch->logit_scale)    ? "scaled logits"
                          : arch->bare_norm                 ? "norms without gain"
                          : arch->gain_plus_one             ? "gains of 1 + w"
                          : has_unrotated_layer(arch)       ? "layers without rotary positions"
                          : arch->parallel                  ? "parallel blocks"
                          : arch->kv_latent                 ? "latent attention"
                          : arch->sizes[0].K                ? "layers of other sizes"
                          : arch->U != arch->K              ? "values of another width"
                          : arch->value_norm                ? "norms of values"
                          : arch->qk_norm                   ? "norms of queries and keys"
                          : arch->qkv_clip > 0.0f           ? "clipped queries, keys and values"
                          : arch->score_cap > 0.0f          ? "soft caps"
                          : arch->logit_cap > 0.0f          ? "soft caps"
                          : arch->embedding_norm            ? "normed embeddings"
                          : arch->embedding_width < arch->D ? "projected embeddings"
                          : !ss_has_slope(arch->activation) ? ss_activation_name(arch->activation)
                                                            : NULL;
    int index = ss_operation_find(arch->attention.operation);
    if (!feature && (index < 0 || !ss_operations(NULL)[index].back))
        feature = arch->attention.operation;
    if (feature)
        return ss_fail(err, SS_UNSUPPORTED, "train",
                       "expected a model that can be trained here, found one with %s", feature);
    return SS_OK;
}

static size_t gate_width(const ss_arch *arch) {
    if (!arch->gate) return 0;
    return (size_t)ss_arch_gated_heads(arch) * (size_t)ss_arch_gate_width(arch);
}

static size_t largest_work(const ss_arch *arch, size_t R) {
    size_t D = (size_t)arch->D, HK = (size_t)arch->H * (size_t)arch->K;
    size_t outs[] = {HK, (size_t)arch->F, (size_t)arch->V, gate_width(arch)};
    size_t in = ss_max_size(D, HK); /* a gate on values reads H*K numbers */
    size_t largest = ss_matrix_work(R, in, 1);
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
        largest = ss_max_size(largest, ss_linear_back_work(in, outs[i]));
    return largest;
}

void ss_backward_lay_out(ss_backward *back, const ss_arch *arch, int sequences, int T,
                         ss_arena *arena) {
    size_t R = (size_t)sequences * (size_t)T, D = (size_t)arch->D, F = (size_t)arch->F;
    size_t HK = (size_t)arch->H * (size_t)arch->K, GK = (size_t)arch->G * (size_t)arch->K;
    size_t gate_numbers = gate_width(arch);
    *back = (ss_backward){.T = T, .first_value = 1.0f};
    back->logits = ss_arena_floats(arena, R, (size_t)arch->V);
    back->dx = ss_arena_floats(arena, R, D);
    back->x = ss_arena_floats(arena, R, D);
    back->y = ss_arena_floats(arena, R, D);
    back->dy = ss_arena_floats(arena, R, D);
    back->part = ss_arena_floats(arena, R, ss_max_size(D, GK));
    back->head_out = ss_arena_floats(arena, R, HK);
    back->d_head_out = ss_arena_floats(arena, R, HK);
    back->d_q = ss_arena_floats(arena, R, HK);
    back->d_k = ss_arena_floats(arena, R, GK);
    back->d_v = ss_arena_floats(arena, R, GK);
    back->gates = ss_arena_floats(arena, R, gate_numbers);
    back->d_gates = ss_arena_floats(arena, R, gate_numbers);
    back->up = ss_arena_floats(arena, R, F);
    back->d_up = ss_arena_floats(arena, R, F);
    back->gate = ss_arena_floats(arena, R, arch->ffn == SS_FFN_GATED ? F : 0);
    back->d_gate = ss_arena_floats(arena, R, arch->ffn == SS_FFN_GATED ? F : 0);
    back->squares = ss_arena_floats(arena, 2, (size_t)T);
    back->ratios = ss_arena_floats(arena, 2, (size_t)arch->L);
    back->rotary = ss_arena_floats(arena, 2 * (size_t)T, (size_t)arch->rotary_width / 2);
    back->work = ss_arena_floats(arena, largest_work(arch, R), 1);
    ss_attention_back_lay_out(&back->attention, arch, T, arena);
}

static void gather_rows(float *rows, const ss_trace *traces, int n, ss_field_id field, int l,
                        size_t width) {
    for (int s = 0; s < n; s++) {
        size_t count = (size_t)traces[s].T * width;
        memcpy(rows, ss_recorded_rows(&traces[s], field, l, -1), count * sizeof *rows);
        rows += count;
    }
}

static void gather_heads(float *rows, const ss_trace *traces, int n, ss_field_id field, int l) {
    size_t H = (size_t)traces->model->arch.H, K = (size_t)traces->model->arch.K;
    for (int s = 0; s < n; s++, rows += (size_t)traces->T * H * K)
        for (size_t h = 0; h < H; h++) {
            const float *head = ss_recorded_rows(&traces[s], field, l, (int)h);
            for (size_t t = 0; t < (size_t)traces->T; t++)
                memcpy(rows + (t * H + h) * K, head + t * K, K * sizeof *rows);
        }
}

/* Reads x, the residual stream that a block of layer l reads: for the feed-forward (ffn) the stream
 * after attention, else the stream before it. With post norm, the stream after attention is
 * normalized. */
static void read_stream(const ss_backward *b, const ss_trace *traces, int n, int l, bool ffn) {
    const ss_arch *arch = &b->model->arch;
    size_t R = (size_t)n * (size_t)b->T, D = (size_t)arch->D;
    gather_rows(b->x, traces, n, SS_FIELD_HIDDEN, l, D);
    if (!ffn) return;
    gather_rows(b->y, traces, n, SS_FIELD_ATT_OUT, l, D);
    ss_add(b->x, b->y, R * D);
    if (arch->post_norm)
        ss_norm_vectors(b->x, b->x, &b->model->layers[l].attention_norm, arch, R, D);
}

/* Propagates d, the derivative with respect to the output of a product with x: adds the derivatives
 * with respect to weights and bias to sums, and writes the derivative with respect to x to dx. */
static void product_back(const ss_backward *b, float *dx, const float *x, const float *d,
                         const ss_linear *linear, const ss_linear *sums, size_t rows) {
    ss_linear_back_weights(x, d, sums, rows, b->work);
    ss_linear_back_inputs(dx, d, linear, rows, b->work);
}

/* Propagates d through a product with y like product_back, but adds to dy. */
static void add_product_back(const ss_backward *b, const float *d, const ss_linear *linear,
                             const ss_linear *sums, size_t rows) {
    product_back(b, b->part, b->y, d, linear, sums, rows);
    ss_add(b->dy, b->part, rows * linear->w.in);
}

/* Propagates d[R][D], the derivative with respect to the output of a feed-forward, to dy; y is the
 * input of the feed-forward. */
static void ffn_back(const ss_backward *b, const float *d, const ss_trace *traces, int n, int l) {
    const ss_arch *arch = &b->model->arch;
    const ss_ffn *ffn = &b->model->layers[l].ffn, *sums = &b->sums->layers[l].ffn;
    size_t R = (size_t)n * (size_t)b->T, F = (size_t)arch->F;
    bool is_gated = arch->ffn == SS_FFN_GATED;
    float *inner = is_gated ? b->gate : b->up, *d_inner = is_gated ? b->d_gate : b->d_up;
    gather_rows(b->up, traces, n, SS_FIELD_FFN_UP, l, F);
    if (is_gated) gather_rows(b->gate, traces, n, SS_FIELD_FFN_GATE, l, F);
    ss_linear_back_inputs(d_inner, d, &ffn->down, R, b->work);
    if (is_gated) {
        memcpy(b->d_up, d_inner, R * F * sizeof *d_inner);
        ss_multiply(d_inner, b->up, R * F);
    }
    ss_activation_back(inner, d_inner, arch->activation, R * F);
    if (is_gated) {
        ss_multiply(b->d_up, inner, R * F);
        ss_multiply(inner, b->up, R * F);
    }
    ss_linear_back_weights(inner, d, &sums->down, R, b->work);
    product_back(b, b->dy, b->y, b->d_up, &ffn->up, &sums->up, R);
    if (is_gated) add_product_back(b, b->d_gate, &ffn->gate, &sums->gate, R);
}

/* Multiplies d by the gates and computes d_gates, the derivative with respect to the inputs of the
 * sigmoids; rows[R][heads*K] are the gated numbers. */
static void gates_back(const ss_backward *b, float *d, const float *rows, size_t R) {
    const ss_arch *arch = &b->model->arch;
    size_t K = (size_t)arch->K, width = (size_t)ss_arch_gate_width(arch);
    size_t heads = R * (size_t)ss_arch_gated_heads(arch);
    for (size_t i = 0; i < heads; i++) {
        float *d_row = d + i * K, *d_gate = b->d_gates + i * width;
        const float *gate = b->gates + i * width, *row = rows + i * K;
        if (width == 1) {
            d_gate[0] = ss_dot(d_row, row, K);
            ss_scale(d_row, gate[0], K);
            continue;
        }
        for (size_t j = 0; j < K; j++) {
            d_gate[j] = d_row[j] * row[j];
            d_row[j] *= gate[j];
        }
    }
    for (size_t i = 0; i < heads * width; i++) b->d_gates[i] *= b->gates[i] * (1.0f - b->gates[i]);
}

static void compute_gates(const ss_backward *b, int l, const float *y, size_t R) {
    const ss_linear *gate = &b->model->layers[l].gate;
    ss_matrix_times(b->gates, y, &gate->w, gate->bias, R, b->work, NULL);
    ss_sigmoid(b->gates, b->gates, 0.0f, R * gate->w.out);
}

/* Propagates d[R][D], the derivative with respect to the attention output, through W_O, gates and
 * value biases to d_head_out[R][H*K]. */
static void heads_back(const ss_backward *b, const float *d, const ss_trace *traces, int n, int l) {
    const ss_arch *arch = &b->model->arch;
    const ss_layer *layer = &b->model->layers[l], *sums = &b->sums->layers[l];
    size_t R = (size_t)n * (size_t)b->T, H = (size_t)arch->H, K = (size_t)arch->K;
    bool is_gated = arch->gate && arch->gate < SS_GATE_VALUE_ELEMENT;
    float *input = b->d_q; /* input of W_O; d_q is unused until heads_back is done */
    gather_heads(b->head_out, traces, n, SS_FIELD_HEAD_OUT, l);
    ss_add_value_biases(b->head_out, layer, arch, R, K);
    memcpy(input, b->head_out, R * H * K * sizeof *input);
    if (is_gated) ss_multiply_by_gates(input, b->gates, arch, R * H);
    if (arch->added_heads) ss_add_heads(input, arch, R);
    product_back(b, b->d_head_out, input, d, &layer->o, &sums->o, R);
    for (size_t i = R; arch->added_heads && i-- > 0;)
        for (size_t h = H; h-- > 0;)
            memmove(b->d_head_out + (i * H + h) * K, b->d_head_out + i * K,
                    K * sizeof *b->d_head_out);
    if (is_gated) gates_back(b, b->d_head_out, b->head_out, R);
    for (size_t i = 0; sums->value_biases && i < R * H; i++)
        ss_add((float *)(size_t)ss_head_vector(sums->value_biases, arch->value_bias, (int)(i % H),
                                               arch->K),
               b->d_head_out + i * K, K);
}

/* Rotates back by the negative angles that compute_rotary has written. */
static void rotate_back(const ss_backward *b, float *rows, size_t heads, size_t R) {
    size_t K = (size_t)b->model->arch.K, pairs = (size_t)b->model->arch.rotary_width / 2;
    size_t T = (size_t)b->T;
    for (size_t i = 0; i < R * heads; i++) {
        const float *cosine = b->rotary + i / heads % T * pairs;
        ss_rotate(rows + i * K, rows + i * K, cosine, cosine + T * pairs, pairs);
    }
}

static void compute_rotary(const ss_backward *b, int l) {
    const ss_arch *arch = &b->model->arch;
    bool is_windowed = arch->has_window_rotary && arch->windowed[l];
    const float *frequencies = is_windowed ? b->model->window_rotary : b->model->rotary;
    float factor =
        is_windowed ? arch->window_rotary.attention_factor : arch->rotary.attention_factor;
    size_t pairs = (size_t)arch->rotary_width / 2, T = (size_t)b->T;
    for (size_t t = 0; t < T; t++) {
        ss_angles angles = {b->rotary + t * pairs, b->rotary + (T + t) * pairs};
        ss_rotary_angles(&angles, frequencies, factor, pairs, &(int32_t){(int32_t)t}, 1);
    }
    ss_scale(b->rotary + T * pairs, -1.0f, T * pairs);
}

static void add_squares(const ss_backward *b, float *sums, const float *rows, size_t width,
                        size_t R) {
    for (size_t i = 0; i < R; i++)
        sums[i % (size_t)b->T] += ss_dot(rows + i * width, rows + i * width, width);
}

static void add_ratios(const ss_backward *b, float *sum, const float *rows, int n) {
    size_t D = (size_t)b->model->arch.D, T = (size_t)b->T;
    for (int s = 0; s < n; s++, rows += T * D) {
        float norm_sum = 0.0f;
        for (size_t t = 1; t < T; t++) norm_sum += sqrtf(ss_dot(rows + t * D, rows + t * D, D));
        *sum += sqrtf(ss_dot(rows, rows, D)) * (float)(T - 1) / norm_sum;
    }
}

/* Propagates d[R][D], the derivative to the attention output, to dy of its input y. */
static void attention_back(const ss_backward *b, const float *d, const ss_trace *traces, int n,
                           int l) {
    const ss_arch *arch = &b->model->arch;
    const ss_layer *layer = &b->model->layers[l], *sums = &b->sums->layers[l];
    size_t T = (size_t)b->T, R = (size_t)n * T, K = (size_t)arch->K;
    size_t HK = (size_t)arch->H * K, GK = (size_t)arch->G * K;
    bool gates_read_values = arch->gate == SS_GATE_VALUE_STATE;
    if (arch->gate && !gates_read_values) compute_gates(b, l, b->y, R);
    heads_back(b, d, traces, n, l);
    for (size_t s = 0; s < (size_t)n; s++)
        ss_attention_back_run(&b->attention, b->d_q + s * T * HK, b->d_k + s * T * GK,
                              b->d_v + s * T * GK, b->d_head_out + s * T * HK, &traces[s], l, sums);
    add_squares(b, b->squares, b->d_k, GK, R);
    add_squares(b, b->squares + T, b->d_v, GK, R);
    for (size_t s = 0; s < (size_t)n; s++) ss_scale(b->d_v + s * T * GK, b->first_value, GK);
    if (arch->positions == SS_POSITIONS_ROTARY) {
        compute_rotary(b, l);
        rotate_back(b, b->d_q, (size_t)arch->H, R);
        rotate_back(b, b->d_k, (size_t)arch->G, R);
    }
    float *values = b->head_out; /* head_out, which is unused from here on, holds the values before
                                    their gates */
    if (arch->gate >= SS_GATE_VALUE_ELEMENT) {
        ss_matrix_times(values, b->y, &layer->v.w, layer->v.bias, R, b->work, NULL);
        if (gates_read_values) compute_gates(b, l, values, R);
        gates_back(b, b->d_v, values, R);
    }
    if (gates_read_values) {
        product_back(b, b->part, values, b->d_gates, &layer->gate, &sums->gate, R);
        ss_add(b->d_v, b->part, R * GK);
    }
    product_back(b, b->dy, b->y, b->d_q, &layer->q, &sums->q, R);
    add_product_back(b, b->d_k, &layer->k, &sums->k, R);
    add_product_back(b, b->d_v, &layer->v, &sums->v, R);
    if (arch->gate && !gates_read_values)
        add_product_back(b, b->d_gates, &layer->gate, &sums->gate, R);
}

static void block_back(const ss_backward *b, const ss_trace *traces, int n, int l, bool ffn) {
    const ss_arch *arch = &b->model->arch;
    const ss_layer *layer = &b->model->layers[l], *sums = &b->sums->layers[l];
    const ss_norm *norm = ffn ? &layer->ffn_norm : &layer->attention_norm;
    const ss_norm *norm_sums = ffn ? &sums->ffn_norm : &sums->attention_norm;
    size_t R = (size_t)n * (size_t)b->T, D = (size_t)arch->D;
    read_stream(b, traces, n, l, ffn);
    if (arch->post_norm) {
        /* With post norm the output is norm(x + block(x)), so the norm comes first. */
        gather_rows(b->y, traces, n, ffn ? SS_FIELD_MLP_OUT : SS_FIELD_ATT_OUT, l, D);
        ss_add(b->y, b->x, R * D);
        ss_norm_back(b->dx, b->y, norm, norm_sums, arch->norm, arch->norm_eps, R, D);
        memcpy(b->y, b->x, R * D * sizeof *b->y);
    } else {
        ss_norm_vectors(b->y, b->x, norm, arch, R, D);
    }
    (ffn ? ffn_back : attention_back)(b, b->dx, traces, n, l);
    if (!ffn) add_ratios(b, b->ratios + l, b->dy, n);
    if (!arch->post_norm)
        ss_norm_back(b->dy, b->x, norm, norm_sums, arch->norm, arch->norm_eps, R, D);
    ss_add(b->dx, b->dy, R * D);
    if (!ffn) add_ratios(b, b->ratios + arch->L + l, b->dx, n);
}

/* Propagates the derivative with respect to the logits to dx, that with respect to the stream after
 * the last layer. */
static void lm_head_back(const ss_backward *b, const ss_trace *traces, int n) {
    const ss_model *model = b->model;
    const ss_arch *arch = &model->arch;
    size_t R = (size_t)n * (size_t)b->T, D = (size_t)arch->D;
    gather_rows(b->x, traces, n, SS_FIELD_HIDDEN, arch->L, D);
    if (arch->post_norm)
        memcpy(b->y, b->x, R * D * sizeof *b->y);
    else
        ss_norm_vectors(b->y, b->x, &model->norm, arch, R, D);
    product_back(b, b->dx, b->y, b->logits, &model->head, &b->sums->head, R);
    if (!arch->post_norm)
        ss_norm_back(b->dx, b->x, &model->norm, &b->sums->norm, arch->norm, arch->norm_eps, R, D);
}

static void embedding_back(const ss_backward *b, const ss_trace *traces, int n) {
    const ss_matrix *w = &b->sums->embedding.w;
    float *vectors = (float *)(size_t)w->data, *positions = (float *)(size_t)b->sums->positions;
    size_t T = (size_t)b->T, D = (size_t)b->model->arch.D;
    for (size_t i = 0; i < (size_t)n * T; i++) {
        float *d = b->dx + i * D;
        if (positions) ss_add(positions + i % T * D, d, D);
        ss_scale(d, b->model->arch.embedding_scale, D);
        ss_add(vectors + (size_t)ss_tokens(&traces[i / T])[i % T] * D, d, D);
    }
}

void ss_backward_run(const ss_backward *b, const ss_trace *traces, int sequences) {
    const ss_arch *arch = &b->model->arch;
    memset(b->squares, 0, 2 * (size_t)b->T * sizeof *b->squares);
    memset(b->ratios, 0, 2 * (size_t)arch->L * sizeof *b->ratios);
    lm_head_back(b, traces, sequences);
    for (int l = arch->L; l-- > 0;) {
        block_back(b, traces, sequences, l, true);
        block_back(b, traces, sequences, l, false);
    }
    embedding_back(b, traces, sequences);
}
