#include "slopes.h"

#include "../../math/kernels.h"
#include "../../math/scalar.h"

/* Number of values that kernels process at a time, on the stack. */
enum { CHUNK = 64 };

/* Multiplies d by the derivative of SiLU, x s(x), which is s + x s (1 - s). */
static void silu_back(float *x, float *d, float *s, size_t n) {
    ss_sigmoid(s, x, 0.0f, n);
    for (size_t i = 0; i < n; i++) {
        d[i] *= s[i] + x[i] * s[i] * (1.0f - s[i]);
        x[i] *= s[i];
    }
}

/* Multiplies d by the derivative of GELU, tanh form: x s(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3),
 * has the derivative s + x s (1 - s) u'. */
static void gelu_tanh_back(float *x, float *d, float *s, size_t n) {
    for (size_t i = 0; i < n; i++) s[i] = 1.59576912f * (x[i] + 0.044715f * (x[i] * x[i]) * x[i]);
    ss_sigmoid(s, s, 0.0f, n);
    for (size_t i = 0; i < n; i++) {
        float slope = 1.59576912f * (1.0f + 0.134145f * (x[i] * x[i]));
        d[i] *= s[i] + x[i] * s[i] * (1.0f - s[i]) * slope;
        x[i] *= s[i];
    }
}

/* Multiplies d by the derivative of exact GELU: x Phi(x) has the derivative Phi + x phi, where the
 * upper tail of ss_gelu_erff gives Phi; 1 / sqrt(2 pi) = 0.398942280. */
static void gelu_back(float *x, float *d, float *bell, size_t n) {
    for (size_t i = 0; i < n; i++) bell[i] = x[i] * x[i] * -0.5f;
    ss_exp(bell, bell, 0.0f, n);
    for (size_t i = 0; i < n; i++) {
        float tail = ss_gelu_tail(fabsf(x[i])) * bell[i];
        float probability = x[i] > 0.0f ? 1.0f - tail : tail;
        d[i] *= probability + x[i] * (0.398942280f * bell[i]);
        x[i] *= probability;
    }
}

static void relu_back(float *x, float *d, float *scratch, size_t n) {
    (void)scratch;
    for (size_t i = 0; i < n; i++) {
        d[i] = x[i] > 0.0f ? d[i] : 0.0f;
        x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}

static void (*const slopes[SS_ACTIVATION_N])(float *x, float *d, float *scratch, size_t n) = {
    [SS_ACTIVATION_SILU] = silu_back,
    [SS_ACTIVATION_GELU_TANH] = gelu_tanh_back,
    [SS_ACTIVATION_GELU] = gelu_back,
    [SS_ACTIVATION_RELU] = relu_back,
};

bool ss_has_slope(ss_activation activation) {
    return slopes[activation] != NULL;
}

void ss_activation_back(float *x, float *d, ss_activation activation, size_t n) {
    float scratch[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK)
        slopes[activation](x + i, d + i, scratch, n - i < CHUNK ? n - i : CHUNK);
}

/* Propagates d through the norm of one row x. With u = (x - m) r of unit variance and e = d gain,
 * dx = r (e - mean(e) - u mean(e u)). For an RMS norm m is 0, and mean(e) is not subtracted. */
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
    float projection = ss_dot(d, x, width) / n;
    for (size_t i = 0; i < width; i++) d[i] = r * (d[i] - shift - x[i] * projection);
}

void ss_norm_back(float *d, float *x, const ss_norm *norm, const ss_norm *sums, ss_norm_kind kind,
                  float eps, size_t n, size_t width) {
    for (size_t t = 0; t < n; t++)
        row_back(d + t * width, x + t * width, norm, sums, kind, eps, width);
}
