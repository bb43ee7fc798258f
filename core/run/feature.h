/* Feature maps of queries and keys, and distance terms of scores. Private to run/. */
#ifndef SS_RUN_FEATURE_H
#define SS_RUN_FEATURE_H

#include "pass.h"

void ss_map_features(ss_pass *pass, int a, ss_feature feature, float *rows, size_t n);

/* Adds the distance term to x[n], the scores of query t for keys 0..n-1 in head h: ALiBi's slope
 * times the distance, or the relative bucket. Keys after the query have distance 0. */
void ss_add_distances(float *x, size_t n, const ss_arch *arch, int h, int t,
                      const int32_t *positions);

#endif
