/*
 * Which components write the part of the stream that makes the first key attractive?
 *
 * The residual stream of token 1 that enters a layer is a sum of components: the embedding, and the
 * outputs of attention and feed-forward of each layer below. With the scale rho of the layer's norm
 * taken from the run, the key k_1 is linear in them, and so is its logit with a query:
 *
 *     part_c = s * sum_j q_j gain_j sum_d W_K[j][d] g_d (r_cd - m mean(r_c)) / rho
 *
 * with s the scale of scores, m = 1 for LayerNorm and 0 for RMSNorm, gain_j the gain of a norm of
 * keys over its own scale. Biases of the norm and of the keys are the last part. The parts add up
 * to the logit before soft caps, positions and masks; q is the mean over queries, so they are the
 * parts of the mean logit. This is bookkeeping, not causation: removing a component would change
 * rho.
 *
 * A part is NaN for a component of this layer or above, with post norm, which rescales the sum, in
 * a model that clips keys, scales the stream or has latent attention, in one whose mixers (arch.h)
 * write to the stream, too, and in a run with edits, whose stream is no such sum.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* Returns component c [D] of token 1: 0 is the embedding; then follow attention and feed-forward of
 * each layer, in turn. */
static const float *component_of(const ss_trace *trace, int c) {
    if (c == 0) return ss_row(trace, SS_FIELD_HIDDEN, 0, 0);
    return ss_row(trace, c % 2 ? SS_FIELD_ATT_OUT : SS_FIELD_MLP_OUT, (c - 1) / 2, 0);
}

static double mean_of(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

/* Returns what the layer's norm divides x [D] by; 1 where attention reads the stream itself. */
static double norm_scale(const ss_arch *arch, const ss_norm *norm, const float *x, size_t D) {
    if (!norm->gain) return 1.0;
    double mean = arch->norm == SS_NORM_LAYER ? mean_of(x, D) : 0.0, sum = 0.0;
    for (size_t d = 0; d < D; d++) sum += ((double)x[d] - mean) * ((double)x[d] - mean);
    return sqrt(sum / (double)D + (double)arch->norm_eps);
}

/* Returns the factor by which rotary positions lengthen dim j at position 0, where they rotate by
 * no angle: YaRN scales the dims that it rotates. */
static double rotary_factor(const ss_arch *arch, int l, size_t j) {
    if (!ss_arch_rotates(arch, l) || (int)j >= ss_arch_sizes(arch, l).rotary_width) return 1.0;
    bool is_windowed = arch->has_window_rotary && arch->windowed[l];
    return (double)(is_windowed ? arch->window_rotary : arch->rotary).attention_factor;
}

typedef struct workspace {
    double *directions; /* [H][D] a head's logit is the dot product of its row with the stream, plus
                           its offset */
    double *offsets;    /* [H] the part of the logit that biases add */
    double *sums;       /* [H][H] */
    double *query;      /* [K] mean query of a head */
    float *row;         /* [max(D, H*U)] a row of a matrix */
} workspace;

static workspace workspace_of(const ss_trace *trace) {
    size_t H = (size_t)trace->model->arch.H, D = (size_t)trace->model->arch.D;
    double *offsets = trace->spectrum + H * D, *query = offsets + H + H * H;
    return (workspace){trace->spectrum, offsets, offsets + H, query,
                       (float *)(void *)(query + trace->model->arch.K)};
}

static void write_mean_query(const workspace *work, const ss_trace *trace, int head, int T) {
    size_t K = (size_t)trace->model->arch.K;
    memset(work->query, 0, K * sizeof *work->query);
    for (int t = 0; t < T; t++) {
        const float *q = ss_row(trace, SS_FIELD_Q, head, t);
        for (size_t j = 0; j < K; j++) work->query[j] += (double)q[j] / (double)T;
    }
}

/* Writes row n of W_K with the layer's norm folded in: the row is multiplied by the gain, and
 * centered where the norm subtracts the mean. Returns what biases add to number n of a key. */
static double write_key_row(const workspace *work, const ss_arch *arch, const ss_layer *layer,
                            size_t n) {
    size_t D = (size_t)arch->D;
    const ss_norm *norm = &layer->attention_norm;
    double bias = layer->k.bias ? (double)layer->k.bias[n] : 0.0;
    ss_matrix_unpack_output(work->row, &layer->k.w, n);
    for (size_t d = 0; norm->bias && d < D; d++)
        bias += (double)work->row[d] * (double)norm->bias[d];
    if (norm->gain) ss_multiply(work->row, norm->gain, D);
    if (norm->gain && arch->norm == SS_NORM_LAYER) {
        float mean = (float)mean_of(work->row, D);
        for (size_t d = 0; d < D; d++) work->row[d] -= mean;
    }
    return bias;
}

static double dot_product(const double *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += a[i] * (double)b[i];
    return sum;
}

/* Writes the direction of one head, without the scale of a norm of keys. Returns the squared norm
 * of the head's first key, from which that norm computes its scale. */
static double write_direction(const workspace *work, const ss_trace *trace, int l, int h, int T) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D, K = (size_t)ss_arch_sizes(arch, l).K;
    size_t g = (size_t)ss_arch_group(arch, l, h);
    double *directions = work->directions + (size_t)h * D, square = 0.0;
    const float *x = ss_row(trace, SS_FIELD_HIDDEN, l, 0);
    double rho = norm_scale(arch, &layer->attention_norm, x, D);
    write_mean_query(work, trace, l * arch->H + h, T);
    memset(directions, 0, D * sizeof *directions);
    work->offsets[h] = 0.0;
    for (size_t j = 0; j < K; j++) {
        size_t n = g * K + j;
        double bias = write_key_row(work, arch, layer, n),
               length_factor = rotary_factor(arch, l, j);
        double factor = work->query[j] * length_factor * (double)arch->score_scale;
        bool is_norm_of_all_heads = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
        if (layer->k_norm.gain) factor *= (double)layer->k_norm.gain[is_norm_of_all_heads ? n : j];
        double key = bias;
        for (size_t d = 0; d < D; d++) {
            double weight = (double)work->row[d] / rho;
            key += weight * (double)x[d];
            directions[d] += factor * weight;
        }
        work->offsets[h] += factor * bias;
        if (arch->qk_norm == SS_QK_NORM_HEAD_ROTATED) key *= length_factor;
        square += key * key;
    }
    return square;
}

