/* What a run with an eviction must know of it: its memory, its positions, and the keys it drops. */
#ifndef SS_RUN_EDITS_EVICT_H
#define SS_RUN_EDITS_EVICT_H

#include "../pass.h"

/* True if a row of the table is an eviction; the functions below read the values of one. */
bool ss_is_eviction(const ss_edit_kind *kind);

/* True if it places keys as they lie in the cache. */
bool ss_evict_moves_keys(const float *values);

/* Keys that it leaves a group of heads at most, where it is of every head and decides query by
 * query; else 0. */
int ss_evict_keeps(const float *values, const ss_arch *arch);

/* True if it places those of all heads within the context. */
bool ss_evict_is_endless(const float *values, const ss_arch *arch);

/* No key is evicted; of a run that streams no slot is filled. */
void ss_evict_none(ss_pass *pass);

/* Brings the eviction scores up to date with p first queries, whose weights `from` has recorded. */
void ss_evict_catch_up(ss_pass *pass, const float *values, const ss_trace *from, int p);

/* Moves the keys that a head of group g in layer l still keeps to the first of so many slots. */
void ss_cache_compact(ss_pass *pass, int l, int g, int slots);

#endif
