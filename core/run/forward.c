#include "forward.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "attention.h"
#include "ffn.h"
#include "linear.h"

#include <math.h>
#include <string.h>

/* n vectors of `width`; out may be x. */
static void norm(float *out, const float *x, const ss_norm *w, const ss_arch *arch, size_t n,
                 size_t width) {
    for (size_t t = 0; t < n; t++, out += width, x += width)
        if (arch->norm == SS_NORM_RMS)
            ss_rmsnorm(out, x, w->gain, arch->norm_eps, width);
        else
            ss_layernorm(out, x, w->gain, w->bias, arch->norm_eps, width);
}

/* Copies scratch rows [n][width] to rows t0.. of a field [index][C][width], where it is recorded.
 */
static void record(const ss_trace *trace, float *field, int index, int t0, int n, size_t width,
                   const float *rows) {
    if (field)
        memcpy(field + ((size_t)index * (size_t)trace->capacity + (size_t)t0) * width, rows,
               (size_t)n * width * sizeof *rows);
}

/* Cosine and sine of every angle of rows t0..: position times turn, rounded to float. */
static void find_angles(ss_angles *angles, const float *turns, float size, size_t pairs, int t0,
                        int n) {
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < pairs; j++) {
            double angle = (double)((float)(t0 + i) * turns[j]);
            angles->cosine[(size_t)i * pairs + j] = (float)ss_cos(angle) * size;
            angles->sine[(size_t)i * pairs + j] = (float)ss_sin(angle) * size;
        }
}

static void find_all_angles(ss_run *run, int t0, int n) {
    const ss_model *model = run->trace.model;
    const ss_arch *arch = &model->arch;
    size_t pairs = (size_t)arch->rotary_width / 2; /* often none */
    ss_angles *angles = run->scratch.angles;
    find_angles(&angles[0], model->rotary, arch->rotary.size, pairs, t0, n);
    if (arch->own_rotary)
        find_angles(&angles[1], model->window_rotary, arch->window_rotary.size, pairs, t0, n);
}

/* x_t = the token's vector, scaled, plus its position's where positions are vectors. */
static void embed(ss_run *run, int t0, int n) {
    const ss_model *model = run->trace.model;
    const ss_angles *angles = run->scratch.angles;
    size_t D = (size_t)model->arch.D, half = D / 2;
    for (size_t i = 0; i < (size_t)n; i++) {
        size_t t = (size_t)t0 + i;
        float *x = run->scratch.x + i * D;
        ss_matrix_output(x, &model->embedding.w, (size_t)run->trace.tokens[t]);
        ss_scale(x, model->arch.embedding_scale, D);
        if (model->positions) ss_add(x, model->positions + t * D, D);
        if (model->arch.positions != SS_POSITIONS_SINUSOID) continue;
        /* Sines, then cosines, as in Gu et al.'s code; their equation 5 has them by turns. */
        ss_add(x, angles->sine + i * half, half);
        ss_add(x + half, angles->cosine + i * half, half);
    }
}

/* Turns the pairs (j, j + pairs) of one head's vector, as in RoFormer's rotate-half form. */
static void rotate(float *x, const float *cosine, const float *sine, size_t pairs) {
    for (size_t j = 0; j < pairs; j++) {
        float a = x[j], b = x[j + pairs];
        x[j] = a * cosine[j] - b * sine[j];
        x[j + pairs] = b * cosine[j] + a * sine[j];
    }
}

/* Queries or keys of layer l: normed head by head, where the model does so, then turned. */
static void place_heads(ss_run *run, int l, float *rows, const ss_norm *head_norm, int heads,
                        int n) {
    const ss_arch *arch = &run->trace.model->arch;
    size_t K = (size_t)arch->K, H = (size_t)heads, pairs = (size_t)arch->rotary_width / 2;
    if (head_norm->gain) norm(rows, rows, head_norm, arch, (size_t)n * H, K);
    if (arch->positions != SS_POSITIONS_ROTARY) return;
    const ss_angles *angles = &run->scratch.angles[arch->own_rotary && arch->windowed[l]];
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t h = 0; h < H; h++)
            rotate(rows + (i * H + h) * K, angles->cosine + i * pairs, angles->sine + i * pairs,
                   pairs);
}

/* Rows [n][heads*K] -> rows t0.. of field [l][heads][C][K]. */
static void record_heads(const ss_trace *trace, float *field, int l, int heads, int t0, int n,
                         const float *rows) {
    if (!field) return;
    size_t K = (size_t)trace->model->arch.K, C = (size_t)trace->capacity;
    for (size_t h = 0; h < (size_t)heads; h++)
        for (size_t i = 0; i < (size_t)n; i++)
            memcpy(field + (((size_t)l * (size_t)heads + h) * C + (size_t)t0 + i) * K,
                   rows + (i * (size_t)heads + h) * K, K * sizeof *rows);
}

