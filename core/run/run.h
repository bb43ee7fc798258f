/*
 * Run: tokens + edits -> trace.
 *
 * ss_run_extend appends n tokens to those of the run: a prompt is one long extension, a generated
 * token a short one, and both give the same bits, since the same kernels compute every row in the
 * same order.
 *
 *     ss_run run;
 *     ss_run_init(&run, &desc, &arena, &err);
 *     ss_run_extend(&run, prompt, prompt_n, &err);       // run.trace now holds everything
 *     int token = ss_run_sample(&run, 0.8f, 40, random); // and so on
 */
#ifndef SS_RUN_RUN_H
#define SS_RUN_RUN_H

#include "edits/edit.h"

#define SS_BY_EDITS (-1)
/* Upper bound of the tokens of a run whose eviction keeps positions within the context. */
#define SS_TOKENS_MAX (1 << 20)
#define SS_MAP_BYTES ((size_t)64 << 20)

typedef struct ss_run_desc {
    const ss_model *model; /* must outlive the run */
    int capacity; /* maximum number of tokens, 1 .. context; more if an eviction keeps the positions
                     in the cache of a rotary model within the context */
    uint32_t fields;      /* mask of SS_BIT(field) and of SS_STREAMS or SS_MEASURES, with or without
                             SS_SPECTRA; the run adds SS_FIELDS_ALWAYS */
    const ss_edit *edits; /* applied in order; if two conflict, the last one wins */
    int edits_n;
    /* A run of the same model to begin from, or NULL to begin from the tokens. The new run copies
     * the residual stream after `layer` layers and the fields below, and computes only the layers
     * above. The other run may be closed after ss_run_init. */
    const ss_trace *from;
    /* 0, the embedding, .. L. SS_BY_EDITS: the run copies the layers below the first layer that an
     * edit touches, and the first tokens that no edit touches, if both runs have recorded the
     * necessary fields. Nothing is copied from a run with edits. */
    int layer;
    /* Threads that share the work, or NULL; they must outlive the run. They change no bit of the
     * result. */
    ss_pool *pool;
    /* Budget for maps in bytes: if the requested maps (att, scores) need more, the run keeps q
     * and computes rows when they are read (maps.h), to the same bits. 0 means SS_MAP_BYTES. */
    size_t map_bytes;
} ss_run_desc;

typedef struct ss_run {
    ss_trace trace;
    struct ss_pass *pass; /* private, in the arena */
} ss_run;

/* Computes the bytes of arena that ss_run_init takes. A streaming run takes 12 bytes for each
 * token, and 8 L G K (n + 64) for keys and values: n is the budget of the eviction if the heads of
 * a group keep the same keys (window, first), else H/G times the budget. */
ss_status ss_run_size(size_t *bytes, const ss_run_desc *desc, ss_error *err);

/* Lays out a run in the arena. Returns SS_TOO_LONG if capacity exceeds the context; the errors of
 * ss_edit_resolve for an edit; SS_NO_MEMORY if the arena is too small. Returns SS_BAD_REQUEST if
 * desc->from is a run of another model, is longer than the capacity, or has not recorded hidden and
 * all fields that this run records of the layers below; or if a streaming run has no eviction of
 * every head, or must record fields that it cannot keep. Returns SS_UNSUPPORTED if a measuring run
 * begins from another run. */
ss_status ss_run_init(ss_run *run, const ss_run_desc *desc, ss_arena *arena, ss_error *err);

/*
 * Appends tokens[n] to those of the trace. Returns SS_TOO_LONG if they do not fit the capacity,
 * SS_BAD_TOKEN with the position of an id outside 0..V-1; the trace is then unchanged. Takes O(n
 * (parameters + L H T K)), and V D more for each position with requested logits.
 *
 * Returns SS_UNSUPPORTED if earlier tokens would have to see the new ones. If queries see a prefix
 * of p keys, a run can be extended once it has p tokens. A run of a bidirectional model, a run with
 * an edit that reads all tokens at once, and a measuring run, which has forgotten its keys, can
 * never be extended; call ss_run_update instead. A run that begins from another must first get the
 * other run's tokens.
 */
ss_status ss_run_extend(ss_run *run, const int32_t *tokens, int n, ss_error *err);

/* Extend a run in pieces, so that the caller can do other work in between: call ss_run_begin, then
 * ss_run_step until it returns that 0 pieces are left. trace.T grows chunk by chunk, in a measuring
 * run only during the last layer; only rows below trace.T are complete. After an abandoned
 * extension the run can only be updated or closed. */
ss_status ss_run_begin(ss_run *run, const int32_t *tokens, int n, ss_error *err);
int ss_run_step(ss_run *run);

/* Changes the tokens of the run to tokens[n]; the result has the same bits as a new run of these
 * tokens. The run keeps the rows of the first tokens that both texts share; it computes the last of
 * these again if its logits are needed and neither the logits nor its last hidden state were
 * recorded. The run computes all tokens if some depend on later ones (a prefix, a bidirectional
 * mask, an edit that reads many tokens), if an eviction has begun, or if the run streams or
 * measures. Returns the errors of ss_run_extend for a new run, and then leaves the run unchanged.
 * Takes as long as ss_run_extend for the computed tokens. */
ss_status ss_run_update(ss_run *run, const int32_t *tokens, int n, ss_error *err);
ss_status ss_run_begin_update(ss_run *run, const int32_t *tokens, int n, ss_error *err);

/* Samples the next token from the logits at the last position (field next must be recorded, T >=
 * 1). temperature <= 0 is greedy; top_k < 1 means all of V; random is 32 uniform bits. Returns -1
 * without logits. */
int ss_run_sample(const ss_run *run, float temperature, int top_k, uint32_t random);

#endif
