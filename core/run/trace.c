#include "trace.h"

#include "../base/doc.h"
#include "../math/kernels.h"
#include "../math/pack.h"
#include "../math/spectrum.h"

#include <stdlib.h>
#include <string.h>

#define ON_REQUEST 0 /* `flags` of fields that are recorded only if the caller names them */
#define STANDARD SS_FIELD_STANDARD
#define AVERAGED SS_FIELD_AVERAGED

#define SHAPE(...) .shape = {__VA_ARGS__}
/* A field holds floats unless `.type` says otherwise; `.needs` says which models have it. */
#define FIELD(id, key, field_flags, number_unit, text, ...)                                        \
    [SS_FIELD_##id] = {.name = key,                                                                \
                       .flags = field_flags,                                                       \
                       .unit = number_unit,                                                        \
                       .meaning = SS_DOC(text),                                                    \
                       __VA_ARGS__}

static const ss_field table[SS_FIELD_N] = {
    FIELD(TOKENS, "tokens", STANDARD, "id", "token ids", SHAPE("T"), .type = SS_I32),
    FIELD(HIDDEN, "hidden", STANDARD, "",
          "residual stream: the embedding, then after each layer; the last before the final norm",
          SHAPE("L+1", "T", "D")),
    FIELD(Q, "q", STANDARD, "", "queries after the position encoding", SHAPE("L", "H", "T", "K")),
    FIELD(K, "k", STANDARD, "", "keys after the position encoding", SHAPE("L", "G", "T", "K")),
    FIELD(V, "v", STANDARD, "", "values", SHAPE("L", "G", "T", "U")),
    FIELD(OUT_NORM, "out_norm", AVERAGED, "",
          "norm of what a head would write if it attended to one key alone: W_O v, before biases, "
          "gates and norms",
          SHAPE("L", "H", "T")),
    FIELD(SCORES, "scores", ON_REQUEST, "",
          "attention scores, the input of the operation: row query, column key",
          SHAPE("L", "H", "T", "T")),
    FIELD(ATT, "att", STANDARD, "weight", "attention weights: row query, column key",
          SHAPE("L", "H", "T", "T")),
    FIELD(ATT_BIAS, "att_bias", STANDARD | AVERAGED, "weight",
          "attention weight of the bias key; att has those of the tokens", SHAPE("L", "H", "T"),
          .needs = "bias_key"),
    FIELD(SEEN, "seen", STANDARD | AVERAGED, "keys",
          "number of keys visible to a query, a bias key included", SHAPE("L", "H", "T")),
    FIELD(EVICTED, "evicted", ON_REQUEST, "position",
          "first query whose cache lacks the key; NaN: the key was never evicted",
          SHAPE("L", "H", "T")),
    FIELD(ROUNDED, "rounded", ON_REQUEST, "",
          "squared quantization error of a token's stream after each layer, and its squared "
          "norm before; the same of queries, keys and values there",
          SHAPE("L+1", "T", "4")),
    FIELD(WEIGHT_ROUNDED, "weight_rounded", ON_REQUEST, "",
          "squared quantization error of the matrices of a layer, and their squared norm before",
          SHAPE("L", "2")),
    FIELD(HEAD_OUT, "head_out", ON_REQUEST, "",
          "output of a head, the weighted sum of values, before biases, gates and W_O",
          SHAPE("L", "H", "T", "U")),
    FIELD(GATE, "gate", STANDARD | AVERAGED, "",
          "mean of the sigmoid gate on a head's output or values", SHAPE("L", "H", "T"),
          .needs = "gate"),
    FIELD(ATT_OUT, "att_out", STANDARD, "", "attention output, added to the residual stream",
          SHAPE("L", "T", "D")),
    FIELD(FFN_UP, "ffn_up", ON_REQUEST, "",
          "inner activations of the feed-forward before the nonlinearity, or those that its gate "
          "multiplies",
          SHAPE("L", "T", "F"), .needs = "dense"),
    FIELD(FFN_GATE, "ffn_gate", ON_REQUEST, "", "gate of the feed-forward before the nonlinearity",
          SHAPE("L", "T", "F"), .needs = "gated"),
    FIELD(SPIKES, "spikes", ON_REQUEST, "",
          "of the down projection of a token: row of its largest output, column of its largest "
          "input, the weight there, that input, that output",
          SHAPE("L", "T", "5"), .needs = "dense"),
    FIELD(MLP_OUT, "mlp_out", STANDARD, "", "feed-forward output, added to the residual stream",
          SHAPE("L", "T", "D")),
    FIELD(ROUTER, "router", STANDARD, "weight",
          "routing weight of each expert; 0 where it is not selected", SHAPE("L", "T", "E"),
          .needs = "E"),
    FIELD(LOGITS, "logits", ON_REQUEST, "nat", "logits of the next token", SHAPE("T", "V")),
    FIELD(NEXT, "next", STANDARD, "nat", "logits at the last position", SHAPE("V")),
    FIELD(LOSS, "loss", AVERAGED, "nat",
          "-ln of the probability of token t given the tokens before", SHAPE("T")),
    FIELD(RANK, "rank", AVERAGED, "tokens",
          "tokens that the model preferred to token t, given the tokens before: 0 where it "
          "predicted it; of equal logits the lower id is preferred",
          SHAPE("T")),
};

