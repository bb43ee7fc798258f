/*
 * Derivatives of the attention operations, one for each row function of operation.c: they turn the
 * gradient with respect to the weights into the gradient with respect to the scores. Private to the
 * table.
 *
 * d has n numbers: on entry the gradient with respect to the weights, on return that with respect
 * to the scores. x are the scores, w the weights that the row function computed from x. The
 * functions return the gradient with respect to parameters[0] if a model may learn it (sink_logit),
 * else 0.
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
