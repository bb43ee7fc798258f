/* Where the forward pass lets edits act, and what it shows them there. Private to run/. */
#ifndef SS_RUN_SITE_H
#define SS_RUN_SITE_H

#include "pass.h"

enum {
    SS_AT_START = 1,     /* once, before any token: choices of heads, positions */
    SS_AT_HIDDEN = 2,    /* rows [n][1][D] of the residual stream, l = 0 .. L */
    SS_AT_QUERIES = 4,   /* rows [n][H][K] */
    SS_AT_KEYS = 8,      /* rows [n][G][K] */
    SS_AT_VALUES = 16,   /* rows [n][G][K] */
    SS_AT_SIGHT = 32,    /* which of `keys` query t of head h sees, and their positions to it */
    SS_AT_SCORES = 64,   /* rows [keys]: its scores, before scale and distances; q its vector */
    SS_AT_WEIGHTS = 128, /* rows [keys]: its weights, and the bias key's */
    SS_AT_HEADS = 256,   /* rows [n][H][K]: what the heads have mixed */
    SS_AT_PRODUCT = 512  /* rows [n][width] = in linear + bias */
};

typedef struct ss_site {
    ss_pass *pass;
    ss_lane *lane; /* where rows are of one query */
    unsigned place;
    int l, h;    /* layer; query head, where rows are of one */
    int t, n;    /* rows [t, t+n) */
    float *rows; /* [n][heads][width] */
    size_t heads, width;
    size_t keys;               /* slots among which a query's sight ends */
    int own;                   /* the query's own */
    const int32_t *tokens;     /* [keys] whose each is; NULL: slot j is token j's */
    const unsigned char *sees; /* [keys] which of them it sees; NULL: all */
    const float *q;            /* [K] */
    float *bias;               /* weight of the bias key, or NULL */
    const float *in;           /* [n][linear->w.in] */
    const ss_linear *linear;
} ss_site;

/* Whose key stands in a slot that a query sees. */
static inline int ss_token_of(const ss_site *site, size_t slot) {
    return site->tokens ? site->tokens[slot] : (int)slot;
}

/* The slot of a token's key among those that a query sees; site->keys where it is in none. */
static inline size_t ss_slot_of(const ss_site *site, int token) {
    size_t slot = site->tokens ? 0 : (size_t)token;
    while (slot < site->keys && ss_token_of(site, slot) != token) slot++;
    return slot < site->keys ? slot : site->keys;
}

/* Every edit that acts at the site's place, in their order. */
void ss_edits_apply(const ss_site *site);

/* The same, at no cost where there is none. */
static inline void ss_edits_at(unsigned place, ss_site site) {
    site.place = place;
    if (site.pass->places & place) ss_edits_apply(&site);
}

/* What the edit of these values keeps of its first tokens. */
float *ss_kept_of(const ss_site *site, const float *values);

/* True where a parameter that may stand for all of them holds for this one. */
bool ss_edit_holds(float wanted, int index);

/* What the rows of the table apply. */
#define SS_APPLY(name) void ss_apply_##name(const ss_site *site, const float *values)
#define SS_CHECK(name)                                                                             \
    ss_status ss_check_##name(const ss_pass *pass, const float *values, const char *where,         \
                              ss_error *err)

/* apply.c */
SS_APPLY(operation);
SS_CHECK(operation);
SS_APPLY(mask);
SS_APPLY(hide_key);
SS_APPLY(self_only);
SS_APPLY(scale_value);
SS_APPLY(silence);
SS_APPLY(park);
SS_APPLY(clamp_channel);
int ss_together_clamp_channel(const float *values);
size_t ss_keeps_clamp_channel(const float *values, const ss_arch *arch);
SS_APPLY(swap_positions);
SS_APPLY(scale_weight);
SS_CHECK(scale_weight);
/* True of a quantisation that leaves the weights as they are. */
bool ss_is_of_activations(const ss_edit *edit);
/* Weights are scaled or quantised: SS_BAD_REQUEST where an edit before does the other. */
SS_CHECK(weights);

/* evict.c */
SS_APPLY(evict);
SS_CHECK(evict);
/* True if these are the values of an eviction that places keys as they lie in the cache. */
bool ss_evict_turns(const float *values);
/* Keys that it leaves a group of heads at most, where it is of every head and decides query by
 * query; else 0. */
int ss_evict_keeps(const float *values, const ss_arch *arch);
int ss_idle_evict(const float *values);
/* What p first queries, whose weights another run has recorded, have made of the merit of keys. */
void ss_evict_catch_up(ss_pass *pass, const float *values, const ss_trace *from, int p);
/* True if it places those of all heads within the context. */
bool ss_evict_is_endless(const float *values, const ss_arch *arch);
/* Of group g of layer l, whose cache holds so many slots: those that a head still keeps move up. */
void ss_close_up(ss_pass *pass, int l, int g, int slots);

/* quantise.c */
SS_APPLY(quantise);
SS_CHECK(quantise);
int ss_together_quantise(const float *values);
size_t ss_keeps_quantise(const float *values, const ss_arch *arch);

#endif
