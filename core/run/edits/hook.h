/* The hook points of the forward pass: where edits act, and what they are shown there. Private to
 * run/. */
#ifndef SS_RUN_EDITS_HOOK_H
#define SS_RUN_EDITS_HOOK_H

#include "../pass.h"

typedef struct ss_hook {
    ss_pass *pass;
    ss_scratch *scratch; /* at hook points of one query */
    unsigned point;      /* SS_AT_... */
    int l, h;            /* layer; query head, at hook points of one */
    int t, n;            /* rows [t, t+n) */
    float *rows;         /* [n][heads][width] */
    size_t heads, width;
    size_t keys;                  /* slots that the query may see end here */
    int own;                      /* the slot of the query's own key */
    bool again;                   /* the pass has been here: edits see what they decided then */
    const int32_t *tokens;        /* [keys] the token of each slot; NULL: slot j is token j's */
    const unsigned char *visible; /* [keys] 1 for a key that the query sees; NULL: it sees all */
    const float *q;               /* [K] */
    float *bias;                  /* score or weight of the bias key, or NULL */
    const float *in;              /* [n][linear->w.in] */
    const ss_linear *linear;
} ss_hook;

/* The token whose key a slot holds. */
static inline int ss_token_of(const ss_hook *hook, size_t slot) {
    return hook->tokens ? hook->tokens[slot] : (int)slot;
}

/* The slot of a token's key among those that a query may see; hook->keys where no slot holds it. */
static inline size_t ss_slot_of(const ss_hook *hook, int token) {
    size_t slot = hook->tokens ? 0 : (size_t)token;
    while (slot < hook->keys && ss_token_of(hook, slot) != token) slot++;
    return slot < hook->keys ? slot : hook->keys;
}

/* Applies every edit that acts at the hook's point, in their order. */
void ss_edits_apply(const ss_hook *hook);

/* The same, at no cost where no edit acts. */
static inline void ss_edits_at(unsigned point, ss_hook hook) {
    hook.point = point;
    if (hook.pass->hook_points & point) ss_edits_apply(&hook);
}

/* What the edit of these values keeps of its first tokens. */
float *ss_kept_of(const ss_hook *hook, const float *values);

/* True where a layer, head or token that an edit names, or all of them, is this one. */
bool ss_edit_holds(float wanted, int index);

#endif
