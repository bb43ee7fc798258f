/* The private state of a run: the current extension, its working memory, and the state of edits.
 * Private to run/; run.h is the public part. */
#ifndef SS_RUN_PASS_H
#define SS_RUN_PASS_H

#include "../model/rotary.h"
#include "edits/table.h"
#include "run.h"
#include "statistics.h"

/* Number of rows that go through the layers in one chunk and share the cost of unpacking the
 * weights; with 256 rows that cost is small. Chunks are larger if queries see later keys, which
 * must be in the same chunk. */
#define SS_CHUNK 256
/* Rows per LM-head product when logits are not recorded: each product reads all weights of the
 * head, and its buffer has SS_LOGIT_ROWS * V floats. */
#define SS_LOGIT_ROWS 64

/* Number of rows of rotary angles that an eviction caches, which is enough for most texts. */
#define SS_ROTARY_ROWS 4096

/* The key caches of all heads, S slots each (edits/evict.c). Slot j holds token j, except in a
 * streaming run, where the heads of a group share slots and the slots are reused. */
typedef struct ss_cache {
    float *score; /* [L*H][S] first factor of the eviction score */
    float *
        score_factor; /* [L*H][S] second factor; the key with the lowest product is evicted first */
    ss_angles rotary[2]; /* angles of rotations by -n positions, like `angles` below but without a
                            size factor; NULL: no key moves */
    int32_t *rotary_shifts; /* [min(C, SS_ROTARY_ROWS)] how many positions each row of `rotary`
                             rotates back; 0: the row is empty */
    int32_t *filled_slots;  /* [L*G] slots filled before the chunk; NULL: the run does not stream */
    int32_t *tokens;        /* [L*G][S] token in each slot */
} ss_cache;

/* States of the layers with a mixer (mixer.h), and rows of a chunk. In `rows`, the rows of earlier
 * tokens that the convolution reads precede the rows of the chunk. */
typedef struct ss_mixing {
    float *states; /* one layer after the other, `state_size` floats each */
    size_t state_size;
    int tokens; /* number of tokens that the states have read; -1: some layers have read more than
                   others */
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
    float *queries;         /* [SS_MAP_ROWS][K] after the feature map */
    float *keys; /* [B+S][max(K, U)] keys or values that differ from the trace: after a bias key, or
                    through a feature map */
    float *scores;     /* [SS_MAP_ROWS][B+S] */
    float *tiles;      /* queries or weights in the layout of a product, as many floats as scores */
    float *key_panels; /* [ceil((B+S)/8)][K][8] */
    float *value_panels; /* [ceil(U/8)][B+S][8] */
} ss_scratch;

/* Sizes: n rows per chunk, C tokens, S slots; B is 1 with a bias key, else 0. */
typedef struct ss_pass {
    ss_pool *pool;   /* threads, or NULL */
    ss_trace *trace; /* trace of the run; set whenever a function of the run is called */
    int total;       /* tokens after the current extension; trace->T if there is none */
    int t0;          /* first token of the next chunk */
    int layer; /* next layer of that chunk, among all layers; after the last, the logits are next */
    int a; /* index of the computed layer among those with attention; -1: the layer has no attention
            */
    bool by_layer; /* all chunks go through a layer before the next layer, as in a measuring run */
    int chunk;     /* maximum number of rows of a chunk */
    int joint_tokens; /* number of first tokens that must be in one chunk, since an edit reads them
                         together */
    bool has_eviction;
    bool moves_keys; /* an eviction sets positions to indices in the cache */
    bool is_endless; /* an eviction keeps positions within the context, however long the text */
    int key_bound;   /* bound of the keys that a group of heads keeps, if an eviction covers every
                        head and decides query by query; 0: no bound */
    float *source_stream; /* [T][D] residual stream of the run that this one begins from; or NULL */
    int first_layer;      /* first layer to compute from `source_stream`; else 0 */
    int source_T; /* T of the run that this one begins from; 0: this run begins from its tokens */
    bool has_fixed_layer; /* the caller gave desc.layer, so all layers below it are copied, even if
                             edits touch them */
    int copied_tokens;
    const ss_edit_kind *edit_kinds;
    ss_edit *edits; /* [edits_n] with every default filled in */
    int edits_n;
    float **edit_numbers; /* [edits_n] the numbers that each edit keeps from its first tokens, in
                             edit_numbers_room */
    float *edit_numbers_room; /* [edit_numbers_n] */
    size_t edit_numbers_n;
    unsigned hook_points;
    int32_t *positions; /* [C] position of each token */
    ss_cache cache;
    float *stream;   /* [n][D] residual stream of the chunk; by layer, [C][D] of the whole text */
    float *x;        /* [n][D] the chunk's rows in `stream` */
    float *y;        /* [n][D] normed x, the input of a block */
    float *attn_out; /* [n][D] output of attention, unless it is recorded */
    float *ffn_out;  /* [n][D] output of the feed-forward, unless it is recorded */
    float *latent;   /* [n][max(q_latent, kv_latent)] compressed vectors from which queries, or keys
                        and values, are computed */
    float *kv;       /* [n][G*K] keys, then [n][G*U] values, before they are cached */
    float *q;        /* [n][H*K] queries */
    float *head_out; /* [n][H*U] head outputs; where U is K, attention overwrites q with them */
    float *gate, *up; /* [n][F], or [n][width] of a wider shared expert or dense layer */
    float *gates;     /* [n][gated heads * gate width], gated attention only */
    float
        *router; /* [n][E] weights of the experts; with the next two only in models with experts */
    float *shared_factors;    /* [n] factor of the shared expert */
    float *expert_rows;       /* [n][D] rows routed to one expert */
    ss_angles text_angles[2]; /* angles of the n rows of a chunk, or by layer of all C tokens: first
                                 for layers that see all keys, then for windowed layers, if they
                                 have their own */
    ss_angles angles[2];      /* [n] angles of the chunk, in that order */
    ss_mixing mixing;
    float *logits; /* [1 or SS_LOGIT_ROWS][V] */
    float *work;   /* unpacked weights of a product, and rows in its layout */
    ss_scratch scratch[SS_WORKERS_MAX];
} ss_pass;

static inline int ss_min(int a, int b) {
    return a < b ? a : b;
}

/* Returns how many slots of a group's cache are filled before the chunk at token t0. */
static inline int ss_filled_slots(const ss_pass *pass, int l, int g, int t0) {
    return pass->cache.filled_slots ? pass->cache.filled_slots[l * pass->trace->model->arch.G + g]
                                    : t0;
}

/* Returns row t of a field that has rows for each layer with attention, in the computed layer; NULL
 * if that layer has no attention or the field is not recorded. */
static inline float *ss_layer_row(const ss_pass *pass, ss_field_id field, int t) {
    return pass->a < 0 ? NULL : ss_row(pass->trace, field, pass->a, t);
}

#endif