/* y = norm(x) where norms stand before a block, else x. */
static void before_block(ss_run *run, const ss_norm *block_norm, int n) {
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    size_t D = (size_t)arch->D;
    if (arch->post_norm)
        memcpy(s->y, s->x, (size_t)n * D * sizeof *s->y);
    else
        norm(s->y, s->x, block_norm, arch, (size_t)n, D);
}

/* x += what a block adds, normed after that in a model with post norm. */
static void after_block(ss_run *run, const ss_norm *block_norm, const float *added, int n) {
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    ss_add(s->x, added, (size_t)n * (size_t)arch->D);
    if (arch->post_norm) norm(s->x, s->x, block_norm, arch, (size_t)n, (size_t)arch->D);
}

/* Rows t0.. of trace gate: of each query head the mean over the numbers that gate it. */
static void record_gates(ss_run *run, int l, int t0, int n) {
    const ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t heads = (size_t)ss_arch_gated_heads(arch), width = (size_t)ss_arch_gate_width(arch);
    size_t share = (size_t)arch->H / heads, H = (size_t)arch->H, C = (size_t)trace->capacity;
    for (size_t i = 0; trace->gate && i < (size_t)n; i++)
        for (size_t h = 0; h < H; h++) {
            const float *gates = run->scratch.gates + (i * heads + h / share) * width;
            trace->gate[((size_t)l * H + h) * C + (size_t)t0 + i] =
                ss_sum(gates, width) / (float)width;
        }
}

/* rows[n][gated heads * K] *= sigmoid(gate y), number by number or head by head. */
static void apply_gates(ss_run *run, int l, float *rows, int t0, int n) {
    const ss_model *model = run->trace.model;
    float *gates = run->scratch.gates;
    size_t K = (size_t)model->arch.K, width = (size_t)ss_arch_gate_width(&model->arch);
    size_t heads = (size_t)n * (size_t)ss_arch_gated_heads(&model->arch);
    ss_linear_rows(run, gates, run->scratch.y, &model->layers[l].gate, (size_t)n);
    ss_sigmoid(gates, gates, 0.0f, heads * width);
    record_gates(run, l, t0, n);
    if (width == K)
        ss_multiply(rows, gates, heads * K);
    else
        for (size_t i = 0; i < heads; i++) ss_scale(rows + i * K, gates[i], K);
}

/* scratch heads [n][H*K] become [n][K], the sum over heads. */
static void add_heads(const ss_scratch *s, const ss_arch *arch, int n) {
    size_t H = (size_t)arch->H, K = (size_t)arch->K;
    for (size_t i = 0; i < (size_t)n; i++) {
        float *sum = s->heads + i * K;
        const float *row = s->heads + i * H * K;
        memmove(sum, row, K * sizeof *sum);
        for (size_t h = 1; h < H; h++) ss_add(sum, row + h * K, K);
    }
}

/* What stands between the mixed values and o: biases, gates of queries, the sum of heads. */
static void finish_heads(ss_run *run, int l, int t0, int n) {
    const ss_scratch *s = &run->scratch;
    const ss_model *model = run->trace.model;
    size_t width = (size_t)model->arch.H * (size_t)model->arch.K;
    const float *biases = model->layers[l].value_biases;
    for (size_t i = 0; biases && i < (size_t)n; i++) ss_add(s->heads + i * width, biases, width);
    if (model->arch.gate && model->arch.gate < SS_GATE_VALUE_ELEMENT)
        apply_gates(run, l, s->heads, t0, n);
    if (model->arch.added_heads) add_heads(s, &model->arch, n);
}

/* attended = Attention(norm(x)), normed again where the model has branch norms. */
static void attention_block(ss_run *run, int l, int t0, int n) {
    ss_trace *trace = &run->trace;
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D;

    before_block(run, &layer->attention_norm, n);

    /* Keys and values go to the cache, which is the trace. */
    ss_linear_rows(run, s->heads, s->y, &layer->k, (size_t)n);
    place_heads(run, l, s->heads, &layer->k_norm, arch->G, n);
    record_heads(trace, trace->k, l, arch->G, t0, n, s->heads);
    ss_linear_rows(run, s->heads, s->y, &layer->v, (size_t)n);
    if (arch->gate >= SS_GATE_VALUE_ELEMENT) apply_gates(run, l, s->heads, t0, n);
    record_heads(trace, trace->v, l, arch->G, t0, n, s->heads);

    ss_linear_rows(run, s->heads, s->y, &layer->q, (size_t)n);
    place_heads(run, l, s->heads, &layer->q_norm, arch->H, n);
    record_heads(trace, trace->q, l, arch->H, t0, n, s->heads);

    /* Each head mixes the values of the keys it sees; the heads' outputs are joined by o. */
    ss_attend(run, l, t0, n);
    finish_heads(run, l, t0, n);
    ss_linear_rows(run, s->attended, s->heads, &layer->o, (size_t)n);
    if (layer->attention_out_norm.gain)
        norm(s->attended, s->attended, &layer->attention_out_norm, arch, (size_t)n, D);
    record(trace, trace->att_out, l, t0, n, D, s->attended);
}

