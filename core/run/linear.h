/* A product with a layer's weights, in the run's working memory. Private to run/. */
#ifndef SS_RUN_LINEAR_H
#define SS_RUN_LINEAR_H

#include "run.h"

/* out[n][out] = in[n][in] w + b; out may be in, where both are as wide. */
static inline void ss_linear_rows(ss_run *run, float *out, const float *in, const ss_linear *linear,
                                  size_t n) {
    ss_matrix_times(out, in, &linear->w, linear->bias, n, run->scratch.work);
}

#endif
