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

#include "edits/edit.h"

#define SS_BY_EDITS (-1)
#define SS_MAP_BYTES ((size_t)64 << 20)

typedef struct ss_run_desc {
    const ss_model *model; /* must outlive the run */
    int capacity;          /* tokens there must be room for, 1 .. context; more where a rotary model
                              evicts within the context, positions as in the cache */
    uint32_t fields;       /* mask of SS_BIT(field); SS_FIELDS_ALWAYS is added; SS_STREAMS or
                              SS_MEASURES beside them */
    const ss_edit *edits;  /* applied in order; of two that say one thing the last one wins */
    int edits_n;
    /* A run of the same model that this one begins from: its residual stream after `layer` layers
     * is taken as it was recorded, what lies below is copied, and only what lies above is computed.
     * NULL: from the tokens. It may be closed once this one is made. */
    const ss_trace *from;
    /* 0, the embedding, .. L. SS_BY_EDITS: the layers below the first that an edit touches, and all
     * of the first tokens that no edit touches, as far as both have recorded what this takes; of a
     * run that is edited itself, nothing. */
    int layer;
    /* Threads that share the work, which must outlive the run, or NULL; the bits are the same. */
    ss_pool *pool;
    /* Bytes that maps may take: where att and scores, as far as they are asked for, need more, the
     * run keeps q and computes rows when they are read (maps.h), to the same bits. 0 is
     * SS_MAP_BYTES. */
    size_t map_bytes;
} ss_run_desc;

typedef struct ss_run {
    ss_trace trace;
    struct ss_pass *pass; /* private, in the arena */
} ss_run;

/*
 * Bytes of arena that ss_run_init takes. Of a run that streams they grow with the budget b, and by
 * 12 with each token: 8 L G K (n + 64) are for keys and values, n = b where heads of a group keep
 * the same ones (window, first), else b H/G.
 */
ss_status ss_run_size(size_t *bytes, const ss_run_desc *desc, ss_error *err);

/* SS_TOO_LONG if capacity exceeds the context; what ss_edit_resolve says of an edit; SS_NO_MEMORY
 * if the arena is too small. SS_BAD_REQUEST if the run to begin from is another model's, is longer
 * than the capacity, or has not recorded hidden and all that this one records of the layers below;
 * if a run that streams has no eviction of every head, or is asked for what it forgets.
 * SS_UNSUPPORTED if a run that measures begins from another.
 */
ss_status ss_run_init(ss_run *run, const ss_run_desc *desc, ss_arena *arena, ss_error *err);

/*
 * Runs tokens[n] behind those of the trace. SS_TOO_LONG if they do not fit the capacity,
 * SS_BAD_TOKEN with the position of an id outside 0..V-1; the trace is then as before.
 * Time O(n (parameters + L H T K)), and V D more for each position whose logits are asked for.
 *
 * SS_UNSUPPORTED behind tokens that would have to see the new ones: a model whose queries see a
 * prefix of p keys can be extended once there are p tokens, a bidirectional one, and a run with an
 * edit that looks at all tokens at once, never; update it instead. A run that begins from another
 * takes the tokens of that one first.
 */
ss_status ss_run_extend(ss_run *run, const int32_t *tokens, int n, ss_error *err);

/*
 * The same in pieces, for those who have other things to do in between: begin, then step until it
 * returns that 0 pieces are left. trace.T grows chunk by chunk; until then only rows below it are
 * whole. An extension that is given up leaves a run that can only be updated or thrown away.
 */
ss_status ss_run_begin(ss_run *run, const int32_t *tokens, int n, ss_error *err);
int ss_run_step(ss_run *run);

/*
 * The run becomes that of tokens[n], to the bits of a run that began with them. What was recorded
 * of the first tokens that both have is kept; the last of them is computed again where its logits
 * are needed and neither they nor its last hidden state were recorded. Where a token depends on
 * later ones, or an eviction has begun, all are: a prefix, a bidirectional mask, an edit that looks
 * at many tokens, a run that streams or measures. Errors as of ss_run_extend of a new run; the run
 * is then as before. Time as of ss_run_extend for the tokens that are computed.
 */
ss_status ss_run_update(ss_run *run, const int32_t *tokens, int n, ss_error *err);
ss_status ss_run_begin_update(ss_run *run, const int32_t *tokens, int n, ss_error *err);

/* The same of its own first n tokens, 0 .. T. SS_BAD_REQUEST for another n. */
ss_status ss_run_truncate(ss_run *run, int n, ss_error *err);

/*
 * The next token, from the logits at the last position (field next must be recorded, T >= 1).
 * temperature <= 0 is greedy; top_k < 1 means all of V; random is 32 uniform bits.
 * -1 if there are no logits.
 */
int ss_run_sample(const ss_run *run, float temperature, int top_k, uint32_t random);

#endif
