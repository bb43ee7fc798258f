/*
 * The private state of a run: the current extension, its working memory, and the state of edits.
 * Private to run/; run.h is the public part.
 */
#ifndef SS_RUN_PASS_H
#define SS_RUN_PASS_H

#include "../model/rotary.h"
#include "edits/table.h"
#include "maps.h"

/*
 * Rows that go through the layers in one chunk and share the cost of unpacking the weights; at 256
 * that cost is small. Chunks are larger if queries see later keys, which must be in the same chunk.
 */
#define SS_CHUNK 256
/* SS_ATTENTION_ROWS: queries per tile of one head, as many as a reader of maps gets at a time.
 * SS_LOGIT_ROWS: rows per LM-head product when logits are not recorded; each product reads all
 * weights of the head, and its buffer has SS_LOGIT_ROWS * V floats. */
#define SS_ATTENTION_ROWS SS_MAP_ROWS
#define SS_LOGIT_ROWS 64

/* Rows of rotary angles that an eviction caches: enough for most texts. */
#define SS_ROTARY_ROWS 4096

/* The state of a head's cache, for each of its S slots (edits/evict.c). Slot j holds token j,
 * except in a streaming run, whose heads of a group share slots and reuse them. */
typedef struct ss_cache {
    float *score;        /* [L*H][S] of the policy, times */
    float *score_factor; /* [L*H][S] this: the lowest product is evicted first */
    ss_angles
        rotary[2]; /* for -n positions, like `angles` below but of size 1; NULL: no key moves */
    int32_t *rotary_back; /* [min(C, SS_ROTARY_ROWS)] n of each row; 0: the row is empty */
    int32_t *held;        /* [L*G] slots filled before the chunk; NULL: the run does not stream */
    int32_t *tokens;      /* [L*G][S] token in each slot */
} ss_cache;

/* States of the layers with a mixer (mixer.h), and rows of a chunk. The rows of q, k and v follow
 * as many as the convolution reads of the tokens before the chunk. */
typedef struct ss_mixing {
    float *states; /* one layer after the other, `state` floats each */
    size_t state;
    int tokens;         /* that the states have read; -1: some layers have read more */
    float *rows[3];     /* q, k, v: [kernel - 1 + n][width] */
    float *z;           /* [n][values * value width] */
    float *beta, *step; /* [n][values] */
} ss_mixing;

/* Working memory of one thread, for the attention of one head at a time. */
typedef struct ss_scratch {
    int group;              /* group whose keys and values are packed; -1: none */
    ss_feature feature;     /* feature map of the packed keys */
    int32_t *ranks;         /* [S] positions of the keys for one query */
    unsigned char *visible; /* [S] 1 for a visible key */
    float *queries;         /* [SS_ATTENTION_ROWS][K] through the feature map */
    float *keys;            /* [B+S][max(K, U)] keys or values that differ from the trace's */
    float *scores;          /* [SS_ATTENTION_ROWS][B+S] */
    float *tiles;           /* queries or weights as a product reads them, of the same size */
    float *key_panels;      /* [ceil((B+S)/8)][K][8] */
    float *value_panels;    /* [ceil(U/8)][B+S][8] */
} ss_scratch;

/* Sizes: n rows per chunk, C tokens, S slots; B is 1 with a bias key, else 0. */
typedef struct ss_pass {
    ss_pool *pool;   /* or NULL */
    ss_trace *trace; /* of the run; set whenever the run is entered */
    int total;       /* tokens after the current extension; trace->T if there is none */
    int t0;          /* first token of the next chunk */
    int layer;       /* next layer of that chunk, of all; their number: its logits */
    int a;           /* index of the computed layer among those with attention; -1: it has none */
    bool by_layer;   /* all chunks go through a layer before the next one: the run measures */
    int chunk;       /* most rows of a chunk */
    int together;    /* first tokens that must be in one chunk, since an edit reads all of them */
    bool evicts;     /* an eviction drops keys of some head */
    bool moves_keys; /* an eviction sets positions to indices in the cache */
    bool endless;    /* moves_keys, and positions stay within the context however long the text */
    int keeps;       /* largest number of keys that an eviction of every head leaves a group; 0: no
                        eviction that decides query by query */
    float *resumed;  /* [T][D] residual stream of the run that this one begins from, or NULL */
    int first_layer; /* first layer to compute from `resumed`; else 0 */
    int resumed_n;   /* T of that run; 0: this run begins from its tokens */
    bool spliced; /* true if desc.layer was given: copy all layers below it even if edits touch them
                   */
    int taken;    /* number of first tokens that are copied completely */
    const ss_edit_kind *edit_kinds; /* the table */
    ss_edit *edits;                 /* [edits_n] with every default filled in */
    int edits_n;
    float **kept;     /* [edits_n] numbers that each edit keeps from its first tokens, */
    float *kept_room; /* [kept_n] stored here */
    size_t kept_n;
    unsigned hook_points; /* SS_AT_... points at which an edit acts (edits/table.h) */
    int32_t *positions;   /* [C] position of each token */
    ss_cache cache;
    float *stream;   /* [n][D] residual stream of a chunk, or [C][D] of the text by layer, */
    float *x;        /* [n][D] and its rows of the chunk */
    float *y;        /* [n][D] normed x, the input of a block */
    float *attn_out; /* [n][D] output of attention, unless it is recorded */
    float *ffn_out;  /* [n][D] output of the feed-forward, likewise */
    float *latent; /* [n][max(q_latent, kv_latent)] what queries, or keys and values, are made of */
    float *kv;     /* [n][G*K] keys, then [n][G*U] values, before they are cached */
    float *q;      /* [n][H*K] queries */
    float *head_out;  /* [n][H*U] head outputs; where U is K, attention overwrites q with them */
    float *gate, *up; /* [n][F], or as wide as the shared expert or the dense layers */
    float *gates;     /* [n][gated heads * gate width], gated attention only */
    float
        *router;  /* [n][E] weights of the experts; this and the next two for models with experts */
    float *share; /* [n] */
    float *gathered;          /* [n][D] rows routed to one expert */
    ss_angles text_angles[2]; /* [n], or [C] by layer: for layers that see all keys; for windowed
                                 ones, if these have their own */
    ss_angles angles[2];      /* [n] those of the chunk */
    ss_mixing mixing;         /* of models with mixers */
    float *logits;            /* [1 or SS_LOGIT_ROWS][V] */
    float *work;              /* unpacked weights of a product, and its rows */
    ss_scratch scratch[SS_WORKERS_MAX]; /* one per worker of the pool */
} ss_pass;

static inline int ss_min(int a, int b) {
    return a < b ? a : b;
}

/* Number of slots of a group's cache that are filled before the chunk that begins at token t0. */
static inline int ss_held(const ss_pass *pass, int l, int g, int t0) {
    return pass->cache.held ? pass->cache.held[l * pass->trace->model->arch.G + g] : t0;
}

/* Row t of a field with a row for each layer with attention, of the computed layer; NULL if that
 * layer has no attention, or the field is not recorded. */
static inline float *ss_layer_row(const ss_pass *pass, ss_field_id field, int t) {
    return pass->a < 0 ? NULL : ss_row(pass->trace, field, pass->a, t);
}

#endif
