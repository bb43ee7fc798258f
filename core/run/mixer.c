#include "mixer.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "linear.h"

#include <math.h>
#include <string.h>

enum { Q, K, V };

/* DeltaNet divides queries and keys by their lengths; this number is added to the squared lengths,
 * so that none is 0. */
#define LENGTH_GUARD 1e-6f

static size_t width_of(const ss_mixer_sizes *sizes, int part) {
    return part == V ? (size_t)sizes->values * (size_t)sizes->value_width
                     : (size_t)sizes->keys * (size_t)sizes->key_width;
}

static size_t earlier_tokens(const ss_mixer_sizes *sizes) {
    return (size_t)sizes->kernel - 1;
}

static size_t matrix_size(const ss_mixer_sizes *sizes) {
    return sizes->kind == SS_MIXER_CONVOLUTION
               ? 0
               : (size_t)sizes->key_width * (size_t)sizes->value_width;
}

static size_t state_size(const ss_mixer_sizes *sizes) {
    size_t columns = width_of(sizes, Q) + width_of(sizes, K) + width_of(sizes, V);
    return earlier_tokens(sizes) * columns + (size_t)sizes->values * matrix_size(sizes);
}

static size_t mixers_below(const ss_arch *arch, int l) {
    return (size_t)(arch->mixer.in_every_layer ? l : l - ss_attention_layers_below(arch, l));
}

void ss_mix_lay_out(ss_pass *pass, size_t n, ss_arena *arena) {
    const ss_arch *arch = &pass->trace->model->arch;
    const ss_mixer_sizes *sizes = &arch->mixer;
    ss_mixing *mixing = &pass->mixing;
    if (!sizes->kind) return;
    mixing->state_size = state_size(sizes);
    mixing->states = ss_arena_floats(arena, mixers_below(arch, arch->blocks), mixing->state_size);
    for (int part = Q; part <= V; part++)
        mixing->rows[part] =
            ss_arena_floats(arena, earlier_tokens(sizes) + n, width_of(sizes, part));
    mixing->z = ss_arena_floats(arena, n, width_of(sizes, V));
    mixing->beta = ss_arena_floats(arena, n, (size_t)sizes->values);
    mixing->step = ss_arena_floats(arena, n, (size_t)sizes->values);
}

void ss_mix_clear(ss_pass *pass) {
    const ss_arch *arch = &pass->trace->model->arch;
    pass->mixing.tokens = 0;
    if (arch->mixer.kind)
        ss_clear(pass->mixing.states, mixers_below(arch, arch->blocks) * pass->mixing.state_size);
}

void ss_mix_copy_below(ss_pass *pass, const ss_pass *source, int layer) {
    const ss_arch *arch = &pass->trace->model->arch;
    if (arch->mixer.kind)
        ss_copy(pass->mixing.states, source->mixing.states,
                mixers_below(arch, layer) * pass->mixing.state_size);
}

/* Convolves rows[kernel-1+n][width] after copying `earlier_rows` into the first rows, and the last
 * rows into `earlier_rows` for the next chunk. Goes from the last row to the first, as each reads
 * earlier rows. */
static void convolve(float *rows, float *earlier_rows, const float *taps, const float *bias,
                     const ss_mixer_sizes *sizes, size_t n, size_t width) {
    size_t kernel = (size_t)sizes->kernel, earlier_n = earlier_tokens(sizes) * width;
    ss_copy(rows, earlier_rows, earlier_n);
    ss_copy(earlier_rows, rows + n * width, earlier_n);
    for (size_t t = n; t-- > 0;)
        for (size_t c = 0; c < width; c++) {
            const float *in = rows + t * width + c;
            float sum = bias ? bias[c] : 0.0f;
            for (size_t j = 0; j < kernel; j++) sum += taps[c * kernel + j] * in[j * width];
            if (sizes->kind != SS_MIXER_CONVOLUTION) sum *= ss_sigmoidf(sum);
            rows[(t + kernel - 1) * width + c] = sum;
        }
}

static void scale_to_length(float *rows, float factor, size_t n, size_t width) {
    for (size_t i = 0; i < n; i++, rows += width)
        ss_scale(rows, factor / sqrtf(ss_dot(rows, rows, width) + LENGTH_GUARD), width);
}

static void compute_steps(float *steps, const float *offset, const ss_mixer_sizes *sizes,
                          size_t n) {
    size_t heads = (size_t)sizes->values;
    for (size_t i = 0; i < n * heads; i++) {
        float x = steps[i] + offset[i % heads];
        if (x < 20.0f) x = (float)ss_log(1.0 + ss_exp_double((double)x));
        steps[i] = x < sizes->step_low    ? sizes->step_low
                   : x > sizes->step_high ? sizes->step_high
                                          : x;
    }
}

typedef struct scan {
    const ss_mixing *mixing;
    const ss_mixer *mixer;
    const ss_mixer_sizes *sizes;
    float *matrices; /* [values][key width][value width] */
    const float *q, *k;
    float *v; /* values; the output replaces them */
    size_t n;
} scan;