const ss_field *ss_fields(void) {
    return table;
}

uint32_t ss_fields_of(const ss_arch *arch) {
    uint32_t fields = SS_FIELDS_ALL;
    if (arch->E == 0) fields &= ~SS_BIT(SS_FIELD_ROUTER);
    if (arch->E || arch->ffn == SS_FFN_NONE)
        fields &= ~(SS_BIT(SS_FIELD_FFN_UP) | SS_BIT(SS_FIELD_FFN_GATE) | SS_BIT(SS_FIELD_SPIKES));
    if (arch->ffn != SS_FFN_GATED) fields &= ~SS_BIT(SS_FIELD_FFN_GATE);
    if (arch->bias_key == SS_OWNER_NONE) fields &= ~SS_BIT(SS_FIELD_ATT_BIAS);
    if (arch->gate == SS_GATE_NONE) fields &= ~SS_BIT(SS_FIELD_GATE);
    return fields;
}

static size_t size_of(const ss_trace *trace, const char *letter) {
    const ss_arch *arch = &trace->model->arch;
    switch (*letter) {
    case 'L': return (size_t)arch->L;
    case 'H': return (size_t)arch->H;
    case 'G': return (size_t)arch->G;
    case 'T': return (size_t)trace->T;
    case 'D': return (size_t)arch->D;
    case 'F': return (size_t)arch->F;
    case 'K': return (size_t)arch->K;
    case 'U': return (size_t)arch->U;
    case 'E': return (size_t)arch->E;
    case 'V': return (size_t)arch->V;
    default: return (size_t)strtoul(letter, NULL, 10);
    }
}

size_t ss_trace_size_of(const ss_trace *trace, const char *letter) {
    const char *plus = strchr(letter, '+');
    if (!strcmp(letter, "L+1")) return (size_t)ss_states(&trace->model->arch);
    return size_of(trace, letter) + (plus ? ss_trace_size_of(trace, plus + 1) : 0);
}

static size_t extent(const ss_trace *trace, const char *letter) {
    return *letter == 'T' ? (size_t)trace->capacity : ss_trace_size_of(trace, letter);
}

static size_t count_numbers(const ss_trace *trace, const char *const *shape) {
    size_t count = 1;
    for (; *shape; shape++)
        if (!ss_mul_size(&count, count, extent(trace, *shape))) return SIZE_MAX;
    return count;
}

static void *take_heads(const ss_trace *trace, ss_arena *arena, size_t size) {
    return ss_arena_rows(arena, (size_t)ss_heads(trace), (size_t)trace->capacity, size);
}

