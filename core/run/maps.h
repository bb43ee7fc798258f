/*
 * Maps: the weights, or scores, of a head's queries over its keys, by rows.
 *
 * A run stores maps up to a budget. Beyond the budget, reading a row computes it from the stored
 * queries and keys, with the same bits as a stored map: memory grows with T, not with its square.
 * Recomputing reads the decisions of an eviction from the trace.
 */
#ifndef SS_RUN_MAPS_H
#define SS_RUN_MAPS_H

#include "run.h"
#include "statistics.h"

#define SS_FIELDS_MAPS (SS_BIT(SS_FIELD_SCORES) | SS_BIT(SS_FIELD_ATT))

/* Passes rows [t, t+n) of a map to a reader, in order, SS_MAP_ROWS at a time; `worker` is the index
 * of the calling thread in the pool. Call ss_map_link first if the trace has moved. */
void ss_map_read(const ss_trace *trace, ss_field_id field, int head, int t, int n, size_t worker,
                 ss_map_reader *reader, void *context);

/* Links the pass that computes maps to the trace, since the caller may have copied the ss_run. */
void ss_map_link(const ss_trace *trace);

/* Returns the threads that may read different heads' maps at once; NULL: the caller's. */
ss_pool *ss_map_pool(const ss_trace *trace);

/* Writes rows [t, t+n) of the map of head h in layer l, SS_FIELD_ATT or SS_FIELD_SCORES, into
 * out[n][T], whether the run stores it or not. Returns SS_BAD_REQUEST if the field was not recorded
 * or an index is out of range. Takes O(n T K) if the rows are computed. */
ss_status ss_run_attention(ss_run *run, ss_field_id field, int l, int h, int t, int n, float *out,
                           ss_error *err);

/* Returns the number of blocks of b tokens; the last block may have fewer tokens. */
static inline int ss_blocks_of(const ss_trace *trace, int b) {
    return (trace->T + b - 1) / b;
}

/* Pools a map into blocks of b x b cells, P = ss_blocks_of per side, out[2][P][P]: the mean and the
 * largest of the cells that the mask shows; 0 for blocks without such cells. b is 1 .. T. */
ss_status ss_run_pooled(ss_run *run, ss_field_id field, int l, int h, int b, float *out,
                        ss_error *err);

/* Extends groups of statistics of every head to the first T queries by reading the missing rows. */
void ss_statistics_compute(const ss_trace *trace, unsigned groups, int T);

#endif
