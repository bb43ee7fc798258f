/* Feature maps and positions of attention: what lies between q, k and the scores. Private to
 * run/. */
#ifndef SS_RUN_FEATURE_H
#define SS_RUN_FEATURE_H

#include "pass.h"

/* rows[n][K] of layer l become phi(rows), in place. */
void ss_map_features(ss_pass *pass, int l, ss_feature feature, float *rows, size_t n);

/*
 * Adds to x[n], the scores of query t for keys 0..n-1 in head h, what their distance is worth:
 * ALiBi's slope or the relative bucket. Keys after the query have distance 0.
 */
void ss_add_distances(float *x, size_t n, const ss_arch *arch, int h, int t,
                      const int32_t *positions);

#endif
