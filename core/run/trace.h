/*
 * The TRACE table: everything a run records, and the buffers it is recorded in.
 *
 * A trace has room for `capacity` tokens and holds T of them. Its keys and values are also the
 * cache of the run, so they are always present, though a streaming run reuses their slots; the
 * other fields are recorded if the mask has their bit. Rows beyond T are undefined. L counts the
 * layers with attention (model/arch.h); "L+1" are the hidden states, one before and after each of
 * all layers.
 */
#ifndef SS_RUN_TRACE_H
#define SS_RUN_TRACE_H

#include "../base/arena.h"
#include "operation.h"

typedef enum ss_field_id {
    SS_FIELD_TOKENS,
    SS_FIELD_HIDDEN,
    SS_FIELD_Q,
    SS_FIELD_K,
    SS_FIELD_V,
    SS_FIELD_OUT_NORM,
    SS_FIELD_SCORES,
    SS_FIELD_ATT,
    SS_FIELD_ATT_BIAS,
    SS_FIELD_SEEN,
    SS_FIELD_EVICTED,
    SS_FIELD_ROUNDED,
    SS_FIELD_WEIGHT_ROUNDED,
    SS_FIELD_HEAD_OUT,
    SS_FIELD_GATE,
    SS_FIELD_ATT_OUT,
    SS_FIELD_FFN_UP,
    SS_FIELD_FFN_GATE,
    SS_FIELD_SPIKES,
    SS_FIELD_MLP_OUT,
    SS_FIELD_ROUTER,
    SS_FIELD_LOGITS,
    SS_FIELD_NEXT,
    SS_FIELD_LOSS,
    SS_FIELD_RANK,
    SS_FIELD_N
} ss_field_id;

#define SS_BIT(field) (1u << (field))
#define SS_FIELDS_ALWAYS (SS_BIT(SS_FIELD_TOKENS) | SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V))
#define SS_FIELDS_ALL ((1u << SS_FIELD_N) - 1)
/* Fields that need the logits of the position before each token. */
#define SS_FIELDS_PREDICTED (SS_BIT(SS_FIELD_LOSS) | SS_BIT(SS_FIELD_RANK))
/* A bit of the mask of fields that is not a field: the run streams. A streaming run holds only the
 * keys and values that an eviction keeps, in slots that it reuses, so its memory grows with the
 * budget and not with the text. It can record SS_FIELDS_STREAMED only. */
#define SS_STREAMS (1u << 31)
/* A bit of the mask of fields that is not a field: the run measures. Of maps, queries, keys, values
 * and hidden states a measuring run keeps only the statistics that metrics read (statistics.h),
 * over all of its tokens, and no rows: 4 L (H + 2 G) K + 4 L D bytes per token are not stored. The
 * whole text goes through a layer before the next one, so that keys, values and states of one layer
 * suffice, and tokens cannot be appended. */
#define SS_MEASURES (1u << 30)
/* A bit that a measuring run may have as well: it also accumulates spectra of hidden states, which
 * take O(min(T, D)^3) per layer. */
#define SS_SPECTRA (1u << 29)
/* Fields that a measuring run holds for one layer at a time (SS_FIELDS_LAYER), and fields whose
 * norms it keeps (SS_FIELDS_NORMS). */
#define SS_FIELDS_LAYER (SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V))
#define SS_FIELDS_NORMS (SS_FIELDS_LAYER | SS_BIT(SS_FIELD_HIDDEN))
#define SS_FIELDS_STREAMED (SS_BIT(SS_FIELD_TOKENS) | SS_BIT(SS_FIELD_NEXT) | SS_FIELDS_PREDICTED)
/* Fields that a streaming run stores per cache slot. */
#define SS_FIELDS_SLOTS (SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V) | SS_BIT(SS_FIELD_EVICTED))

enum {
    SS_FIELD_STANDARD =
        1, /* recorded if no fields are named; other fields are too large for that */
    SS_FIELD_AVERAGED =
        2 /* a mean over sequences is meaningful; other fields describe one sequence */
};

typedef struct ss_field {
    const char *name, *meaning, *unit;
    const char *shape[SS_RANK_MAX + 1]; /* letters, NULL-terminated: "L+1", "T", "D" */
    ss_dtype type;
    int flags;         /* SS_FIELD_... above */
    const char *needs; /* key of the description that the field requires, for fields of some models
                          only; or NULL */
} ss_field;