/* Writes the directions of all heads of a layer. The scale of a norm of keys is taken from the run
 * and treated as a constant. */
static void write_directions(const workspace *work, const ss_trace *trace, int l, int T) {
    const ss_arch *arch = &trace->model->arch;
    ss_sizes sizes = ss_arch_sizes(arch, l);
    size_t D = (size_t)arch->D, H = (size_t)arch->H, heads = H / (size_t)sizes.G;
    bool is_norm_of_all_heads = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
    double total = 0.0;
    for (size_t h = 0; h < H; h++) {
        double square = write_direction(work, trace, l, (int)h, T);
        work->sums[h] = square;
        if (h % heads == 0) total += square;
    }
    for (size_t h = 0; arch->qk_norm && h < H; h++) {
        double n = (double)sizes.K * (is_norm_of_all_heads ? (double)sizes.G : 1.0);
        double scale =
            sqrt((is_norm_of_all_heads ? total : work->sums[h]) / n + (double)arch->norm_eps);
        work->offsets[h] /= scale;
        for (size_t d = 0; d < D; d++) work->directions[h * D + d] /= scale;
    }
}

/* Returns true if keys are linear in the recorded components: the stream is the sum of the
 * components, and nothing clips keys, centers them or norms their inputs. */
static bool is_linear(const ss_trace *trace) {
    const ss_arch *arch = &trace->model->arch;
    return !trace->edited && !arch->post_norm && !arch->mixer.kind && !arch->kv_latent &&
           !(arch->qk_norm && arch->norm == SS_NORM_LAYER) && !trace->model->layers[0].scale &&
           arch->qkv_clip <= 0.0f;
}

static void fill_nan(float *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = NAN;
}

void ss_measure_logit_parts(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D, count = (size_t)(2 * arch->L + 2);
    workspace work = workspace_of(trace);
    fill_nan(out, (size_t)arch->L * (size_t)arch->H * count);
    for (int l = 0; l < arch->L && is_linear(trace); l++) {
        write_directions(&work, trace, l, args->T);
        for (int h = 0; h < arch->H; h++, out += count) {
            for (int c = 0; c <= 2 * l; c++)
                out[c] =
                    (float)dot_product(work.directions + (size_t)h * D, component_of(trace, c), D);
            out[count - 1] = (float)work.offsets[h];
        }
    }
}

/* Writes to sums[h][i] what head i of layer `below` adds to the logit of head h. */
static void add_heads(const workspace *work, const ss_trace *trace, int below) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[below];
    size_t D = (size_t)arch->D, H = (size_t)arch->H, U = (size_t)ss_arch_sizes(arch, below).U;
    memset(work->sums, 0, H * H * sizeof *work->sums);
    for (size_t d = 0; d < D; d++) {
        ss_matrix_unpack_output(work->row, &layer->o.w, d);
        for (size_t i = 0; i < H; i++) {
            const float *w = work->row + (arch->added_heads ? 0 : i * U);
            const float *out = ss_row(trace, SS_FIELD_HEAD_OUT, below * arch->H + (int)i, 0);
            const float *bias =
                ss_head_vector(layer->value_biases, arch->value_bias, (int)i, (int)U);
            double output = (double)ss_dot(w, out, U);
            if (bias) output += (double)ss_dot(w, bias, U);
            output *= (double)arch->branch_scale;
            for (size_t h = 0; h < H; h++)
                work->sums[h * H + i] += work->directions[h * D + d] * output;
        }
    }
}

/* Measures the parts of the heads of earlier layers. The parts are also NaN where a gate or a norm
 * follows the heads' outputs, since they are not linear there. */
void ss_measure_logit_parts_heads(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t H = (size_t)arch->H, heads = (size_t)arch->L * H;
    bool has_gate = arch->gate && arch->gate < SS_GATE_VALUE_ELEMENT;
    bool can_split = is_linear(trace) && !has_gate && !arch->branch_norms;
    workspace work = workspace_of(trace);
    fill_nan(out, heads * heads);
    for (int l = 0; l < arch->L && can_split; l++, out += H * heads) {
        write_directions(&work, trace, l, args->T);
        for (int below = 0; below < l; below++) {
            add_heads(&work, trace, below);
            for (size_t i = 0; i < H * H; i++)
                out[i / H * heads + (size_t)below * H + i % H] = (float)work.sums[i];
        }
    }
}
