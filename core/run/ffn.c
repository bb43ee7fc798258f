#include "ffn.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "linear.h"

#include <string.h>

/* gate = clamped(gate) sigmoid(slope clamped(gate)) (clamped(up) + 1): gpt-oss's SwiGLU. */
static void clamped_swiglu(float *gate, const float *up, const ss_arch *arch, size_t n) {
    float limit = arch->gate_limit;
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i];
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        gate[i] = g * ss_sigmoidf(g * arch->gate_slope) * (u + 1.0f);
    }
}

static void activate(float *x, ss_activation activation, size_t n) {
    static void (*const table[SS_ACTIVATION_N])(float *x, size_t n) = {
        [SS_ACTIVATION_GELU_TANH] = ss_gelu,
        [SS_ACTIVATION_GELU] = ss_gelu_erf,
        [SS_ACTIVATION_RELU] = ss_relu,
    };
    table[activation](x, n);
}

/* gate = activation(gate) * up. */
static void join(float *gate, const float *up, const ss_arch *arch, size_t n) {
    if (arch->activation == SS_ACTIVATION_SILU) {
        ss_silu_mul(gate, up, n);
    } else if (arch->activation == SS_ACTIVATION_CLAMPED_SWIGLU) {
        clamped_swiglu(gate, up, arch, n);
    } else {
        activate(gate, arch->activation, n);
        ss_multiply(gate, up, n);
    }
}

/* out = down(activation(gate y) * up y), or without a gate down(activation(up y)); may be y. */
static void one_ffn(ss_run *run, float *out, const float *y, const ss_ffn *ffn, size_t n) {
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    size_t inner = n * ffn->up.w.out;
    ss_linear_rows(run, s->up, y, &ffn->up, n);
    if (arch->ffn == SS_FFN_GATED) {
        ss_linear_rows(run, s->gate, y, &ffn->gate, n);
        join(s->gate, s->up, arch, inner);
    } else if (arch->activation == SS_ACTIVATION_SILU) {
        ss_sigmoid(s->gate, s->up, 0.0f, inner);
        ss_multiply(s->up, s->gate, inner);
    } else {
        activate(s->up, arch->activation, inner);
    }
    ss_linear_rows(run, out, arch->ffn == SS_FFN_GATED ? s->gate : s->up, &ffn->down, n);
}

/* E logits -> E weights: softmax, cut to the chosen largest; the first of equals is chosen. */
static void choose(float *x, const ss_arch *arch) {
    size_t E = (size_t)arch->E;
    float sum = ss_exp(x, x, ss_max(x, E), E), kept = 0.0f;
    ss_scale(x, 1.0f / sum, E);
    bool chosen[SS_EXPERTS_MAX] = {false};
    for (int i = 0; i < arch->chosen; i++) {
        size_t best = E;
        for (size_t e = 0; e < E; e++)
            if (!chosen[e] && (best == E || x[e] > x[best])) best = e;
        chosen[best] = true;
        kept += x[best];
    }
    for (size_t e = 0; e < E; e++)
        if (!chosen[e])
            x[e] = 0.0f;
        else if (!arch->router_shares)
            x[e] /= kept;
}

/* fed += weight * expert(y), for the rows that chose expert e. */
static void add_expert(ss_run *run, const ss_ffn *expert, size_t e, size_t n) {
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    size_t D = (size_t)arch->D, E = (size_t)arch->E, rows = 0;
    for (size_t i = 0; i < n; i++)
        if (s->router[i * E + e] != 0.0f)
            memcpy(s->gathered + rows++ * D, s->y + i * D, D * sizeof *s->y);
    if (rows == 0) return;
    one_ffn(run, s->gathered, s->gathered, expert, rows);
    rows = 0;
    for (size_t i = 0; i < n; i++) {
        float weight = s->router[i * E + e];
        if (weight == 0.0f) continue;
        float *row = s->gathered + rows++ * D;
        ss_scale(row, weight, D);
        ss_add(s->fed + i * D, row, D);
    }
}

/* fed = sigmoid(share y) FFN(y): the expert that every token goes through. */
static void shared_expert(ss_run *run, const ss_layer *layer, size_t n) {
    ss_scratch *s = &run->scratch;
    size_t D = (size_t)run->trace.model->arch.D;
    one_ffn(run, s->fed, s->y, &layer->ffn, n);
    ss_linear_rows(run, s->share, s->y, &layer->shared_gate, n);
    for (size_t i = 0; i < n; i++) ss_scale(s->fed + i * D, ss_sigmoidf(s->share[i]), D);
}

void ss_feed_forward(ss_run *run, int l, int rows) {
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    const ss_layer *layer = &run->trace.model->layers[l];
    size_t n = (size_t)rows, E = (size_t)arch->E;
    if (E == 0) {
        one_ffn(run, s->fed, s->y, &layer->ffn, n);
        return;
    }
    if (arch->shared_F)
        shared_expert(run, layer, n);
    else
        memset(s->fed, 0, n * (size_t)arch->D * sizeof *s->fed);
    /* The router scores the experts, each token goes through those it chose. */
    ss_linear_rows(run, s->router, s->y, &layer->router, n);
    for (size_t i = 0; i < n; i++) choose(s->router + i * E, arch);
    for (size_t e = 0; e < E; e++) add_expert(run, &layer->experts[e], e, n);
}
