#include "forward.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "attention.h"

#include <math.h>
#include <string.h>

static void linear(ss_run *run, float *out, const float *in, const ss_linear *linear, int n) {
    ss_matrix_times(out, in, &linear->w, linear->bias, (size_t)n, run->scratch.work);
}

static void norm(float *out, const float *x, const ss_norm *w, const ss_arch *arch, int n) {
    size_t D = (size_t)arch->D;
    for (size_t t = 0; t < (size_t)n; t++)
        if (arch->norm == SS_NORM_RMS)
            ss_rmsnorm(out + t * D, x + t * D, w->gain, arch->norm_eps, D);
        else
            ss_layernorm(out + t * D, x + t * D, w->gain, w->bias, arch->norm_eps, D);
}

/* Copies scratch rows [n][width] to rows t0.. of a field [index][C][width], where it is recorded.
 */
static void record(const ss_trace *trace, float *field, int index, int t0, int n, size_t width,
                   const float *rows) {
    if (field)
        memcpy(field + ((size_t)index * (size_t)trace->capacity + (size_t)t0) * width, rows,
               (size_t)n * width * sizeof *rows);
}

/* x_t = the token's vector, plus its position's where positions are learned. */
static void embed(ss_run *run, int t0, int n) {
    const ss_model *model = run->trace.model;
    size_t D = (size_t)model->arch.D;
    for (int i = 0; i < n; i++) {
        float *x = run->scratch.x + (size_t)i * D;
        ss_matrix_output(x, &model->embedding.w, (size_t)run->trace.tokens[t0 + i]);
        if (model->positions) ss_add(x, model->positions + (size_t)(t0 + i) * D, D);
    }
}

/* Cosine and sine of every rotary angle of rows t0..: position times turn, rounded to float. */
static void find_angles(ss_run *run, int t0, int n) {
    const ss_model *model = run->trace.model;
    size_t pairs = (size_t)model->arch.rotary_width / 2;
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < pairs; j++) {
            double angle = (double)((float)(t0 + i) * model->rotary[j]);
            run->scratch.cosine[(size_t)i * pairs + j] = (float)ss_cos(angle);
            run->scratch.sine[(size_t)i * pairs + j] = (float)ss_sin(angle);
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

static void rotate_heads(ss_run *run, float *rows, int heads, int n) {
    const ss_arch *arch = &run->trace.model->arch;
    size_t K = (size_t)arch->K, pairs = (size_t)arch->rotary_width / 2;
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t h = 0; h < (size_t)heads; h++)
            rotate(rows + (i * (size_t)heads + h) * K, run->scratch.cosine + i * pairs,
                   run->scratch.sine + i * pairs, pairs);
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

/* y = Attention(norm(x)); x += y. */
static void attention_block(ss_run *run, int l, int t0, int n) {
    ss_trace *trace = &run->trace;
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    bool rotary = arch->positions == SS_POSITIONS_ROTARY;

    norm(s->y, s->x, &layer->attention_norm, arch, n);

    /* Keys and values go to the cache, which is the trace. */
    linear(run, s->heads, s->y, &layer->k, n);
    if (rotary) rotate_heads(run, s->heads, arch->G, n);
    record_heads(trace, trace->k, l, arch->G, t0, n, s->heads);
    linear(run, s->heads, s->y, &layer->v, n);
    record_heads(trace, trace->v, l, arch->G, t0, n, s->heads);

    linear(run, s->heads, s->y, &layer->q, n);
    if (rotary) rotate_heads(run, s->heads, arch->H, n);
    record_heads(trace, trace->q, l, arch->H, t0, n, s->heads);

    /* Each head mixes the values of the keys it sees; the heads' outputs are joined by o. */
    ss_attend(run, l, t0, n);
    linear(run, s->y, s->heads, &layer->o, n);
    record(trace, trace->att_out, l, t0, n, (size_t)arch->D, s->y);
    ss_add(s->x, s->y, (size_t)n * (size_t)arch->D);
}

/* y = FFN(norm(x)); x += y. Gated: down(silu(gate y) * up y); plain: down(gelu(up y)). */
static void ffn_block(ss_run *run, int l, int t0, int n) {
    ss_trace *trace = &run->trace;
    ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    const ss_layer *layer = &trace->model->layers[l];
    size_t inner = (size_t)n * (size_t)arch->F;

    norm(s->y, s->x, &layer->ffn_norm, arch, n);
    linear(run, s->up, s->y, &layer->up, n);
    if (arch->ffn == SS_FFN_GATED) {
        linear(run, s->gate, s->y, &layer->gate, n);
        ss_silu_mul(s->gate, s->up, inner);
    } else {
        ss_gelu(s->up, inner);
    }
    linear(run, s->y, arch->ffn == SS_FFN_GATED ? s->gate : s->up, &layer->down, n);
    record(trace, trace->mlp_out, l, t0, n, (size_t)arch->D, s->y);
    ss_add(s->x, s->y, (size_t)n * (size_t)arch->D);
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
    norm(run->scratch.y, run->scratch.x, &trace->model->norm, &trace->model->arch, n);
    for (int first = every ? 0 : n - 1; first < n; first += SS_LOGIT_ROWS) {
        int rows = n - first < SS_LOGIT_ROWS ? n - first : SS_LOGIT_ROWS;
        head_rows(run, t0, first, rows, total);
    }
}

static void begin_chunk(ss_run *run, int t0, int n) {
    const ss_trace *trace = &run->trace;
    embed(run, t0, n);
    if (trace->model->arch.positions == SS_POSITIONS_ROTARY) find_angles(run, t0, n);
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
        attention_block(run, pass->layer, t0, n);
        ffn_block(run, pass->layer, t0, n);
        pass->layer++;
        record(trace, trace->hidden, pass->layer, t0, n, (size_t)arch->D, run->scratch.x);
        return true;
    }
    head(run, t0, n, pass->total);
    pass->layer = 0;
    trace->T += n;
    return trace->T < pass->total;
}