static float *take_norms(const ss_trace *trace, ss_arena *arena, ss_field_id field) {
    const char *const *shape = table[field].shape;
    size_t rows = 1;
    for (; **shape != 'T'; shape++) rows *= extent(trace, *shape);
    return ss_arena_floats(arena, rows, (size_t)trace->capacity);
}

static void take_statistics(ss_trace *trace, ss_arena *arena) {
    size_t heads = (size_t)ss_heads(trace);
    ss_row_statistics *statistics = &trace->statistics;
    for (int field = 0; field < SS_FIELD_N; field++)
        if (trace->summed_fields & SS_FIELDS_NORMS & SS_BIT(field))
            statistics->norms[field] = take_norms(trace, arena, (ss_field_id)field);
    if (trace->spectral)
        statistics->spectra =
            ss_arena_take(arena, (size_t)ss_states(&trace->model->arch), sizeof(float));
    statistics->queries = ss_arena_take(arena, SS_STATISTICS * heads, sizeof *statistics->queries);
    if (trace->fields & SS_BIT(SS_FIELD_Q)) {
        statistics->cosines = ss_arena_take(arena, 2 * heads, sizeof *statistics->cosines);
        statistics->directions_n = ss_arena_take(arena, heads, sizeof *statistics->directions_n);
        statistics->directions = ss_arena_take(arena, heads * (size_t)trace->model->arch.K,
                                               sizeof *statistics->directions);
    }
    if (!(trace->fields & SS_BIT(SS_FIELD_ATT))) return;
    statistics->lengths_n = ss_arena_take(arena, heads, sizeof *statistics->lengths_n);
    statistics->mass = take_heads(trace, arena, sizeof *statistics->mass);
    statistics->factor = take_heads(trace, arena, sizeof *statistics->factor);
    statistics->first_weight = take_heads(trace, arena, sizeof *statistics->first_weight);
    statistics->alpha = take_heads(trace, arena, sizeof *statistics->alpha);
    statistics->alpha_raw = take_heads(trace, arena, sizeof *statistics->alpha_raw);
    statistics->diagonals =
        ss_arena_take(arena, SS_DIAGONALS * heads, sizeof *statistics->diagonals);
    statistics->lengths = take_heads(trace, arena, sizeof *statistics->lengths);
    statistics->values = take_heads(trace, arena, sizeof *statistics->values);
    if (trace->fields & SS_BIT(SS_FIELD_SEEN))
        statistics->entropy = take_heads(trace, arena, sizeof *statistics->entropy);
    if (trace->fields & SS_BIT(SS_FIELD_OUT_NORM))
        statistics->outputs = take_heads(trace, arena, sizeof *statistics->outputs);
}

void ss_trace_take_room(ss_trace *trace, ss_arena *arena) {
    size_t T = (size_t)trace->capacity, D = (size_t)trace->model->arch.D, side = ss_min_size(T, D);
    size_t numbers, outputs = 0;
    if (trace->summed_fields || trace->fields & (SS_BIT(SS_FIELD_ATT) | SS_BIT(SS_FIELD_Q)))
        take_statistics(trace, arena);
    /* Working memory is the larger of two amounts. A spectrum needs half a square matrix and four
     * vectors, side (side + 1) / 2 + 4 side, and for more rows than columns floats for a tile of
     * products. Contributions of heads need a vector per head, a number per pair of heads and per
     * head, and two rows of a matrix. The rank of what a head writes needs the spectrum of that
     * output, its floats, and a row of W_O. */
    if (trace->fields & (SS_BIT(SS_FIELD_HIDDEN) | SS_BIT(SS_FIELD_HEAD_OUT))) {
        const ss_arch *arch = &trace->model->arch;
        size_t H = (size_t)arch->H, HU = H * (size_t)arch->U;
        size_t parts = H * (D + H + 1) + (size_t)arch->K + ss_max_size(D, HU);
        if (!ss_mul_size(&numbers, side, side + 9)) numbers = SIZE_MAX - 1;
        size_t products = ss_panels_floats(D, SS_SPECTRUM_ROWS) +
                          SS_SPECTRUM_COLUMNS * (D + 2 * SS_SPECTRUM_ROWS);
        numbers = numbers / 2 + 1 + (T > D ? products / 2 + 1 : 0);
        if (trace->fields & SS_BIT(SS_FIELD_HEAD_OUT) && !ss_mul_size(&outputs, T, D))
            outputs = SIZE_MAX / 2;
        numbers += outputs ? (outputs + HU) / 2 + 1 : 0;
        trace->spectrum_n = ss_max_size(numbers, parts);
        trace->spectrum = ss_arena_rows(arena, ss_pool_workers(trace->pool), trace->spectrum_n,
                                        sizeof *trace->spectrum);
    }
}

