/*
 * Run: tokens + edits -> trace.
 *
 * The forward pass is written once. ss_run_extend adds n tokens behind those that are there: a
 * prompt is one long extension, a generated token a short one, and both give the same bits, since
 * every row is computed by the same kernels in the same order.
 *
 *     ss_run run;
 *     ss_run_init(&run, &desc, &arena, &err);
 *     ss_run_extend(&run, prompt, prompt_n, &err);       // run.trace now holds everything
 *     int token = ss_run_sample(&run, 0.8f, 40, random); // and so on
 */
#ifndef SS_RUN_RUN_H
#define SS_RUN_RUN_H

#include "trace.h"

/* A what-if applied to a run, never to the weights. */
typedef enum ss_edit_kind {
    SS_EDIT_OPERATION, /* heads compute another attention operation, with its parameters */
    SS_EDIT_MASK,      /* queries see the first parameters[0] and last parameters[1] keys of their
                          past only, whatever mask their model has */
    SS_EDIT_N
} ss_edit_kind;

typedef struct ss_edit {
    ss_edit_kind kind;
    int layer, head;                     /* -1: all of them */
    int operation;                       /* row of the operation table */
    float parameters[SS_PARAMETERS_MAX]; /* NaN: the default */
} ss_edit;

/* Name and meaning of a kind of edit, for the report. */
const char *ss_edit_name(ss_edit_kind kind);
const char *ss_edit_meaning(ss_edit_kind kind);

typedef struct ss_run_desc {
    const ss_model *model; /* must outlive the run */
    int capacity;          /* tokens there must be room for, 1 .. context */
    uint32_t fields;       /* mask of SS_BIT(field); SS_FIELDS_ALWAYS is added */
    const ss_edit *edits;  /* applied in order, the last one wins */
    int edits_n;
} ss_run_desc;

/*
 * Rows that go through the layers together: they share the cost of unpacking the weights. More
 * where queries see keys after them, which are then of the same chunk.
 */
#define SS_CHUNK 256
/* Rows that go through one head's attention together, and through the head of the model. */
#define SS_ATTENTION_ROWS 20
#define SS_LOGIT_ROWS 64

/* Rows of the largest chunk of a run with so much room. */
static inline int ss_run_chunk(const ss_arch *arch, int capacity) {
    int rows = arch->prefix > SS_CHUNK ? arch->prefix : SS_CHUNK;
    return rows < capacity ? rows : capacity;
}

/* Of every rotary angle of a chunk, times the size of the turned vectors. */
typedef struct ss_angles {
    float *cosine, *sine; /* [n][rotary_width/2] */
} ss_angles;

/* Working memory of one chunk of n rows, beside C tokens; B is 1 with a bias key, else 0. */
typedef struct ss_scratch {
    float *x;          /* [n][D] residual stream */
    float *y;          /* [n][D] normed: what a block reads */
    float *attended;   /* [n][D] what attention adds */
    float *fed;        /* [n][D] what the feed-forward adds */
    float *heads;      /* [n][H*K] projections, then mixed values */
    float *gate, *up;  /* [n][F], or as wide as the expert of all tokens */
    float *gates;      /* [n][gated heads * gate width], gated attention only */
    float *router;     /* [n][E] weights of the experts; this and the next two with experts */
    float *share;      /* [n] */
    float *gathered;   /* [n][D] rows that go through one expert */
    float *queries;    /* [SS_ATTENTION_ROWS][K] of one head, through its feature map */
    float *keys;       /* [B+C][K] of one head or its values, where they are not as in the trace */
    float *scores;     /* [SS_ATTENTION_ROWS][B+C] */
    float *tiles;      /* queries or weights as a product reads them, as many */
    float *key_panels; /* [ceil((B+C)/8)][K][8] */
    float *value_panels; /* [ceil(K/8)][B+C][8] */
    ss_angles angles[2]; /* of layers that see all; of windowed ones, where they have their own */
    float *logits;       /* [1 or SS_LOGIT_ROWS][V] */
    float *work;         /* weights unpacked for one product, and its rows */
} ss_scratch;

/* An extension under way. */
typedef struct ss_pass {
    int total; /* tokens there will be when it is done; trace.T where there is none */
    int layer; /* the next of the chunk that begins at trace.T; L: its logits */
} ss_pass;

typedef struct ss_run {
    ss_trace trace;
    ss_scratch scratch;
    ss_pass pass;
} ss_run;

/* Bytes of arena that ss_run_init takes. */
ss_status ss_run_size(size_t *bytes, const ss_run_desc *desc, ss_error *err);

/* SS_TOO_LONG if capacity exceeds the context; SS_BAD_REQUEST for an edit that names what is not
 * there; SS_NO_MEMORY if the arena is too small. */
ss_status ss_run_init(ss_run *run, const ss_run_desc *desc, ss_arena *arena, ss_error *err);

/*
 * Runs tokens[n] behind those of the trace. SS_TOO_LONG if they do not fit the capacity,
 * SS_BAD_TOKEN with the position of an id outside 0..V-1; the trace is then as before.
 * Time O(n (parameters + L H T K)), and V D more for each position whose logits are asked for.
 *
 * SS_UNSUPPORTED behind tokens that would have to see the new ones: a model whose queries see a
 * prefix of p keys can be extended once there are p tokens, a bidirectional one never; run the
 * longer text anew.
 */
ss_status ss_run_extend(ss_run *run, const int32_t *tokens, int n, ss_error *err);

/*
 * The same in pieces, for those who have other things to do in between: begin, then step until it
 * returns false. trace.T grows chunk by chunk; until then only rows below it are whole. An
 * extension that is given up leaves a run that can only be thrown away.
 */
ss_status ss_run_begin(ss_run *run, const int32_t *tokens, int n, ss_error *err);
bool ss_run_step(ss_run *run);
/*
 * The next token, from the logits at the last position (field next must be recorded, T >= 1).
 * temperature <= 0 is greedy; top_k < 1 means all of V; random is 32 uniform bits.
 * -1 if there are no logits.
 */
int ss_run_sample(const ss_run *run, float temperature, int top_k, uint32_t random);

#endif
