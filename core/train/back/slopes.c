#include "slopes.h"

#include "../../math/kernels.h"
#include "../../math/scalar.h"

/* ss_expf between its limits, and its value at the nearest of them beyond: no branch. */
static inline float bounded_exp(float x) {
    x = x < SS_EXP_LOW ? SS_EXP_LOW : x;
    x = x > SS_EXP_HIGH ? SS_EXP_HIGH : x;
    return ss_exp_inside(x);
}

static inline float bounded_sigmoid(float x) {
    return 1.0f / (1.0f + bounded_exp(-x));
}

/* x s(x): s + x s (1 - s). */
static void silu_back(float *x, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float s = bounded_sigmoid(x[i]);
        d[i] *= s + x[i] * s * (1.0f - s);
        x[i] *= s;
    }
}

/* x s(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3): s + x s (1 - s) u'. */
static void gelu_tanh_back(float *x, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        float s = bounded_sigmoid(1.59576912f * (x[i] + 0.044715f * square * x[i]));
        float slope = 1.59576912f * (1.0f + 0.134145f * square);
        d[i] *= s + x[i] * s * (1.0f - s) * slope;
        x[i] *= s;
    }
}

/* x Phi(x): Phi + x phi, with the upper tail of ss_gelu_erff; 1 / sqrt(2 pi) = 0.398942280. */
static void gelu_back(float *x, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float u = fabsf(x[i]);
        float t = 1.0f / (1.0f + SS_GELU_P * u);
        float p = SS_GELU_C7 * t + SS_GELU_C6;
        p = p * t + SS_GELU_C5;
        p = p * t + SS_GELU_C4;
        p = p * t + SS_GELU_C3;
        p = p * t + SS_GELU_C2;
        p = p * t + SS_GELU_C1;
        float bell = bounded_exp(u * u * -0.5f), tail = p * t * bell;
        float below = x[i] > 0.0f ? 1.0f - tail : tail;
        d[i] *= below + x[i] * (0.398942280f * bell);
        x[i] *= below;
    }
}

static void relu_back(float *x, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        d[i] = x[i] > 0.0f ? d[i] : 0.0f;
        x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}

static void (*const slopes[SS_ACTIVATION_N])(float *x, float *d, size_t n) = {
    [SS_ACTIVATION_SILU] = silu_back,
    [SS_ACTIVATION_GELU_TANH] = gelu_tanh_back,
    [SS_ACTIVATION_GELU] = gelu_back,
    [SS_ACTIVATION_RELU] = relu_back,
};

bool ss_has_slope(ss_activation activation) {
    return slopes[activation] != NULL;
}

void ss_activation_back(float *x, float *d, ss_activation activation, size_t n) {
    slopes[activation](x, d, n);
}

/*
 * With u = (x - m) r of unit variance and e = d gain, dx = r (e - mean(e) - u mean(e u)); an RMS
 * norm has m = 0 and keeps the mean of e.
 */
static void row_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums,
                     ss_norm_kind kind, float eps, size_t width) {
    float *gain_sum = (float *)(size_t)sums->gain, *bias_sum = (float *)(size_t)sums->bias;
    float n = (float)width, mean = kind == SS_NORM_LAYER ? ss_sum(x, width) / n : 0.0f;
    for (size_t i = 0; i < width; i++) x[i] -= mean;
    float r = 1.0f / sqrtf(ss_dot(x, x, width) / n + eps);
    ss_scale(x, r, width);
    if (bias_sum) ss_add(bias_sum, d, width);
    for (size_t i = 0; i < width; i++) {
        gain_sum[i] += d[i] * x[i];
        d[i] *= norm->gain[i];
    }
    float shift = kind == SS_NORM_LAYER ? ss_sum(d, width) / n : 0.0f;
    float along = ss_dot(d, x, width) / n;
    for (size_t i = 0; i < width; i++) d[i] = r * (d[i] - shift - x[i] * along);
}

void ss_norm_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums, ss_norm_kind kind,
                  float eps, size_t n, size_t width) {
    for (size_t t = 0; t < n; t++)
        row_back(d + t * width, x + t * width, norm, sums, kind, eps, width);
}
