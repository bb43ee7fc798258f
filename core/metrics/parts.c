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

/* The mean over queries of number j of a head. */
static double mean_query(const ss_trace *trace, int head, int T, size_t j) {
    double sum = 0.0;
    for (int t = 0; t < T; t++) sum += (double)ss_row(trace, SS_FIELD_Q, head, t)[j];
    return sum / (double)T;
}

/* At the first position rotary positions only change the size, and only of what they rotate. */
static double rotary_size(const ss_arch *arch, int l, size_t j) {
    if (arch->positions != SS_POSITIONS_ROTARY || (int)j >= arch->rotary_width) return 1.0;
    bool own = arch->own_rotary && arch->windowed[l];
    return (double)(own ? arch->window_rotary : arch->rotary).size;
}

/* A group's keys: what number j of them takes of each part, for all heads of the group. */
typedef struct keys {
    const ss_trace *trace;
    int l, g, T;
    double rho;    /* of the layer's norm */
    float *row;    /* [D] a row of W_K, times the norm's gain */
    double square; /* of the first key as a norm of its own reads it, so far */
} keys;

/* out[H / G][2L + 2] += the parts of number j. */
static void add_number(keys *of, size_t j, float *out) {
    const ss_trace *trace = of->trace;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[of->l];
    size_t D = (size_t)arch->D, K = (size_t)arch->K, n = (size_t)of->g * K + j;
    int heads = arch->H / arch->G, count = 2 * arch->L + 2, parts = 2 * of->l + 1;
    const ss_norm *norm = &layer->attention_norm;
    double key = layer->k.bias ? (double)layer->k.bias[n] : 0.0, whole = 0.0;
    ss_matrix_output(of->row, &layer->k.w, n);
    for (size_t d = 0; norm->bias && d < D; d++) key += (double)of->row[d] * (double)norm->bias[d];
    if (norm->gain) ss_multiply(of->row, norm->gain, D);
    if (norm->gain && arch->norm == SS_NORM_LAYER) whole = mean_of(of->row, D) * (double)D;
    bool all = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
    double size = rotary_size(arch, of->l, j), factor = size * (double)arch->score_scale;
    if (layer->k_norm.gain) factor *= (double)layer->k_norm.gain[all ? n : j];
    double sum = key;
    for (int c = 0; c <= parts; c++) {
        double part = key;
        if (c < parts) {
            const float *r = component(trace, c);
            part = ((double)ss_dot(of->row, r, D) - (whole != 0.0 ? whole * mean_of(r, D) : 0.0)) /
                   of->rho;
            sum += part;
        }
        for (int h = 0; h < heads; h++) {
            int head = of->l * arch->H + of->g * heads + h;
            float *at = out + h * count + (c < parts ? c : count - 1);
            *at += (float)(factor * part * mean_query(trace, head, of->T, j));
        }
    }
    if (arch->qk_norm == SS_QK_NORM_HEAD_ROTATED) sum *= size;
    of->square += sum * sum;
}

/* out[H / G][2L + 2] before a norm of keys; the square of the first key as such a norm reads it. */
static double group_parts(const ss_trace *trace, int l, int g, int T, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D, K = (size_t)arch->K;
    int heads = arch->H / arch->G, count = 2 * arch->L + 2;
    keys of = {trace,
               l,
               g,
               T,
               scale_of(arch, &trace->model->layers[l].attention_norm,
                        ss_row(trace, SS_FIELD_HIDDEN, l, 0), D),
               (float *)trace->spectrum,
               0.0};
    for (int i = 0; i < heads * count; i++) {
        int c = i % count;
        out[i] = c <= 2 * l || c == count - 1 ? 0.0f : NAN;
    }
    for (size_t j = 0; j < K; j++) add_number(&of, j, out);
    return of.square;
}

/* What a norm over n numbers of a key does to x. */
static void divide(const ss_arch *arch, double square, size_t n, float *x, size_t size) {
    double own = sqrt(square / (double)n + (double)arch->norm_eps);
    for (size_t i = 0; i < size; i++) x[i] = (float)((double)x[i] / own);
}

/* out[H][2L + 2]: of a layer. */
static void layer_parts(const ss_trace *trace, int l, int T, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t G = (size_t)arch->G, K = (size_t)arch->K;
    size_t group = (size_t)(arch->H / arch->G) * (size_t)(2 * arch->L + 2);
    bool all = arch->qk_norm == SS_QK_NORM_ALL_HEADS, each = arch->qk_norm && !all;
    double squares = 0.0;
    for (size_t g = 0; g < G; g++) {
        double square = group_parts(trace, l, (int)g, T, out + g * group);
        if (each) divide(arch, square, K, out + g * group, group);
        squares += square;
    }
    if (all) divide(arch, squares, G * K, out, G * group);
}

void ss_measure_logit_parts(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t layer = (size_t)arch->H * (size_t)(2 * arch->L + 2);
    bool sums = !trace->edited && !arch->post_norm;
    for (int l = 0; l < arch->L; l++, out += layer) {
        if (sums) layer_parts(trace, l, args->T, out);
        for (size_t i = 0; !sums && i < layer; i++) out[i] = NAN;
    }
}