/* Returns the table: SS_FIELD_N rows in the order of ss_field_id. */
const ss_field *ss_fields(void);

/* Groups of row statistics; a row of the metric table names the groups that its metric reads. */
enum {
    SS_STATISTIC_SHARES = 1,
    SS_STATISTIC_ENTROPY = 2,
    SS_STATISTIC_VALUES = 4,
    SS_STATISTIC_OUTPUTS = 8,
    SS_STATISTIC_COSINES = 16, /* statistics of queries and keys; the groups above are of maps */
    SS_STATISTIC_NORMS = 32,
    SS_STATISTIC_SPECTRA = 64 /* spectra of hidden states; like norms, computed on request if the
                          run keeps the vectors */
};
#define SS_STATISTICS 5 /* groups that count the first queries they have read */
#define SS_DIAGONALS 3  /* a query's own key, the one before it, and the one before that */

/* Statistics gathered in one reading of the maps, or of the queries (statistics.h),
 * [L][H][capacity] unless stated otherwise. A row has its mass and the factor that turns a weight,
 * or the bias key's weight, into a share of attention, P = weight * factor (|weight| * factor if
 * the operation has signs): the proxy of Gu et al.'s evaluation code. A key has sums over its
 * column. */
typedef struct ss_row_statistics {
    int *queries;   /* [SS_STATISTICS][L][H] number of first queries that were added; NULL: neither
                       maps nor queries are recorded */
    int *lengths_n; /* [L][H] number of keys with computed lengths */
    float *mass, *factor, *first_weight; /* per query; first_weight: |weight| of the first token */
    float *entropy;
    float *lengths;           /* per key: |v| */
    float *norms[SS_FIELD_N]; /* for a field that a measuring run does not store: norms of its
                                 vectors, [rows][capacity]; valid once the extension is complete */
    float *spectra; /* [L+1] matrix entropy of hidden states; NULL unless the run has SS_SPECTRA */
    int spectra_n;  /* number of tokens of these states; 0 until the last layer is complete */
    double *alpha, *alpha_raw; /* per key: sum of shares, and of weights */
    double *diagonals; /* [L][H][SS_DIAGONALS] sum over queries of the share of the key 0, 1 or 2
                          tokens before */
    double *values,
        *outputs;      /* per key: sum over queries of |weight| / sum of |weight| |v| in the row
                          (values), and of |weight| / sum of |weight| |W_O v| (outputs) */
    int *directions_n; /* [L][H] number of keys that are in `directions`: those that the last query
                          sees */
    float *directions; /* [L][H][K] sum of the unit vectors of keys, without the first key */
    double *cosines;   /* [L][H][2] sum over queries of the cosine with the first key, and of those
                          with the other visible keys */
} ss_row_statistics;

/* Summaries that a recording stores over all T tokens of the trace, in place of maps and vectors or
 * in addition to rounded ones. NULL: not stored. A run has no summaries. */
typedef struct ss_summaries {
    const float *alpha, *alpha_raw, *row_mass, *factors; /* [L][H][T] */
    const float *norms[SS_FIELD_N]; /* the norms [rows][T] of a field [rows][T][width] */
    uint32_t fields;   /* SS_BIT(field) of fields whose metrics need only these summaries */
    bool is_recording; /* the trace is a recording's, which may lack fields that its model had */
    bool is_cross;     /* the maps are of cross-attention, which no metric reads */
    int pooled_side; /* side of the blocks of pooled maps in place of att; 0: maps are not pooled */
} ss_summaries;

typedef struct ss_trace {
    const ss_model *model;
    uint32_t fields; /* recorded fields; SS_STREAMS for a streaming run */
    int capacity;
    int slots; /* capacity of SS_FIELDS_SLOTS; smaller if the run streams */
    int T;
    int first;          /* token that counts as the first; 0 except in a recording */
    ss_choice *choices; /* [L][H] operation and mask of each head */
    bool edited;
    uint32_t computed_fields; /* recorded maps whose rows are computed on demand */
    bool spectral;            /* a measuring run accumulates spectra */
    uint32_t summed_fields;   /* recorded fields that a measuring run keeps as statistics only */
    struct ss_pass
        *pass; /* the pass of a run, which computes maps on demand; NULL in a recording */
    ss_row_statistics statistics;
    ss_pool *pool;     /* shared by metrics; or NULL */
    double *spectrum;  /* if hidden is recorded: working memory of the metrics of hidden states */
    size_t spectrum_n; /* numbers in `spectrum` for each worker of the pool */
    void *buffers[SS_FIELD_N];     /* in the fields' shapes, `capacity` in place of T; NULL: not
                                      recorded */
    size_t capacities[SS_FIELD_N]; /* how many tokens, or slots, a field's buffer holds */
    int first_rows[SS_FIELD_N]; /* index of the first row that the buffer holds; 0 except for k and
                              v of a measuring run, which holds one layer at a time */
    size_t widths[SS_FIELD_N];  /* numbers per token; for a field without tokens, all numbers */
    ss_summaries summaries;     /* summaries of a recording, which replace fields that it lacks */
} ss_trace;

