/*
 * Row statistics: sums over the rows and columns of a map, gathered while each row is read once.
 *
 * A map is the largest part of a trace, and most metrics need only such sums. The rows of a head
 * are added in the order of their queries, whether they come from the pass, from a stored map, or
 * are computed again (maps.h): the bits are the same. A measuring run keeps only these sums, those
 * over its queries, norms and spectra.
 */
#ifndef SS_RUN_STATISTICS_H
#define SS_RUN_STATISTICS_H

#include "trace.h"

/*
 * Adds rows x[n] of queries [t, t+n) of a head, `stride` numbers apart, to each of `groups` that
 * has exactly the rows of the queries before t. T: tokens that the queries may see.
 */
void ss_statistics_add(const ss_trace *trace, unsigned groups, int head, int t, int n, int T,
                       const float *x, size_t stride);

/* Adds query vectors q[n] of tokens [t, t+n) of a head to SS_OF_COSINES; their keys are in the
 * trace. */
void ss_statistics_add_queries(const ss_trace *trace, int head, int t, int n, int T, const float *q,
                               size_t stride);

/* If a measuring run sums the field, keeps the norms of rows[n] of `width` numbers, `stride`
 * numbers apart: those of tokens [t, t+n) of its row `row`. */
void ss_statistics_add_norms(const ss_trace *trace, ss_field_id field, int row, int t, int n,
                             const float *rows, size_t stride, size_t width);

/* If a measuring run accumulates spectra, keeps that of the states h[T] after `layer` layers. */
void ss_statistics_add_spectrum(ss_trace *trace, int layer, const float *h, int T);

/* Groups of maps that the trace's fields suffice for. */
unsigned ss_statistics_of(const ss_trace *trace);

/* Resets all heads, or those whose groups have more than n rows. */
void ss_statistics_clear(const ss_trace *trace);
void ss_statistics_rewind(const ss_trace *trace, int n);

/* True if groups have exactly the first T tokens in every head. */
bool ss_statistics_are_found(const ss_trace *trace, unsigned groups, int T);

/* Brings groups of every head to the first T queries by reading the missing rows. */
void ss_statistics_find(const ss_trace *trace, unsigned groups, int T);

/* Norm of what key j contributes: |v_j|, or |W_O v_j| for SS_FIELD_OUT_NORM. */
float ss_key_length(const ss_trace *trace, ss_field_id field, int head, int j);

/* The norm of a field's vector of `width` numbers in row `row` at token t: the kept one, or
 * computed from the vector. */
float ss_norm_of(const ss_trace *trace, ss_field_id field, int row, int t, int width);

/* End of the keys that query t may see; a mask or an edit may hide earlier ones. */
static inline int ss_row_end(const ss_trace *trace, int head, int t) {
    return ss_mask_end(&trace->choices[head].mask, t, trace->T);
}

/* Weight of the bias key in that row; 0 without a bias key. */
static inline float ss_bias_weight(const ss_trace *trace, int head, int t) {
    const float *weight = ss_row(trace, SS_FIELD_ATT_BIAS, head, t);
    return weight ? *weight : 0.0f;
}

/* Index of the statistic of query or key i of a head. */
static inline size_t ss_statistic_at(const ss_trace *trace, int head, int i) {
    return (size_t)head * (size_t)trace->capacity + (size_t)i;
}

#endif
