/*
 * Row statistics: sums over the rows and columns of a map, gathered while each row is read once.
 *
 * A map is the largest part of a trace, and most metrics need only such sums. The rows of a head
 * are added in the order of their queries, whether they come from the pass, from a stored map, or
 * are computed again (maps.h): the bits are the same. A measuring run keeps only sums over maps and
 * queries, norms and spectra.
 */
#ifndef SS_RUN_STATISTICS_H
#define SS_RUN_STATISTICS_H

#include "trace.h"

/* Number of rows that are read together: four register tiles of five rows (SS_TILE). */
#define SS_MAP_ROWS 20

/* Reads rows x[n] of queries [t, t+n), `stride` numbers apart; ss_row_end gives the end of each. */
typedef void ss_map_reader(void *context, int t, int n, const float *x, size_t stride);

/* Adds rows x[n] of queries [t, t+n) of a head, `stride` numbers apart, to each of `groups` that
 * has read exactly the queries before t. T is the number of tokens that the queries may see. */
void ss_statistics_add(const ss_trace *trace, unsigned groups, int head, int t, int n, int T,
                       const float *x, size_t stride);

/* Adds query vectors q[n] of tokens [t, t+n) to SS_STATISTIC_COSINES; keys are in the trace. */
void ss_statistics_add_queries(const ss_trace *trace, int head, int t, int n, int T, const float *q,
                               size_t stride);

/* Adds the recorded queries [0, T) of a head in place of those that were added. */
void ss_statistics_add_recorded_queries(const ss_trace *trace, int head, int T);

/* Computes the norms of rows[n], `stride` numbers apart, for tokens [t, t+n) of row `row` of the
 * field, in a measuring run that keeps norms of the field. */
void ss_statistics_add_norms(const ss_trace *trace, ss_field_id field, int row, int t, int n,
                             const float *rows, size_t stride);

/* Stores the matrix entropy of h[T] after `layer` layers, if the measuring run has SS_SPECTRA. */
void ss_statistics_add_spectrum(ss_trace *trace, int layer, const float *h, int T);

/* Returns the groups of map statistics that can be computed from what the trace stores; 0 if it has
 * no room for statistics. */
unsigned ss_available_statistics(const ss_trace *trace);

/* Reset statistics: ss_statistics_clear all of them, ss_statistics_rewind the groups of a head that
 * have read more than n rows. */
void ss_statistics_clear(const ss_trace *trace);
void ss_statistics_rewind(const ss_trace *trace, int n);

/* Returns true if groups have read exactly the first T tokens in every head. */
bool ss_statistics_are_complete(const ss_trace *trace, unsigned groups, int T);

/* Returns how many first queries all groups have read in a head. If their numbers differ, all of
 * them begin again. */
int ss_statistics_align(const ss_trace *trace, unsigned groups, int head, int T);

/* Returns the norm of what key j contributes: |v_j|, or |W_O v_j| for SS_FIELD_OUT_NORM. */
float ss_key_length(const ss_trace *trace, ss_field_id field, int head, int j);

/* Returns the norm of a field's vector in row `row` at token t: the norm that the trace keeps, or
 * one computed from the vector. */
float ss_norm_of(const ss_trace *trace, ss_field_id field, int row, int t);

/* Returns the end of the keys that query t may see; a mask or an edit may hide earlier keys. */
static inline int ss_row_end(const ss_trace *trace, int head, int t) {
    return ss_mask_end(&trace->choices[head].mask, t, trace->T);
}

/* Returns the weight of the bias key for query t; 0 without a bias key. */
static inline float ss_bias_weight(const ss_trace *trace, int head, int t) {
    const float *weight = ss_row(trace, SS_FIELD_ATT_BIAS, head, t);
    return weight ? *weight : 0.0f;
}

static inline size_t ss_statistic_index(const ss_trace *trace, int head, int i) {
    return (size_t)head * (size_t)trace->capacity + (size_t)i;
}

#endif
