/* What a run with an eviction must know of it: its memory, its positions, and the keys it drops. */
#ifndef SS_RUN_EDITS_EVICT_H
#define SS_RUN_EDITS_EVICT_H

#include "../pass.h"

/* True if this edit is an eviction; the functions below read the values of one. */
bool ss_is_eviction(const ss_edit_kind *kind);

/* True if it places keys as they lie in the cache. */
bool ss_evict_moves_keys(const float *values);

/* Keys that it leaves a group of heads at most, where it is of every head and decides query by
 * query; else 0. */
int ss_evict_keeps(const float *values, const ss_arch *arch);

/* True if it places those of all heads within the context. */
bool ss_evict_is_endless(const float *values, const ss_arch *arch);

/* What p first queries, whose weights another run has recorded, have made of the merit of keys. */
void ss_evict_catch_up(ss_pass *pass, const float *values, const ss_trace *from, int p);

/* Of group g of layer l, whose cache holds so many slots: those that a head still keeps move up. */
void ss_close_up(ss_pass *pass, int l, int g, int slots);

#endif
