/*
 * The TRACE table: everything a run records, and the buffers it is recorded in.
 *
 * A trace has room for `capacity` tokens and holds T of them. Its keys and values are also the
 * cache of the run, so they are always there, though of no token in particular where the run
 * streams; the other fields are recorded where the mask has their bit. Rows beyond T are undefined.
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
    SS_FIELD_MIXED,
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
/* Recorded whether asked for or not. */
#define SS_FIELDS_ALWAYS (SS_BIT(SS_FIELD_TOKENS) | SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V))
#define SS_FIELDS_ALL ((1u << SS_FIELD_N) - 1)
/* What needs the logits before every token. */
#define SS_FIELDS_PREDICTED (SS_BIT(SS_FIELD_LOSS) | SS_BIT(SS_FIELD_RANK))
/*
 * Beside the bits of fields, a run streams: of keys and values it holds what an eviction keeps, in
 * slots that are used again, so its memory grows with the budget and not with the text. It records
 * none of SS_FIELDS_STREAMED's others.
 */
#define SS_STREAMS (1u << 31)
/*
 * Beside the bits of fields, a run measures: of maps and queries it keeps what metrics accumulate
 * (statistics.h), over all of its tokens, and no rows. Its memory is without q's 4 L H K bytes a
 * token.
 */
#define SS_MEASURES (1u << 30)
#define SS_FIELDS_STREAMED (SS_BIT(SS_FIELD_TOKENS) | SS_BIT(SS_FIELD_NEXT) | SS_FIELDS_PREDICTED)
/* What it has slots for. */
#define SS_FIELDS_SLOTS (SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V) | SS_BIT(SS_FIELD_EVICTED))

enum {
    SS_FIELD_STANDARD = 1, /* recorded where no fields are named; else too large for that */
    SS_FIELD_AVERAGED = 2  /* a mean over sequences says something; else it belongs to one */
};

typedef struct ss_field {
    const char *name, *meaning, *unit;
    const char *shape[SS_RANK_MAX + 1]; /* letters, NULL-ended: "L+1", "T", "D" */
    ss_dtype type;
    int when;          /* SS_FIELD_... below */
    const char *needs; /* what only some models have, a key of their description; or NULL */
} ss_field;

/* Rows, and columns, of hidden states that a metric multiplies together, in room that the trace has
 * for it. */
#define SS_SPECTRUM_ROWS 128
#define SS_SPECTRUM_COLUMNS 20

/* The table; SS_FIELD_N rows, in the order of ss_field_id. */
const ss_field *ss_fields(void);

/* Groups of row statistics: which metrics each serves is a column of their table. */
enum {
    SS_OF_SHARES = 1,
    SS_OF_ENTROPY = 2,
    SS_OF_VALUES = 4,
    SS_OF_OUTPUTS = 8,
    SS_OF_COSINES = 16 /* of queries and keys; the others are of maps */
};
#define SS_STATISTICS 5

/*
 * What is found in one reading of maps, or queries (statistics.h), [L][H][capacity] where no shape
 * is given. A row has its
 * mass and the factor that makes a weight, or that of the bias key, a share of attention,
 * P = weight * factor (of the absolute value where the operation has signs): section 1.3 of the
 * metrics, the authors' proxy. A key has sums over its column.
 */
typedef struct ss_row_statistics {
    int *queries;   /* [SS_STATISTICS][L][H] first queries whose rows are in; NULL: none are read */
    int *lengths_n; /* [L][H] keys whose lengths are known */
    float *mass, *factor, *first; /* of a query; first: |weight| of the first token */
    float *entropy;
    float *lengths;            /* of a key: |v| */
    double *alpha, *alpha_raw; /* of a key: sum of shares, and of weights */
    double *values, *outputs;  /* of a key: sum of |weight| over what the query mixes, by |v| and
                                  by |W_O v| */
    int *directions_n;         /* [L][H] keys that the last query sees */
    float *directions; /* [L][H][K] the sum of their unit vectors, without the first token's */
    double *cosines;   /* [L][H][2] sums over queries of the cosine with the first key, and of those
                          with the other keys that they see */
} ss_row_statistics;

/*
 * What was kept of maps and vectors that were not recorded themselves, over all T tokens of the
 * trace, or beside rounded ones. NULL: it was not kept. A run keeps none of it; a recording may.
 */
typedef struct ss_kept {
    const float *alpha, *alpha_raw, *row_mass, *factors; /* [L][H][T] */
    const float *norms[SS_FIELD_N]; /* of a field [rows][T][width]: [rows][T] */
    uint32_t fields; /* SS_BIT(field) of those whose metrics need no more than what was kept */
    bool recorded;   /* the trace is a recording's: a model may have had what it lacks */
    int pooled;      /* the side of pooled maps in place of att; 0: none do */
} ss_kept;

