#include "derivative.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "operation.h"

/* Propagates through softmax. The formula also holds with one more key of fixed score that has no
 * value: the term of this key in sum d w is 0. */
float ss_softmax_back(SS_BACK_ARGS) {
    (void)x, (void)parameters;
    float mean = ss_dot(d, w, n);
    for (size_t j = 0; j < n; j++) d[j] = w[j] * (d[j] - mean);
    return 0.0f;
}

/* Propagates through softmax with a sink logit. The sink is one more key: its weight is 1 minus the
 * row's sum, and its value is 0. */
float ss_sink_logit_back(SS_BACK_ARGS) {
    float mean = ss_dot(d, w, n);
    ss_softmax_back(d, x, w, n, parameters);
    return -(1.0f - ss_sum(w, n)) * mean;
}

float ss_sigmoid_back(SS_BACK_ARGS) {
    (void)x, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] *= w[j] * (1.0f - w[j]);
    return 0.0f;
}

/* Computes the derivative of a share, w_j = u_j / (sum u + guard): d u_j = (d_j - sum d w) / (sum u
 * + guard). */
static void share_back(float *d, const float *w, size_t n, float sum) {
    float mean = ss_dot(d, w, n), inverse = 1.0f / (sum + SS_PROXY_GUARD);
    for (size_t j = 0; j < n; j++) d[j] = (d[j] - mean) * inverse;
}

float ss_sigmoid_norm_back(SS_BACK_ARGS) {
    (void)parameters;
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += ss_sigmoidf(x[j]);
    share_back(d, w, n, sum);
    for (size_t j = 0; j < n; j++) {
        float u = ss_sigmoidf(x[j]);
        d[j] *= u * (1.0f - u);
    }
    return 0.0f;
}

float ss_relu_back(SS_BACK_ARGS) {
    (void)w, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] = x[j] > 0.0f ? d[j] / (float)n : 0.0f;
    return 0.0f;
}

/* Propagates through elu(x) + 1. Where x is below 0, the derivative e^x is the weight itself; above
 * 0 the derivative is 1, and the weight exceeds 1. */
float ss_elu1_back(SS_BACK_ARGS) {
    (void)x, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] *= w[j] < 1.0f ? w[j] : 1.0f;
    return 0.0f;
}

float ss_elu1_norm_back(SS_BACK_ARGS) {
    (void)parameters;
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += x[j] > 0.0f ? x[j] + 1.0f : ss_expf(x[j]);
    share_back(d, w, n, sum);
    for (size_t j = 0; j < n; j++)
        if (!(x[j] > 0.0f)) d[j] *= ss_expf(x[j]);
    return 0.0f;
}

float ss_identity_back(SS_BACK_ARGS) {
    (void)d, (void)x, (void)w, (void)n, (void)parameters;
    return 0.0f;
}

float ss_share_back(SS_BACK_ARGS) {
    (void)parameters;
    share_back(d, w, n, ss_sum(x, n));
    return 0.0f;
}

/* Propagates through w_j = x_j / max(|sum x|, 1). Where |sum x| exceeds 1, its derivative is the
 * sign of the sum; elsewhere the weights are the scores. */
float ss_share_of_at_least_1_back(SS_BACK_ARGS) {
    (void)parameters;
    float sum = ss_sum(x, n), magnitude = fabsf(sum);
    if (magnitude > 1.0f) {
        float shift = ss_dot(d, w, n) * (sum < 0.0f ? -1.0f : 1.0f);
        for (size_t j = 0; j < n; j++) d[j] = (d[j] - shift) / magnitude;
    }
    return 0.0f;
}

/* Propagates through softmax times a factor: w = a p with p the softmax, so dx_j = a p_j (d_j - sum
 * d p). */
float ss_softmax_scaled_back(SS_BACK_ARGS) {
    (void)x;
    float a = parameters[0], mean = a == 0.0f ? 0.0f : ss_dot(d, w, n) / a;
    for (size_t j = 0; j < n; j++) d[j] = w[j] * (d[j] - mean);
    return 0.0f;
}

/* Propagates through softmax with a p-norm: w_j = e^x_j / (sum e^px)^(1/p), so dw_j/dx_i = w_j ([i
 * = j] - w_i^p). */
float ss_softmax_p_back(SS_BACK_ARGS) {
    float p = parameters[0], top = ss_max(x, n), sum = 0.0f, total = ss_dot(d, w, n);
    for (size_t j = 0; j < n; j++) sum += ss_expf((x[j] - top) * p);
    for (size_t j = 0; j < n; j++) d[j] = w[j] * d[j] - ss_expf((x[j] - top) * p) / sum * total;
    return 0.0f;
}

/* Propagates through softpick: with a_j = e^x_j - 1 and S = sum |a| + eps, dx_j = e^x_j ([a_j > 0]
 * d_j - sign(a_j) sum d w) / S. */
float ss_softpick_back(SS_BACK_ARGS) {
    float top = ss_max(x, n), sum = 0.0f, total = ss_dot(d, w, n);
    top = top > 0.0f ? top : 0.0f;
    float one = ss_expf(-top);
    for (size_t j = 0; j < n; j++) sum += fabsf(ss_expf(x[j] - top) - one);
    sum += parameters[0] * one;
    for (size_t j = 0; j < n; j++) {
        float e = ss_expf(x[j] - top), a = e - one;
        float sign = a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f;
        d[j] = e * ((a > 0.0f ? d[j] : 0.0f) - sign * total) / sum;
    }
    return 0.0f;
}

/* Propagates through clipped softmax. A clipped weight has derivative 0, but its score still enters
 * the sum of the other weights. */
float ss_softmax_clipped_back(SS_BACK_ARGS) {
    float zeta = parameters[0], gamma = parameters[1], mean = 0.0f;
    float top = ss_max(x, n), sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += ss_expf(x[j] - top);
    for (size_t j = 0; j < n; j++) {
        d[j] = w[j] > 0.0f && w[j] < 1.0f ? d[j] * (zeta - gamma) : 0.0f;
        mean += d[j] * (ss_expf(x[j] - top) / sum);
    }
    for (size_t j = 0; j < n; j++) d[j] = ss_expf(x[j] - top) / sum * (d[j] - mean);
    return 0.0f;
}
