/*
 * Maps: the weights, or scores, of a head's queries over its keys, by rows.
 *
 * A run stores them up to a budget. Beyond it the rows are computed when they are read, from the
 * queries and keys that it keeps, to the bits of a stored map: memory grows with T, not with its
 * square. An edit that decides query by query (an eviction) is not asked again, since the trace has
 * recorded what it decided.
 */
#ifndef SS_RUN_MAPS_H
#define SS_RUN_MAPS_H

#include "run.h"

/* Fields that are maps. */
#define SS_FIELDS_MAPS (SS_BIT(SS_FIELD_SCORES) | SS_BIT(SS_FIELD_ATT))

/* Rows that are read together. */
#define SS_MAP_ROWS 20

/* Reads rows x[n] of queries [t, t+n), `stride` numbers apart; each ends where ss_row_end says. */
typedef void ss_map_reader(void *context, int t, int n, const float *x, size_t stride);

/* Shows a reader rows [t, t+n) of a map, SS_MAP_ROWS at a time, in order; `worker` is of the pool.
 * The trace must have been linked since it was last moved. */
void ss_map_read(const ss_trace *trace, ss_field_id field, int head, int t, int n, size_t worker,
                 ss_map_reader *read, void *context);

/* Links the pass that computes maps to its trace: the caller may have copied the ss_run. */
void ss_map_link(const ss_trace *trace);

/* The threads that may read the maps of different heads at a time; NULL: the caller's alone. */
ss_pool *ss_map_pool(const ss_trace *trace);

/*
 * Rows [t, t+n) of the map of head h in layer l, of SS_FIELD_ATT or SS_FIELD_SCORES, into
 * out[n][T], stored or not. SS_BAD_REQUEST if the field was not recorded or an index is out of
 * range. Time O(n T K) where the rows are computed.
 */
ss_status ss_run_attention(ss_run *run, ss_field_id field, int l, int h, int t, int n, float *out,
                           ss_error *err);

/* Blocks of b tokens, the last of which may have fewer. */
static inline int ss_blocks_of(const ss_trace *trace, int b) {
    return (trace->T + b - 1) / b;
}

/*
 * A whole map as blocks of b x b cells, P = ss_blocks_of a side, into out[2][P][P]: the mean and
 * the largest of the cells that the mask shows to the queries; 0 where it shows none. b is 1 .. T.
 */
ss_status ss_run_pooled(ss_run *run, ss_field_id field, int l, int h, int b, float *out,
                        ss_error *err);

#endif