typedef struct ss_trace {
    const ss_model *model;
    uint32_t fields;      /* what is recorded; SS_STREAMS where it streams */
    int capacity;         /* in tokens */
    int slots;            /* the same of SS_FIELDS_SLOTS; fewer where the run streams */
    int T;                /* tokens so far */
    int first;            /* the token that counts as the first; 0 but of a recording */
    ss_choice *choices;   /* [L][H] what each head computes */
    bool edited;          /* it is a run of something else than the model */
    uint32_t computed;    /* of its fields, maps whose rows are computed when they are read */
    uint32_t summed;      /* of its fields, those of which only statistics are kept */
    struct ss_pass *pass; /* of a run, which computes them */
    ss_row_statistics statistics; /* of att and q, where these are recorded */
    ss_pool *pool;                /* whose threads share a metric; or NULL */
    double *spectrum;             /* where hidden is: room that metrics of it work in, */
    size_t spectrum_n;            /*     so many numbers for each of the pool's workers */
    void *buffers[SS_FIELD_N];    /* as their rows' shapes, capacity for T; NULL: not recorded */
    size_t rooms[SS_FIELD_N];     /* tokens, or slots, that a field has room for */
    size_t widths[SS_FIELD_N];    /* numbers of one token; of a field without tokens, all */
    ss_kept kept;                 /* of a recording: what replaces what it lacks */
} ss_trace;

/* The numbers of a field of SS_F32, capacity for T in its shape; NULL where it is not recorded. */
static inline float *ss_floats(const ss_trace *trace, ss_field_id field) {
    return (float *)trace->buffers[field];
}

static inline int32_t *ss_tokens(const ss_trace *trace) {
    return (int32_t *)trace->buffers[SS_FIELD_TOKENS];
}

/*
 * What follows T of token t in a field [index][T][...]: its row, or its number. The index counts
 * through all dimensions before T. NULL where the field is not recorded.
 */
static inline float *ss_row(const ss_trace *trace, ss_field_id field, int index, int t) {
    float *floats = ss_floats(trace, field);
    size_t row = (size_t)index * trace->rooms[field] + (size_t)t;
    return floats ? floats + row * trace->widths[field] : NULL;
}

/* The same of a field that is recorded; else spare, for rows that somebody reads all the same. */
static inline float *ss_row_or(const ss_trace *trace, ss_field_id field, int index, int t,
                               float *spare) {
    float *row = ss_row(trace, field, index, t);
    return row ? row : spare;
}

/* rows[n], `stride` numbers apart, become those of tokens t0.. where the field is recorded. */
void ss_record(const ss_trace *trace, ss_field_id field, int index, int t0, int n,
               const float *rows, size_t stride);

/* Takes what metrics work in, for what the trace records. */
void ss_trace_take_room(ss_trace *trace, ss_arena *arena);

/* Takes the choices and every buffer of trace->fields; their contents are undefined. */
void ss_trace_lay_out(ss_trace *trace, ss_arena *arena);

/*
 * What another trace of the same model recorded of n first tokens in the layers below `layer`, and
 * of the stream up to it, becomes this one's, where both record it.
 */
void ss_trace_take_below(ss_trace *trace, const ss_trace *from, int layer, int n);

/* Nothing of tokens [t, t+n) is rounded behind so many layers: their numbers from `first` on are 0,
 * where the field is recorded. */
void ss_trace_clear_rounded(const ss_trace *trace, int layer, int t, int n, int first);

/* Mask of the fields that a run of such a model has; the others are asked for in vain. */
uint32_t ss_fields_of(const ss_arch *arch);

/* What a letter of a shape is in this trace, plain numbers and sums ("L+1") included; T is
 * trace->T.
 */
size_t ss_trace_size_of(const ss_trace *trace, const char *letter);

/*
 * A view of a field, [.., T, ..] of what was recorded. layer or head >= 0 selects and drops that
 * dimension, -1 keeps it. SS_BAD_REQUEST if it was not recorded, the model has no such field
 * (router without experts), or an index is out of range.
 */
ss_status ss_trace_view(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                        ss_error *err);

/* The same of rows [t, t+n) of its first dimension T; n < 0 is all. SS_BAD_REQUEST for others than
 * there are, and for rows of a field that has none. */
ss_status ss_trace_view_rows(ss_tensor *view, const ss_trace *trace, int field, int layer, int head,
                             int t, int n, ss_error *err);

/* The error of rows of a field of which a run that measures keeps statistics only. */
ss_status ss_trace_refuse_summed(int field, ss_error *err);

/* Checks that rows [t, t+n) of a field are there. */
ss_status ss_trace_check_rows(const ss_trace *trace, int field, int t, int n, ss_error *err);

#endif