/* fed = FFN(norm(x)), normed again where the model has branch norms. */
static void ffn_block(ss_run *run, int l, int t0, int n) {
    ss_trace *trace = &run->trace;
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D;

    before_block(run, &layer->ffn_norm, n);
    ss_feed_forward(run, l, n);
    if (arch->E) record(trace, trace->router, l, t0, n, (size_t)arch->E, s->router);
    if (layer->ffn_out_norm.gain) norm(s->fed, s->fed, &layer->ffn_out_norm, arch, (size_t)n, D);
    record(trace, trace->mlp_out, l, t0, n, D, s->fed);
}

/*
 * x += Attention(norm(x)); x += FFN(norm(x)). In parallel, both read the x before; with post norm,
 * x = norm(x + Attention(x)); x = norm(x + FFN(x)).
 */
static void layer(ss_run *run, int l, int t0, int n) {
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    const ss_layer *layer = &run->trace.model->layers[l];
    attention_block(run, l, t0, n);
    if (!arch->parallel) after_block(run, &layer->attention_norm, s->attended, n);
    ffn_block(run, l, t0, n);
    if (arch->parallel) after_block(run, &layer->attention_norm, s->attended, n);
    after_block(run, &layer->ffn_norm, s->fed, n);
    record(&run->trace, run->trace.hidden, l + 1, t0, n, (size_t)arch->D, s->x);
}

/* -ln softmax(logits)[token]; work [V] is overwritten and may be the logits themselves. */
static float loss_of(const float *logits, int token, size_t V, float *work) {
    float chosen = logits[token], top = ss_max(logits, V);
    float sum = ss_exp(work, logits, top, V);
    return (float)((double)top + ss_log((double)sum) - (double)chosen);
}

/* No loss where the token before saw it: of a prefix, and in a bidirectional model of all tokens.
 */
static bool is_predicted(const ss_trace *trace, int t) {
    return t > 0 && t >= trace->model->arch.prefix;
}

void ss_forward_begin(ss_run *run) {
    ss_trace *trace = &run->trace;
    int t0 = trace->T;
    if (trace->loss)
        trace->loss[t0] = is_predicted(trace, t0)
                              ? loss_of(trace->next, trace->tokens[t0],
                                        (size_t)trace->model->arch.V, run->scratch.logits)
                              : NAN;
}

/* Logits of rows [first, first+rows) of the chunk at t0, normed in y: recorded, or for the loss. */
static void head_rows(ss_run *run, int t0, int first, int rows, int total) {
    ss_trace *trace = &run->trace;
    const ss_model *model = trace->model;
    size_t V = (size_t)model->arch.V, D = (size_t)model->arch.D;
    float *out = trace->logits ? trace->logits + (size_t)(t0 + first) * V : run->scratch.logits;
    ss_linear_rows(run, out, run->scratch.y + (size_t)first * D, &model->head, (size_t)rows);
    for (int i = 0; i < rows; i++) {
        int t = t0 + first + i;
        float *row = out + (size_t)i * V;
        if (trace->next && t == total - 1) memcpy(trace->next, row, V * sizeof *row);
        if (trace->loss && t + 1 < total)
            trace->loss[t + 1] = !is_predicted(trace, t + 1)
                                     ? NAN
                                     : loss_of(row, trace->tokens[t + 1], V,
                                               trace->logits ? run->scratch.logits : row);
    }
}

/* The final norm, if any, and the head, only for the rows that somebody asked for. */
static void head(ss_run *run, int t0, int n, int total) {
    ss_trace *trace = &run->trace;
    bool every = trace->logits || trace->loss;
    bool last = trace->next && t0 + n == total;
    if (!every && !last) return;
    before_block(run, &trace->model->norm, n);
    for (int first = every ? 0 : n - 1; first < n; first += SS_LOGIT_ROWS) {
        int rows = n - first < SS_LOGIT_ROWS ? n - first : SS_LOGIT_ROWS;
        head_rows(run, t0, first, rows, total);
    }
}

static void begin_chunk(ss_run *run, int t0, int n) {
    const ss_trace *trace = &run->trace;
    find_all_angles(run, t0, n);
    embed(run, t0, n);
    record(trace, trace->hidden, 0, t0, n, (size_t)trace->model->arch.D, run->scratch.x);
}

bool ss_forward_step(ss_run *run) {
    ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    ss_pass *pass = &run->pass;
    int t0 = trace->T, n = ss_run_chunk(arch, pass->total - t0);
    if (n == 0) return false;
    if (pass->layer == 0) begin_chunk(run, t0, n);
    if (pass->layer < arch->L) {
        layer(run, pass->layer, t0, n);
        pass->layer++;
        return true;
    }
    head(run, t0, n, pass->total);
    pass->layer = 0;
    trace->T += n;
    return trace->T < pass->total;
}
