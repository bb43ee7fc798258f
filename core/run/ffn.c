#include "ffn.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "linear.h"

#include <math.h>
#include <string.h>

/* Computes gpt-oss's SwiGLU: gate = c(gate) sigmoid(slope c(gate)) (c(up) + 1), where c clamps. */
static void clamped_swiglu(float *gate, const float *up, const ss_arch *arch, size_t n) {
    float limit = arch->gate_limit;
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i];
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        gate[i] = g * ss_sigmoidf(g * arch->gate_slope) * (u + 1.0f);
    }
}

/* Computes xIELU with the curve (p, n, beta, eps): replaces x by p x^2 + beta x above 0, and by n
 * (e^min(x, eps) - 1 - x) + beta x below. */
static void xielu(float *x, const float *curve, size_t n) {
    double positive = (double)curve[0], negative = (double)curve[1], beta = (double)curve[2];
    double eps = (double)curve[3];
    for (size_t i = 0; i < n; i++) {
        double y = (double)x[i], exponent = y < eps ? y : eps;
        double curve_value =
            y > 0.0 ? positive * y * y : negative * (ss_exp_double(exponent) - 1.0 - y);
        x[i] = (float)(curve_value + beta * y);
    }
}

static void relu2(float *x, size_t n) {
    ss_relu(x, n);
    ss_multiply(x, x, n);
}

void ss_activate(float *x, ss_activation activation, size_t n) {
    static void (*const table[SS_ACTIVATION_N])(float *x, size_t n) = {
        [SS_ACTIVATION_GELU_TANH] = ss_gelu,
        [SS_ACTIVATION_GELU] = ss_gelu_erf,
        [SS_ACTIVATION_RELU] = ss_relu,
        [SS_ACTIVATION_RELU2] = relu2,
    };
    table[activation](x, n);
}

static void multiply_by_gate(float *gate, const float *up, const ss_arch *arch, size_t n) {
    if (arch->activation == SS_ACTIVATION_SILU) {
        ss_silu_mul(gate, up, n);
    } else if (arch->activation == SS_ACTIVATION_CLAMPED_SWIGLU) {
        clamped_swiglu(gate, up, arch, n);
    } else {
        ss_activate(gate, arch->activation, n);
        ss_multiply(gate, up, n);
    }
}

static void record_inner(ss_pass *pass, ss_field_id field, const float *rows, size_t n) {
    if (pass->a >= 0)
        ss_record(pass->trace, field, pass->a, pass->t0, (int)n, rows,
                  (size_t)pass->trace->model->arch.F);
}

/* Records, for each of n rows, the largest output and largest input of the down projection, and the
 * weight that joins them. */
static void record_spikes(ss_pass *pass, const float *in, const float *out, const ss_matrix *down,
                          size_t n) {
    float *spikes = ss_layer_row(pass, SS_FIELD_SPIKES, pass->t0);
    for (size_t i = 0; spikes && i < n; i++, in += down->in, out += down->out, spikes += 5) {
        size_t row = ss_peak(out, down->out), column = ss_peak(in, down->in);
        spikes[0] = (float)row;
        spikes[1] = (float)column;
        spikes[2] = ss_matrix_weight(down, row, column);
        spikes[3] = in[column];
        spikes[4] = out[row];
    }
}

/* Computes down(activation(gate y) * up y), or down(activation(up y)); out may be y. */
static void compute_ffn(ss_pass *pass, float *out, const float *y, const ss_ffn *ffn, size_t n) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t inner = n * ffn->up.w.out;
    float *in = pass->gate, *trace_rows = ss_layer_row(pass, SS_FIELD_FFN_UP, pass->t0);
    float *up = trace_rows ? trace_rows : pass->up;
    ss_linear_rows(pass, up, y, &ffn->up, n);
    if (arch->ffn == SS_FFN_GATED) {
        ss_linear_rows(pass, in, y, &ffn->gate, n);
        ss_apply_factor(in, arch->ffn_gate_scale, inner);
        record_inner(pass, SS_FIELD_FFN_GATE, in, n);
        multiply_by_gate(in, up, arch, inner);
    } else if (arch->activation == SS_ACTIVATION_SILU) {
        ss_sigmoid(in, up, 0.0f, inner);
        ss_multiply(in, up, inner);
    } else {
        in = pass->up;
        if (in != up) memcpy(in, up, inner * sizeof *in);
        if (arch->activation == SS_ACTIVATION_XIELU)
            xielu(in, ffn->curve, inner);
        else
            ss_activate(in, arch->activation, inner);
    }
    ss_linear_rows(pass, out, in, &ffn->down, n);
    record_spikes(pass, in, out, &ffn->down.w, n);
}

/* Marks the `count` largest of x[n] that are not marked, the lower index in a tie, and returns the
 * sum of their weights. */
static float mark_largest(bool *marks, const float *x, const float *weights, size_t n, int count) {
    float sum = 0.0f;
    for (int i = 0; i < count; i++) {
        size_t best = n;
        for (size_t e = 0; e < n; e++)
            if (!marks[e] && (best == n || x[e] > x[best])) best = e;
        marks[best] = true;
        sum += weights[best];
    }
    return sum;
}

