/*
 * Who writes what makes the first key attractive?
 *
 * The residual stream of token 1 that enters a layer is a sum of components: the embedding, and
 * what attention and feed-forward of each layer below added. With the scale rho of the layer's norm
 * taken from the run, the key k_1 is linear in them, and so is its logit with a query:
 *
 *     part_c = s * sum_j q_j gain_j sum_d W_K[j][d] g_d (r_cd - m mean(r_c)) / rho
 *
 * with s the scale of scores, m 1 for LayerNorm and 0 for RMSNorm, gain_j that of a norm of keys
 * over its own scale. Biases of the norm and of the keys are the last part. The parts add up to the
 * logit before soft caps, positions and masks; q is the mean over queries, so they are
 * the parts of the mean logit. It is bookkeeping, not causation: without a component rho would be
 * another.
 *
 * NaN: a component of this layer or above; post norm, which scales again what was added; a run with
 * edits, whose stream is no such sum.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* [D] component c of token 1: 0 the embedding, then attention and feed-forward of each layer. */
static const float *component(const ss_trace *trace, int c) {
    if (c == 0) return ss_row(trace, SS_FIELD_HIDDEN, 0, 0);
    return ss_row(trace, c % 2 ? SS_FIELD_ATT_OUT : SS_FIELD_MLP_OUT, (c - 1) / 2, 0);
}

static double mean_of(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

/* What the layer's norm divides x [D] by; 1 where attention reads the stream itself. */
static double scale_of(const ss_arch *arch, const ss_norm *norm, const float *x, size_t D) {
    if (!norm->gain) return 1.0;
    double mean = arch->norm == SS_NORM_LAYER ? mean_of(x, D) : 0.0, sum = 0.0;
    for (size_t d = 0; d < D; d++) sum += ((double)x[d] - mean) * ((double)x[d] - mean);
    return sqrt(sum / (double)D + (double)arch->norm_eps);
}

/* At the first position rotary positions only change the size, and only of what they rotate. */
static double rotary_size(const ss_arch *arch, int l, size_t j) {
    if (arch->positions != SS_POSITIONS_ROTARY || (int)j >= arch->rotary_width) return 1.0;
    bool own = arch->own_rotary && arch->windowed[l];
    return (double)(own ? arch->window_rotary : arch->rotary).size;
}

/* Where the metrics of this file work: what the parts of a layer's logits are linear in. */
typedef struct room {
    double *along; /* [H][D] the logit of a head is the sum of these numbers times the stream's, */
    double *fixed; /* [H] and of what biases add */
    double *sums;  /* [H][H] */
    double *query; /* [K] the mean over queries of a head */
    float *row;    /* [max(D, H*K)] a row of a matrix */
} room;

static room room_of(const ss_trace *trace) {
    size_t H = (size_t)trace->model->arch.H, D = (size_t)trace->model->arch.D;
    double *fixed = trace->spectrum + H * D, *query = fixed + H + H * H;
    return (room){trace->spectrum, fixed, fixed + H, query,
                  (float *)(void *)(query + trace->model->arch.K)};
}

static void mean_query(const room *of, const ss_trace *trace, int head, int T) {
    size_t K = (size_t)trace->model->arch.K;
    memset(of->query, 0, K * sizeof *of->query);
    for (int t = 0; t < T; t++) {
        const float *q = ss_row(trace, SS_FIELD_Q, head, t);
        for (size_t j = 0; j < K; j++) of->query[j] += (double)q[j] / (double)T;
    }
}

/*
 * Row n of W_K as it meets the stream: times the norm's gain, and less its mean where the norm is
 * taken of what lies around the mean. Returns what biases add to number n of a key.
 */
static double key_row(const room *of, const ss_arch *arch, const ss_layer *layer, size_t n) {
    size_t D = (size_t)arch->D;
    const ss_norm *norm = &layer->attention_norm;
    double bias = layer->k.bias ? (double)layer->k.bias[n] : 0.0;
    ss_matrix_output(of->row, &layer->k.w, n);
    for (size_t d = 0; norm->bias && d < D; d++) bias += (double)of->row[d] * (double)norm->bias[d];
    if (norm->gain) ss_multiply(of->row, norm->gain, D);
    if (norm->gain && arch->norm == SS_NORM_LAYER) {
        float mean = (float)mean_of(of->row, D);
        for (size_t d = 0; d < D; d++) of->row[d] -= mean;
    }
    return bias;
}

static double product(const double *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += a[i] * (double)b[i];
    return sum;
}

/* The direction of one head before a norm of keys; the square of its first key as that norm reads
 * it. */
static double head_along(const room *of, const ss_trace *trace, int l, int h, int T) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D, K = (size_t)arch->K, g = (size_t)(h / (arch->H / arch->G));
    double *along = of->along + (size_t)h * D, square = 0.0;
    const float *x = ss_row(trace, SS_FIELD_HIDDEN, l, 0);
    double rho = scale_of(arch, &layer->attention_norm, x, D);
    mean_query(of, trace, l * arch->H + h, T);
    memset(along, 0, D * sizeof *along);
    of->fixed[h] = 0.0;
    for (size_t j = 0; j < K; j++) {
        size_t n = g * K + j;
        double bias = key_row(of, arch, layer, n), size = rotary_size(arch, l, j);
        double factor = of->query[j] * size * (double)arch->score_scale;
        bool all = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
        if (layer->k_norm.gain) factor *= (double)layer->k_norm.gain[all ? n : j];
        double key = bias;
        for (size_t d = 0; d < D; d++) {
            double weight = (double)of->row[d] / rho;
            key += weight * (double)x[d];
            along[d] += factor * weight;
        }
        of->fixed[h] += factor * bias;
        if (arch->qk_norm == SS_QK_NORM_HEAD_ROTATED) key *= size;
        square += key * key;
    }
    return square;
}

