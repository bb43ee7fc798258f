/* The properties of evictions that a run depends on: their memory, the positions of keys, and
 * the keys that a streaming run drops. */
#ifndef SS_RUN_EDITS_EVICT_H
#define SS_RUN_EDITS_EVICT_H

#include "../pass.h"

/* Returns true if the row is an eviction; the functions below read an eviction's values. */
bool ss_is_eviction(const ss_edit_kind *kind);

/* Returns true if the eviction sets the positions of keys to their index in the cache. */
bool ss_evict_moves_keys(const float *values);

/* Returns the largest number of keys that the eviction leaves to a group of heads, if it covers
 * every head and decides query by query; else 0. */
int ss_eviction_key_bound(const float *values, const ss_arch *arch);

/* Returns true if the positions of all keys stay within the context under this eviction, however
 * long the text. */
bool ss_evict_is_endless(const float *values, const ss_arch *arch);

/* Returns the even share of a row of weights: the mean of their sizes, without those that are 0. A
 * query uses the keys to which it gives more. */
float ss_even_share(const float *row, size_t keys);

void ss_evict_reset(ss_pass *pass);

/* Adds the weights of the first p queries, which `source` has recorded, to the eviction scores. */
void ss_evict_replay(ss_pass *pass, const float *values, const ss_trace *source, int p);

/* Compacts the first `slots` slots of group g in attention layer a: the keys that a head still
 * keeps move to the front. */
void ss_cache_compact(ss_pass *pass, int a, int g, int slots);

#endif
