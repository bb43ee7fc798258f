/*
 * A run's inside: the extension under way, its working memory, and what edits have changed. Private
 * to run/; the public half is run.h.
 */
#ifndef SS_RUN_PASS_H
#define SS_RUN_PASS_H

#include "../model/rotary.h"
#include "edits/table.h"
#include "maps.h"

/*
 * Rows that go through the layers together: they share the cost of unpacking the weights. More
 * where queries see keys after them, which are then of the same chunk.
 */
#define SS_CHUNK 256
/* Rows that go through one head's attention together, and through the head of the model where no
 * logits are recorded. */
#define SS_ATTENTION_ROWS SS_MAP_ROWS
#define SS_LOGIT_ROWS 64

/* Rows of angles that an eviction keeps at most: enough for the texts that most runs read. */
#define SS_ROTARY_ROWS 4096

/* What a head's cache knows of its keys, each in a slot: S of them (edits/evict.c). Slot j is token
 * j, but for a run that streams, whose heads of a group share slots that are used again. */
typedef struct ss_cache {
    float *score;         /* [L*H][S] of a policy, times */
    float *score_factor;  /* [L*H][S] this: the lowest product is evicted first */
    ss_angles rotary[2];  /* of -n positions, as angles below but of size 1; NULL: no key moves */
    int32_t *rotary_back; /* [min(C, SS_ROTARY_ROWS)] the n of each row; 0: the row is empty */
    int32_t *held;   /* [L*G] slots that are filled before the chunk; NULL: it does not stream */
    int32_t *tokens; /* [L*G][S] whose they are */
} ss_cache;

/* Working memory of one thread for the attention of one head at a time. */
typedef struct ss_scratch {
    int group;              /* whose keys and values are packed, and */
    ss_feature feature;     /* through which map; group -1: none's */
    int32_t *ranks;         /* [S] positions of keys as one query sees them */
    unsigned char *visible; /* [S] 1 for a key that it sees */
    float *queries;         /* [SS_ATTENTION_ROWS][K] through the feature map */
    float *keys;            /* [B+S][K] or values, where not as in the trace */
    float *scores;          /* [SS_ATTENTION_ROWS][B+S] */
    float *tiles;           /* queries or weights as a product reads them, as many */
    float *key_panels;      /* [ceil((B+S)/8)][K][8] */
    float *value_panels;    /* [ceil(K/8)][B+S][8] */
} ss_scratch;

/* n rows of a chunk beside C tokens and S slots; B is 1 with a bias key, else 0. */
typedef struct ss_pass {
    ss_pool *pool;   /* or NULL */
    ss_trace *trace; /* of the run; set whenever the run is entered */
    int total;       /* tokens there will be when it is done; trace->T where there is none */
    int layer;       /* the next of the chunk that begins at trace->T; L: its logits */
    int chunk;       /* most rows of a chunk */
    int together;    /* first tokens that come in one chunk, since an edit looks at all of them */
    bool evicts;     /* some head's cache drops keys */
    bool moves_keys; /* an eviction places keys as they lie in the cache */
    bool endless;    /* and all of them within the context, however long the text */
    int keeps;       /* keys that an eviction of every head leaves a group at most; 0: there is none
                        that decides query by query */
    float *resumed;  /* [T] of the run it begins from [D]: its residual stream, or NULL */
    int first_layer; /* which reads that; else 0 */
    int resumed_n;   /* its T; 0: it begins from its tokens */
    bool spliced;    /* the layers below were asked for, whatever edits there were */
    int taken;       /* first tokens of which it takes all over */
    const ss_edit_kind *edit_kinds; /* the table */
    ss_edit *edits;                 /* [edits_n] with every default put in */
    int edits_n;
    float **kept;     /* [edits_n] what each keeps of its first tokens, in */
    float *kept_room; /* [kept_n] */
    size_t kept_n;
    unsigned hook_points; /* SS_AT_... where some edit acts (edits/table.h) */
    int32_t *positions;   /* [C] of each token */
    ss_cache cache;
    float *x;         /* [n][D] residual stream */
    float *y;         /* [n][D] normed: what a block reads */
    float *attn_out;  /* [n][D] what attention adds, where it is not recorded */
    float *ffn_out;   /* [n][D] what the feed-forward adds, likewise */
    float *kv;        /* [n][G*K] keys, then values, on their way to the cache */
    float *q;         /* [n][H*K] queries, over which attention writes the output of each head */
    float *gate, *up; /* [n][F], or as wide as the expert of all tokens */
    float *gates;     /* [n][gated heads * gate width], gated attention only */
    float *router;    /* [n][E] weights of the experts; this and the next two with experts */
    float *share;     /* [n] */
    float *gathered;  /* [n][D] rows that go through one expert */
    ss_angles
        angles[2]; /* [n] of layers that see all; of windowed ones, where they have their own */
    float *logits; /* [1 or SS_LOGIT_ROWS][V] */
    float *work;   /* weights unpacked for one product, and its rows */
    ss_scratch scratch[SS_WORKERS_MAX]; /* of the pool's workers */
} ss_pass;

static inline int ss_min(int a, int b) {
    return a < b ? a : b;
}

/* Slots of a group's cache that are filled before the chunk that begins at token t0. */
static inline int ss_held(const ss_pass *pass, int l, int g, int t0) {
    return pass->cache.held ? pass->cache.held[l * pass->trace->model->arch.G + g] : t0;
}

#endif
