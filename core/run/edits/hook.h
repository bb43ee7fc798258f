/* Where the forward pass lets edits act, and what it shows them there. Private to run/. */
#ifndef SS_RUN_EDITS_HOOK_H
#define SS_RUN_EDITS_HOOK_H

#include "../pass.h"

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

#endif