/* The directions of all heads of a layer: what a norm of keys divides them by is held as it is. */
static void layer_along(const room *of, const ss_trace *trace, int l, int T) {
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D, H = (size_t)arch->H, heads = H / (size_t)arch->G;
    bool all = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
    double whole = 0.0;
    for (size_t h = 0; h < H; h++) {
        double square = head_along(of, trace, l, (int)h, T);
        of->sums[h] = square;
        if (h % heads == 0) whole += square;
    }
    for (size_t h = 0; arch->qk_norm && h < H; h++) {
        double n = (double)arch->K * (all ? (double)arch->G : 1.0);
        double own = sqrt((all ? whole : of->sums[h]) / n + (double)arch->norm_eps);
        of->fixed[h] /= own;
        for (size_t d = 0; d < D; d++) of->along[h * D + d] /= own;
    }
}

/* Whether the stream is the sum of what was added to it. */
static bool adds_up(const ss_trace *trace) {
    return !trace->edited && !trace->model->arch.post_norm;
}

static void undefined(float *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = NAN;
}

void ss_measure_logit_parts(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D, count = (size_t)(2 * arch->L + 2);
    room of = room_of(trace);
    undefined(out, (size_t)arch->L * (size_t)arch->H * count);
    for (int l = 0; l < arch->L && adds_up(trace); l++) {
        layer_along(&of, trace, l, args->T);
        for (int h = 0; h < arch->H; h++, out += count) {
            for (int c = 0; c <= 2 * l; c++)
                out[c] = (float)product(of.along + (size_t)h * D, component(trace, c), D);
            out[count - 1] = (float)of.fixed[h];
        }
    }
}

/* sums[h][below] of the logits of a layer's heads: what each head of a layer below adds to them. */
static void add_heads(const room *of, const ss_trace *trace, int below) {
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[below];
    size_t D = (size_t)arch->D, H = (size_t)arch->H, K = (size_t)arch->K;
    memset(of->sums, 0, H * H * sizeof *of->sums);
    for (size_t d = 0; d < D; d++) {
        ss_matrix_output(of->row, &layer->o.w, d);
        for (size_t i = 0; i < H; i++) {
            const float *w = of->row + (arch->added_heads ? 0 : i * K);
            const float *mixed = ss_row(trace, SS_FIELD_MIXED, below * arch->H + (int)i, 0);
            const float *bias = ss_owned(layer->value_biases, arch->value_bias, (int)i, arch->K);
            double written = (double)ss_dot(w, mixed, K);
            if (bias) written += (double)ss_dot(w, bias, K);
            for (size_t h = 0; h < H; h++) of->sums[h * H + i] += of->along[h * D + d] * written;
        }
    }
}

/* NaN also where a gate or a norm lies between the heads' outputs and the stream. */
void ss_measure_logit_parts_heads(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t H = (size_t)arch->H, heads = (size_t)arch->L * H;
    bool gated = arch->gate && arch->gate < SS_GATE_VALUE_ELEMENT;
    bool sums = adds_up(trace) && !gated && !arch->branch_norms;
    room of = room_of(trace);
    undefined(out, heads * heads);
    for (int l = 0; l < arch->L && sums; l++, out += H * heads) {
        layer_along(&of, trace, l, args->T);
        for (int below = 0; below < l; below++) {
            add_heads(&of, trace, below);
            for (size_t i = 0; i < H * H; i++)
                out[i / H * heads + (size_t)below * H + i % H] = (float)of.sums[i];
        }
    }
}
