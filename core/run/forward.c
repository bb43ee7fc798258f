#include "forward.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "attention.h"
#include "ffn.h"

#include <math.h>
#include <string.h>

static void linear(ss_run *run, float *out, const float *in, const ss_linear *linear, int n) {
    ss_matrix_times(out, in, &linear->w, linear->bias, (size_t)n, run->scratch.work);
}

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

/* x_t = the token's vector, scaled, plus its position's where positions are learned. */
static void embed(ss_run *run, int t0, int n) {
    const ss_model *model = run->trace.model;
    size_t D = (size_t)model->arch.D;
    for (int i = 0; i < n; i++) {
        float *x = run->scratch.x + (size_t)i * D;
        ss_matrix_output(x, &model->embedding.w, (size_t)run->trace.tokens[t0 + i]);
        ss_scale(x, model->arch.embedding_scale, D);
        if (model->positions) ss_add(x, model->positions + (size_t)(t0 + i) * D, D);
    }
}

/* Cosine and sine of every rotary angle of rows t0..: position times turn, rounded to float. */
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
    if (arch->positions != SS_POSITIONS_ROTARY) return;
    size_t pairs = (size_t)arch->rotary_width / 2;
    ss_angles *angles = run->scratch.angles;
    find_angles(&angles[0], model->rotary, arch->rotary.size, pairs, t0, n);
    if (arch->own_rotary)
        find_angles(&angles[1], model->window_rotary, arch->window_rotary.size, pairs, t0, n);
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

/* attended = Attention(norm(x)), normed again where the model has branch norms. */
static void attention_block(ss_run *run, int l, int t0, int n) {
    ss_trace *trace = &run->trace;
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t D = (size_t)arch->D;

    norm(s->y, s->x, &layer->attention_norm, arch, (size_t)n, D);

    /* Keys and values go to the cache, which is the trace. */
    linear(run, s->heads, s->y, &layer->k, n);
    place_heads(run, l, s->heads, &layer->k_norm, arch->G, n);
    record_heads(trace, trace->k, l, arch->G, t0, n, s->heads);
    linear(run, s->heads, s->y, &layer->v, n);
    record_heads(trace, trace->v, l, arch->G, t0, n, s->heads);

    linear(run, s->heads, s->y, &layer->q, n);
    place_heads(run, l, s->heads, &layer->q_norm, arch->H, n);
    record_heads(trace, trace->q, l, arch->H, t0, n, s->heads);

    /* Each head mixes the values of the keys it sees; the heads' outputs are joined by o. */
    ss_attend(run, l, t0, n);
    linear(run, s->attended, s->heads, &layer->o, n);
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

    norm(s->y, s->x, &layer->ffn_norm, arch, (size_t)n, D);
    ss_feed_forward(run, l, n);
    if (arch->E) record(trace, trace->router, l, t0, n, (size_t)arch->E, s->router);
    if (layer->ffn_out_norm.gain) norm(s->fed, s->fed, &layer->ffn_out_norm, arch, (size_t)n, D);
    record(trace, trace->mlp_out, l, t0, n, D, s->fed);
}

/* x += Attention(norm(x)); x += FFN(norm(x)). In parallel, both read the x before. */
static void layer(ss_run *run, int l, int t0, int n) {
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &run->trace.model->arch;
    size_t count = (size_t)n * (size_t)arch->D;
    attention_block(run, l, t0, n);
    if (!arch->parallel) ss_add(s->x, s->attended, count);
    ffn_block(run, l, t0, n);
    if (arch->parallel) ss_add(s->x, s->attended, count);
    ss_add(s->x, s->fed, count);
    record(&run->trace, run->trace.hidden, l + 1, t0, n, (size_t)arch->D, s->x);
}

/* -ln softmax(logits)[token]; work [V] is overwritten and may be the logits themselves. */
static float loss_of(const float *logits, int token, size_t V, float *work) {
    float chosen = logits[token], top = ss_max(logits, V);
    float sum = ss_exp(work, logits, top, V);
    return (float)((double)top + ss_log((double)sum) - (double)chosen);
}

void ss_forward_begin(ss_run *run) {
    ss_trace *trace = &run->trace;
    int t0 = trace->T;
    if (trace->loss)
        trace->loss[t0] = t0 ? loss_of(trace->next, trace->tokens[t0], (size_t)trace->model->arch.V,
                                       run->scratch.logits)
                             : NAN;
}

/* Logits of rows [first, first+rows) of the chunk at t0, normed in y: recorded, or for the loss. */
static void head_rows(ss_run *run, int t0, int first, int rows, int total) {
    ss_trace *trace = &run->trace;
    const ss_model *model = trace->model;
    size_t V = (size_t)model->arch.V, D = (size_t)model->arch.D;
    float *out = trace->logits ? trace->logits + (size_t)(t0 + first) * V : run->scratch.logits;
    linear(run, out, run->scratch.y + (size_t)first * D, &model->head, rows);
    for (int i = 0; i < rows; i++) {
        int t = t0 + first + i;
        float *row = out + (size_t)i * V;
        if (trace->next && t == total - 1) memcpy(trace->next, row, V * sizeof *row);
        if (trace->loss && t + 1 < total)
            trace->loss[t + 1] =
                loss_of(row, trace->tokens[t + 1], V, trace->logits ? run->scratch.logits : row);
    }
}

/* The final norm and the head, only for the rows that somebody asked for. */
static void head(ss_run *run, int t0, int n, int total) {
    ss_trace *trace = &run->trace;
    bool every = trace->logits || trace->loss;
    bool last = trace->next && t0 + n == total;
    if (!every && !last) return;
    norm(run->scratch.y, run->scratch.x, &trace->model->norm, &trace->model->arch, (size_t)n,
         (size_t)trace->model->arch.D);
    for (int first = every ? 0 : n - 1; first < n; first += SS_LOGIT_ROWS) {
        int rows = n - first < SS_LOGIT_ROWS ? n - first : SS_LOGIT_ROWS;
        head_rows(run, t0, first, rows, total);
    }
}

static void begin_chunk(ss_run *run, int t0, int n) {
    const ss_trace *trace = &run->trace;
    embed(run, t0, n);
    find_all_angles(run, t0, n);
    record(trace, trace->hidden, 0, t0, n, (size_t)trace->model->arch.D, run->scratch.x);
}

bool ss_forward_step(ss_run *run) {
    ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    ss_pass *pass = &run->pass;
    int t0 = trace->T, n = pass->total - t0 < SS_CHUNK ? pass->total - t0 : SS_CHUNK;
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