void ss_trace_lay_out(ss_trace *trace, ss_arena *arena) {
    trace->choices = ss_arena_take(arena, (size_t)ss_heads(trace), sizeof *trace->choices);
    for (int field = 0; field < SS_FIELD_N; field++) {
        uint32_t needed_fields = trace->fields | (trace->fields & SS_STREAMS ? SS_FIELDS_SLOTS : 0);
        const char *const *shape = table[field].shape, *const *dim = shape;
        while (*dim && **dim != 'T') dim++;
        ss_trace sizes = *trace;
        sizes.capacity = SS_FIELDS_SLOTS & SS_BIT(field) ? trace->slots : trace->capacity;
        trace->capacities[field] = (size_t)sizes.capacity;
        trace->widths[field] = count_numbers(&sizes, *dim ? dim + 1 : shape);
        /* A measuring run still needs the keys and values of one layer: the pass reads them from
         * the trace. */
        bool has_one_layer = trace->summed_fields & SS_FIELDS_LAYER & SS_BIT(field);
        if (has_one_layer ||
            needed_fields & ~(trace->computed_fields | trace->summed_fields) & SS_BIT(field))
            trace->buffers[field] =
                ss_arena_take(arena, count_numbers(&sizes, shape + has_one_layer), sizeof(float));
    }
    ss_trace_take_room(trace, arena);
}

void ss_record(const ss_trace *trace, ss_field_id field, int index, int t0, int n,
               const float *rows, size_t stride) {
    float *out = ss_row(trace, field, index, t0);
    if (!out) return;
    size_t width = trace->widths[field];
    for (int i = 0; i < n; i++, out += width, rows += stride) ss_copy(out, rows, width);
}

static size_t rows_below(const ss_trace *trace, ss_field_id field, int layer) {
    const char *const *shape = table[field].shape;
    if (**shape != 'L') return 0;
    bool has_states = (*shape)[1] == '+';
    int below = ss_attention_layers_below(&trace->model->arch, layer);
    size_t rows = (size_t)(has_states ? layer + 1 : below);
    for (shape++; *shape && **shape != 'T'; shape++) rows *= ss_trace_size_of(trace, *shape);
    return *shape ? rows : 0;
}

void ss_trace_take_below(ss_trace *trace, const ss_trace *source, int layer, int n) {
    for (int field = 0; field < SS_FIELD_N; field++) {
        if (!trace->buffers[field] || !source->buffers[field]) continue;
        /* A row of scores is as long as the trace's capacity, with zeros after the text. */
        size_t width = trace->widths[field], other_width = source->widths[field],
               common_width = ss_min_size(width, other_width);
        size_t rows = rows_below(trace, (ss_field_id)field, layer);
        for (size_t row = 0; row < rows; row++)
            for (int t = 0; t < n; t++) {
                float *out = ss_row(trace, (ss_field_id)field, (int)row, t);
                memcpy(out, ss_row(source, (ss_field_id)field, (int)row, t),
                       common_width * sizeof *out);
                memset(out + common_width, 0, (width - common_width) * sizeof *out);
            }
    }
}