static void mark_other_groups(bool *marks, const float *scores, const ss_arch *arch) {
    size_t groups = (size_t)arch->router_groups, group_size = (size_t)arch->E / groups;
    float sums[SS_EXPERTS_MAX];
    bool is_top[SS_EXPERTS_MAX] = {false};
    for (size_t g = 0; g < groups; g++) {
        bool is_best[SS_EXPERTS_MAX] = {false};
        const float *group_scores = scores + g * group_size;
        sums[g] = mark_largest(is_best, group_scores, group_scores, group_size, arch->router_best);
    }
    mark_largest(is_top, sums, sums, groups, arch->router_top_groups);
    for (size_t e = 0; e < (size_t)arch->E; e++) marks[e] = !is_top[e / group_size];
}

/* Finds the largest of x[E] except x[excluded], sets its weight to its softmax over the logits near
 * it, and returns its index. */
static size_t choose_sparsemixer_expert(float *weights, const float *x, size_t excluded,
                                        const ss_arch *arch) {
    size_t E = (size_t)arch->E, best = excluded == 0 && E > 1 ? 1 : 0;
    float sum = 0.0f;
    for (size_t e = 0; e < E; e++)
        if (e != excluded && x[e] > x[best]) best = e;
    for (size_t e = 0; e < E; e++) {
        float distance = (x[best] - x[e]) / fmaxf(fabsf(x[e]), x[best]);
        if (e != excluded && !(distance > 2.0f * arch->router_jitter))
            sum += ss_expf(x[e] - x[best]);
    }
    weights[best] = 1.0f / sum;
    return best;
}

static void route_sparsemixer(float *x, const ss_arch *arch) {
    float weights[SS_EXPERTS_MAX] = {0.0f};
    choose_sparsemixer_expert(weights, x, choose_sparsemixer_expert(weights, x, SIZE_MAX, arch),
                              arch);
    ss_copy(x, weights, (size_t)arch->E);
}

/* Turns E logits into E weights, by softmax or sigmoid. Only the top_k largest, after adding `bias`
 * and in the best groups, differ from 0. */
static void route(float *x, const float *bias, const ss_arch *arch) {
    size_t E = (size_t)arch->E;
    float scores[SS_EXPERTS_MAX];
    bool is_excluded[SS_EXPERTS_MAX] = {false}, is_top[SS_EXPERTS_MAX];
    if (arch->router == SS_ROUTER_SPARSEMIXER) {
        route_sparsemixer(x, arch);
        return;
    }
    if (arch->router == SS_ROUTER_SIGMOID)
        ss_sigmoid(x, x, 0.0f, E);
    else
        ss_scale(x, 1.0f / ss_exp(x, x, ss_max(x, E), E), E);
    ss_copy(scores, x, E);
    if (bias) ss_add(scores, bias, E);
    if (arch->router_groups > 1) mark_other_groups(is_excluded, scores, arch);
    memcpy(is_top, is_excluded, sizeof is_top);
    float kept_sum = mark_largest(is_top, scores, x, E, arch->top_k);
    for (size_t e = 0; e < E; e++)
        if (is_excluded[e] || !is_top[e])
            x[e] = 0.0f;
        else
            x[e] = (arch->router_shares ? x[e] : x[e] / kept_sum) * arch->router_scale;
}

static void add_expert(ss_pass *pass, float *out, const ss_ffn *expert, size_t e, size_t n) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t D = (size_t)arch->D, E = (size_t)arch->E, rows = 0;
    for (size_t i = 0; i < n; i++)
        if (pass->router[i * E + e] != 0.0f)
            memcpy(pass->expert_rows + rows++ * D, pass->y + i * D, D * sizeof *pass->y);
    if (rows == 0) return;
    compute_ffn(pass, pass->expert_rows, pass->expert_rows, expert, rows);
    rows = 0;
    for (size_t i = 0; i < n; i++) {
        float weight = pass->router[i * E + e];
        if (weight == 0.0f) continue;
        float *row = pass->expert_rows + rows++ * D;
        ss_scale(row, weight, D);
        ss_add(out + i * D, row, D);
    }
}

static void compute_shared_expert(ss_pass *pass, float *out, const ss_layer *layer, size_t n) {
    size_t D = (size_t)pass->trace->model->arch.D;
    compute_ffn(pass, out, pass->y, &layer->ffn, n);
    if (!layer->shared_gate.w.data) return;
    ss_linear_rows(pass, pass->shared_factors, pass->y, &layer->shared_gate, n);
    for (size_t i = 0; i < n; i++) ss_scale(out + i * D, ss_sigmoidf(pass->shared_factors[i]), D);
}

void ss_feed_forward(ss_pass *pass, float *out, int l, int rows) {
    const ss_arch *arch = &pass->trace->model->arch;
    const ss_layer *layer = &pass->trace->model->layers[l];
    size_t n = (size_t)rows, E = (size_t)arch->E;
    if (E && arch->dense[l]) ss_clear(pass->router, n * E);
    if (arch->dense[l] || (E == 0 && arch->ffn != SS_FFN_NONE)) {
        compute_ffn(pass, out, pass->y, &layer->ffn, n);
        return;
    }
    if (arch->shared_F)
        compute_shared_expert(pass, out, layer, n);
    else
        memset(out, 0, n * (size_t)arch->D * sizeof *out);
    if (E == 0) return;
    ss_linear_rows(pass, pass->router, pass->y, &layer->router, n);
    for (size_t i = 0; i < n; i++) route(pass->router + i * E, layer->router_bias, arch);
    for (size_t e = 0; e < E; e++) add_expert(pass, out, &layer->experts[e], e, n);
}
