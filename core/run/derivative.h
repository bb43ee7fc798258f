/*
 * Derivatives of the attention operations, one for each row function of operation.c: they carry the
 * gradient from the weights to the scores. Private to the table.
 *
 * d: n numbers, the gradient by the weights on entry, by the scores on return. x: the scores; w:
 * the weights that the row function computed from them. Returns the gradient by parameters[0] if a
 * model may learn it (sink_logit), else 0.
 */
#ifndef SS_RUN_DERIVATIVE_H
#define SS_RUN_DERIVATIVE_H

#include <stddef.h>

#define SS_BACK_ARGS float *d, const float *x, const float *w, size_t n, const float *parameters

float ss_softmax_back(SS_BACK_ARGS);
float ss_sink_logit_back(SS_BACK_ARGS);
float ss_sigmoid_back(SS_BACK_ARGS);
float ss_sigmoid_norm_back(SS_BACK_ARGS);
float ss_relu_back(SS_BACK_ARGS);
float ss_elu1_back(SS_BACK_ARGS);
float ss_elu1_norm_back(SS_BACK_ARGS);
float ss_identity_back(SS_BACK_ARGS);
float ss_share_back(SS_BACK_ARGS);
float ss_share_of_at_least_1_back(SS_BACK_ARGS);
float ss_softmax_scaled_back(SS_BACK_ARGS);
float ss_softmax_p_back(SS_BACK_ARGS);
float ss_softpick_back(SS_BACK_ARGS);
float ss_softmax_clipped_back(SS_BACK_ARGS);

#endif
