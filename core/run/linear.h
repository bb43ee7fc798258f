/* Products of rows with a layer's weights or with a factor. Private to run/. */
#ifndef SS_RUN_LINEAR_H
#define SS_RUN_LINEAR_H

#include "../math/kernels.h"
#include "edits/hook.h"

static inline void ss_apply_factor(float *x, float factor, size_t n) {
    if (factor < 1.0f || factor > 1.0f) ss_scale(x, factor, n);
}

/* Computes out[n][out] = in[n][in] w + b; out may be in if both have the same width. */
static inline void ss_linear_rows(ss_pass *pass, float *out, const float *in,
                                  const ss_linear *linear, size_t n) {
    ss_matrix_times(out, in, &linear->w, linear->bias, n, pass->work, pass->pool);
    ss_edits_apply_at(SS_AT_PRODUCT, (ss_hook){.pass = pass,
                                               .n = (int)n,
                                               .rows = out,
                                               .heads = 1,
                                               .width = linear->w.out,
                                               .in = in,
                                               .linear = linear});
}

#endif