void ss_trace_clear_rounded(const ss_trace *trace, int layer, int t, int n, int first) {
    float *rows = ss_row(trace, SS_FIELD_ROUNDED, layer, t);
    for (int i = 0; rows && i < n; i++)
        memset(rows + 4 * i + first, 0, (size_t)(4 - first) * sizeof *rows);
}

static int selecting_index(const char *letter, int layer, int head) {
    if (*letter == 'L') return layer;
    return *letter == 'H' || *letter == 'G' ? head : -1;
}

ss_status ss_trace_refuse_summed(int field, ss_error *err) {
    return ss_fail(err, SS_BAD_REQUEST, table[field].name,
                   "expected a run that keeps the field; this one only measures");
}

ss_status ss_trace_view(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                        ss_error *err) {
    if (field < 0 || field >= SS_FIELD_N)
        return ss_fail(err, SS_BAD_REQUEST, "field", "expected a field from 0 to %d, found %d",
                       SS_FIELD_N - 1, field);
    const ss_field *row = &table[field];
    if (!(ss_fields_of(&trace->model->arch) & SS_BIT(field)))
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected a model with %s, and this %s has none",
                       strcmp(row->needs, "E") ? row->needs : "experts", trace->model->arch.family);
    if (!(trace->fields & SS_BIT(field)))
        return ss_fail(err, SS_BAD_REQUEST, row->name, "this run did not record the field");
    if (trace->summed_fields & SS_BIT(field)) return ss_trace_refuse_summed(field, err);
    if (trace->computed_fields & SS_BIT(field))
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected maps that this run has stored: these are computed, row by row");
    int rank = 0;
    while (row->shape[rank]) rank++;
    ss_tensor result = {.type = row->type};
    size_t strides[SS_RANK_MAX], stride = 1, offset = 0;
    for (int i = rank; i-- > 0; stride *= extent(trace, row->shape[i])) strides[i] = stride;
    for (int i = 0; i < rank; i++) {
        size_t size = ss_trace_size_of(trace, row->shape[i]);
        int index = selecting_index(row->shape[i], layer, head);
        if (index < -1 || (index >= 0 && (size_t)index >= size))
            return ss_fail(err, SS_BAD_REQUEST, row->name, "expected an index below %lu, found %d",
                           (unsigned long)size, index);
        if (index >= 0) {
            offset += (size_t)index * strides[i];
        } else {
            result.dims[result.rank] = size;
            result.strides[result.rank++] = strides[i];
        }
    }
    result.data = ss_floats(trace, (ss_field_id)field) + offset;
    *view = result;
    return SS_OK;
}

ss_status ss_trace_check_rows(const ss_trace *trace, int field, int t, int n, ss_error *err) {
    if (t >= 0 && n >= 0 && n <= trace->T && t <= trace->T - n) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, table[field].name,
                   "expected rows from 0 to %d, found %d from %d on", trace->T, n, t);
}

ss_status ss_trace_view_rows(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                             int t, int n, ss_error *err) {
    ss_tensor result;
    ss_status status = ss_trace_view(&result, trace, field, layer, head, err);
    if (status == SS_OK && n >= 0) status = ss_trace_check_rows(trace, field, t, n, err);
    if (status != SS_OK) return status;
    int axis = 0;
    const char *const *shape = table[field].shape;
    for (; *shape && **shape != 'T'; shape++) axis += selecting_index(*shape, layer, head) < 0;
    if (n >= 0 && !*shape)
        return ss_fail(err, SS_BAD_REQUEST, table[field].name,
                       "expected a field with a row for each token");
    if (n >= 0) {
        result.data = (const float *)result.data + (size_t)t * result.strides[axis];
        result.dims[axis] = (size_t)n;
    }
    *view = result;
    return SS_OK;
}
