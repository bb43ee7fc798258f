/* The hook points of the forward pass, where edits act, and the data that edits see there.
 * Private to run/. */
#ifndef SS_RUN_EDITS_HOOK_H
#define SS_RUN_EDITS_HOOK_H

#include "../pass.h"

typedef struct ss_hook {
    ss_pass *pass;
    ss_scratch *scratch;
    unsigned point; /* SS_AT_... */
    int l, a;       /* l: layer; a: its index among those with attention, for points in attention */
    int h;          /* query head, for hook points of one query */
    int t, n;       /* rows [t, t+n) */
    float *rows;    /* [n][heads][width] */
    size_t heads, width;
    size_t keys; /* number of slots that the query may see */
    int query_slot;
    bool is_recomputed;    /* a map is being recomputed: edits reuse the decisions of the pass */
    const int32_t *tokens; /* [keys] token in each slot; NULL: slot j holds token j */
    const unsigned char *visible; /* [keys] 1 for a visible key; NULL: all are visible */
    const float *q;               /* [K] */
    float *bias;                  /* score or weight of the bias key, or NULL */
    const float *in;              /* [n][linear->w.in] */
    const ss_linear *linear;
    float *numbers; /* the numbers that the edit keeps from its first tokens */
} ss_hook;

static inline int ss_token_of(const ss_hook *hook, size_t slot) {
    return hook->tokens ? hook->tokens[slot] : (int)slot;
}

/* Returns the slot of a token's key among those that a query may see, or hook->keys. */
static inline size_t ss_slot_of(const ss_hook *hook, int token) {
    size_t slot = hook->tokens ? 0 : (size_t)token;
    while (slot < hook->keys && ss_token_of(hook, slot) != token) slot++;
    return slot < hook->keys ? slot : hook->keys;
}

/* Applies every edit that acts at the hook's point, in the order of the list. */
void ss_edits_apply(ss_hook *hook);

/* Calls ss_edits_apply, at no cost if no edit acts at the point. */
static inline void ss_edits_apply_at(unsigned point, ss_hook hook) {
    hook.point = point;
    if (hook.pass->hook_points & point) ss_edits_apply(&hook);
}

/* Returns true if `selection`, the layer, head or token of an edit, is `index` or NaN (all). */
bool ss_edit_selects(float selection, int index);

/* Returns SS_BAD_REQUEST if `layer`, among all layers, has no attention; NaN means all. */
ss_status ss_edit_check_attention(const ss_arch *arch, float layer, const char *where,
                                  ss_error *err);

#endif