static void scan_head(const void *job, size_t h, size_t worker) {
    const scan *s = job;
    const ss_mixer_sizes *sizes = s->sizes;
    size_t N = (size_t)sizes->key_width, P = (size_t)sizes->value_width,
           values = (size_t)sizes->values;
    size_t group = h / (values / (size_t)sizes->keys) * N;
    bool is_delta = sizes->kind == SS_MIXER_DELTA;
    float *state = s->matrices + h * N * P;
    (void)worker;
    for (size_t t = 0; t < s->n; t++) {
        const float *q = s->q + t * width_of(sizes, Q) + group,
                    *k = s->k + t * width_of(sizes, K) + group;
        float *v = s->v + t * width_of(sizes, V) + h * P, step = s->mixing->step[t * values + h];
        ss_scale(state, ss_expf(s->mixer->decay[h] * step), N * P);
        if (is_delta) { /* v = beta (v - S^T k) */
            ss_scale(v, -1.0f, P);
            ss_times_columns(v, k, state, P * sizeof *v, P, N);
            ss_scale(v, -s->mixing->beta[t * values + h], P);
        }
        for (size_t i = 0; i < N; i++) {
            float factor = is_delta ? k[i] : k[i] * step;
            ss_times_columns(state + i * P, &factor, v, 0, P, 1);
        }
        if (is_delta)
            ss_clear(v, P);
        else
            ss_scale(v, s->mixer->skip[h], P);
        ss_times_columns(v, q, state, P * sizeof *v, P, N);
    }
}

static void norm_values(float *rows, const float *gain, const ss_arch *arch, size_t n) {
    const ss_mixer_sizes *sizes = &arch->mixer;
    if (!sizes->norms) return;
    size_t norms = (size_t)sizes->norms, width = width_of(sizes, V) / norms;
    for (size_t i = 0; i < n * norms; i++, rows += width) {
        size_t first =
            sizes->kind == SS_MIXER_DELTA ? 0 : i % norms * width; /* heads share gains */
        ss_rmsnorm(rows, rows, gain + first, arch->norm_eps, width);
    }
}

static const float *read_states(ss_pass *pass, const ss_mixer *mixer, float *matrices, float *q,
                                float *k, float *v, size_t n) {
    const ss_arch *arch = &pass->trace->model->arch;
    const ss_mixer_sizes *sizes = &arch->mixer;
    ss_mixing *mixing = &pass->mixing;
    size_t heads = n * (size_t)sizes->keys, N = (size_t)sizes->key_width,
           values = (size_t)sizes->values;
    ss_linear_rows(pass, mixing->z, pass->y, &mixer->z, n);
    ss_apply_factor(mixing->z, sizes->z_scale, n * width_of(sizes, V));
    ss_linear_rows(pass, mixing->step, pass->y, &mixer->step, n);
    ss_apply_factor(mixing->step, sizes->step_scale, n * values);
    compute_steps(mixing->step, mixer->offset, sizes, n);
    if (sizes->kind == SS_MIXER_DELTA) {
        ss_linear_rows(pass, mixing->beta, pass->y, &mixer->beta, n);
        ss_sigmoid(mixing->beta, mixing->beta, 0.0f, n * values);
        scale_to_length(q, 1.0f / sqrtf((float)N), heads, N);
        scale_to_length(k, 1.0f, heads, N);
    }
    scan job = {mixing, mixer, sizes, matrices, q, k, v, n};
    ss_pool_run(pass->pool, scan_head, &job, values, 3 * n * values * matrix_size(sizes));
    if (!sizes->gate_first) norm_values(v, mixer->norm, arch, n);
    ss_silu_mul(mixing->z, v, n * width_of(sizes, V));
    if (sizes->gate_first) norm_values(mixing->z, mixer->norm, arch, n);
    return mixing->z;
}

void ss_mix(ss_pass *pass, float *out, int l, int rows) {
    const ss_model *model = pass->trace->model;
    const ss_mixer_sizes *sizes = &model->arch.mixer;
    const ss_mixer *mixer = &model->layers[l].mixer;
    ss_mixing *mixing = &pass->mixing;
    size_t n = (size_t)rows, D = (size_t)model->arch.D;
    float *state = mixing->states + mixers_below(&model->arch, l) * mixing->state_size, *parts[3];
    const ss_linear *linears[] = {&mixer->q, &mixer->k, &mixer->v};
    ss_apply_factor(pass->y, sizes->in_scale, n * D);
    for (int part = Q; part <= V; part++) {
        size_t width = width_of(sizes, part), earlier_n = earlier_tokens(sizes) * width;
        float *part_rows = parts[part] = mixing->rows[part] + earlier_n;
        ss_linear_rows(pass, part_rows, pass->y, linears[part], n);
        ss_apply_factor(part_rows, sizes->scales[part], n * width);
        if (part == V && sizes->kind == SS_MIXER_CONVOLUTION)
            ss_multiply(part_rows, parts[K], n * width);
        if (mixer->taps[part])
            convolve(mixing->rows[part], state, mixer->taps[part], mixer->biases[part], sizes, n,
                     width);
        state += earlier_n;
    }
    const float *result = parts[V];
    if (sizes->kind == SS_MIXER_CONVOLUTION)
        ss_multiply(parts[V], parts[Q], n * width_of(sizes, V));
    else
        result = read_states(pass, mixer, state, parts[Q], parts[K], parts[V], n);
    ss_linear_rows(pass, out, result, &mixer->out, n);
    ss_apply_factor(out, sizes->out_scale, n * D);
}