/* Returns the number of heads in all layers. Head l*H + h is a row of a field [L][H][T]. */
static inline int ss_heads(const ss_trace *trace) {
    return trace->model->arch.L * trace->model->arch.H;
}

/* Returns the first token that has a loss. The tokens of a prefix have none, since earlier queries
 * see them; a bidirectional model and a model without a head have no losses. */
static inline int ss_first_predicted(const ss_trace *trace) {
    int prefix = trace->model->headless ? SS_EVERY_KEY : trace->model->arch.prefix;
    return prefix > 1 ? prefix : 1;
}

/* Returns the buffer of a field of type SS_F32, in the field's shape with the capacity for T; NULL
 * if the field is not recorded. */
static inline float *ss_floats(const ss_trace *trace, ss_field_id field) {
    return (float *)trace->buffers[field];
}

static inline int32_t *ss_tokens(const ss_trace *trace) {
    return (int32_t *)trace->buffers[SS_FIELD_TOKENS];
}

/* Returns the numbers of token t in a field [index][T][...]. `index` counts through
 * all dimensions before T. NULL if the field is not recorded. */
static inline float *ss_row(const ss_trace *trace, ss_field_id field, int index, int t) {
    float *floats = ss_floats(trace, field);
    size_t row = (size_t)(index - trace->first_rows[field]) * trace->capacities[field] + (size_t)t;
    return floats ? floats + row * trace->widths[field] : NULL;
}

/* Records rows[n], `stride` numbers apart, as the field's rows of tokens [t0, t0+n), if the field
 * is recorded. */
void ss_record(const ss_trace *trace, ss_field_id field, int index, int t0, int n,
               const float *rows, size_t stride);

/* Takes the working memory of metrics for the recorded fields. */
void ss_trace_take_room(ss_trace *trace, ss_arena *arena);

/* Takes memory for the choices and the buffers of trace->fields; contents are undefined. */
void ss_trace_lay_out(ss_trace *trace, ss_arena *arena);

/* Copies rows from another trace of the same model: those of the first n tokens in the layers below
 * `layer`, and of the residual stream up to `layer`, for every field that both traces record. */
void ss_trace_take_below(ss_trace *trace, const ss_trace *source, int layer, int n);

/* Clears the quantization errors of tokens [t, t+n) after `layer` layers, in columns `first`..3, if
 * the field is recorded. */
void ss_trace_clear_rounded(const ss_trace *trace, int layer, int t, int n, int first);

/* Returns the fields that a model can record; asking for another field is an error. */
uint32_t ss_fields_of(const ss_arch *arch);

/* Returns the size of a letter of a shape in this trace; the letter may be a number or a sum
 * ("L+1"), and T is trace->T. */
size_t ss_trace_size_of(const ss_trace *trace, const char *letter);

/* Makes a view of a recorded field, [.., T, ..]. layer or head >= 0 selects and drops that
 * dimension, -1 keeps it. Returns SS_BAD_REQUEST if the field was not recorded, the model has no
 * such field (router without experts), or an index is out of range. */
ss_status ss_trace_view(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                        ss_error *err);

/* Makes a view of rows [t, t+n) of the field's first dimension T; n < 0 means all. Returns
 * SS_BAD_REQUEST for rows out of range, for fields without a dimension T, and as ss_trace_view. */
ss_status ss_trace_view_rows(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                             int t, int n, ss_error *err);

/* Returns SS_BAD_REQUEST, since a measuring run has no rows of the field. */
ss_status ss_trace_refuse_summed(int field, ss_error *err);

ss_status ss_trace_check_rows(const ss_trace *trace, int field, int t, int n, ss_error *err);

#endif
