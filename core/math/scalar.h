/*
 * Scalar functions: one definition for native and wasm, so that both give the same bits.
 *
 * The functions use only IEEE operations that round once (+ - * / sqrt, comparisons), in a fixed
 * order, and no libm. The vector kernels repeat the functions of floats lane by lane, operation by
 * operation.
 */
#ifndef SS_MATH_SCALAR_H
#define SS_MATH_SCALAR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t ss_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float ss_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t ss_bits_of_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ss_double_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 1.5 * 2^23: the sum of a float below 2^22 and this number has the float, rounded to even, in its
 * lowest bits. */
#define SS_ROUNDING 12582912.0f

/* Constants of ss_expf: e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2)/2. SS_ROUNDING
 * leaves n in the low bits. ln 2 is subtracted in two parts; the first has so few bits that its
 * product with n is exact. e^r is its Taylor sum to r^7/7!; the remainder is below 0.35^8/8! =
 * 5e-9. Beyond the limits the result is 0 or infinity, without subnormals. */
#define SS_EXP_LOW (-87.0f)
#define SS_EXP_HIGH 88.0f
#define SS_LOG2_E 1.44269504f
#define SS_LN2_HIGH 0.693145752f /* 0x1.62e4p-1 */
#define SS_LN2_LOW 1.42860677e-6f
#define SS_EXP_C7 (1.0f / 5040.0f)
#define SS_EXP_C6 (1.0f / 720.0f)
#define SS_EXP_C5 (1.0f / 120.0f)
#define SS_EXP_C4 (1.0f / 24.0f)
#define SS_EXP_C3 (1.0f / 6.0f)

static inline float ss_expf(float x) {
    if (x < SS_EXP_LOW) return 0.0f;
    if (x > SS_EXP_HIGH) return INFINITY;
    float shifted = x * SS_LOG2_E + SS_ROUNDING;
    float n = shifted - SS_ROUNDING;
    float r = x - n * SS_LN2_HIGH - n * SS_LN2_LOW;
    float p = SS_EXP_C7 * r + SS_EXP_C6;
    p = p * r + SS_EXP_C5;
    p = p * r + SS_EXP_C4;
    p = p * r + SS_EXP_C3;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    return p * ss_float_of_bits((ss_bits_of_float(shifted) + 127u) << 23);
}

static inline float ss_sigmoidf(float x) {
    return 1.0f / (1.0f + ss_expf(-x));
}

/* Constants of ss_gelu_erff: x Phi(x), with Phi the normal distribution, is max(x, 0) - u Q(u) with
 * u = |x| and Q its upper tail. A polynomial in t = 1 / (1 + 0.35 u) approximates Q(u) e^(u^2/2)
 * with an error of at most 8e-9 / (u e^(-u^2/2)): least squares over 0 <= u <= 12 by Lawson's
 * reweighting, which minimizes the largest error of u Q(u). */
#define SS_GELU_P 0.35f
#define SS_GELU_C1 0.138784975f
#define SS_GELU_C2 0.14506796f
#define SS_GELU_C3 0.115498103f
#define SS_GELU_C4 0.0577759966f
#define SS_GELU_C5 0.16338414f
#define SS_GELU_C6 (-0.159984231f)
#define SS_GELU_C7 0.0394732393f

static inline float ss_gelu_tail(float u) {
    float t = 1.0f / (1.0f + SS_GELU_P * u);
    float p = SS_GELU_C7 * t + SS_GELU_C6;
    p = p * t + SS_GELU_C5;
    p = p * t + SS_GELU_C4;
    p = p * t + SS_GELU_C3;
    p = p * t + SS_GELU_C2;
    p = p * t + SS_GELU_C1;
    return p * t;
}

static inline float ss_gelu_erff(float x) {
    float u = x < 0.0f ? -x : x;
    float tail = ss_gelu_tail(u) * ss_expf(u * u * -0.5f);
    return (x > 0.0f ? x : 0.0f) - u * tail;
}

/* Constants of ss_logf: ln x in 32 bits, for normal x > 0, by the series of ss_log below. The fifth
 * of its terms, f^8/9, is folded into the other four: over 0 <= y <= h, with h the largest f^2, y^4
 * equals 2h y^3 - 5/4 h^2 y^2 + 1/4 h^3 y up to h^4/128 (Chebyshev); the error is below 1e-8. Over
 * all floats the relative error is at most 2.3e-7. The exponent e is used in its bit position, 2^23
 * times too large. A subnormal x, and 0, give a finite number as well. */
#define SS_SQRT_HALF_BITS 0x3f3504f3u
#define SS_EXPONENT_BITS 0xff800000u
#define SS_LOG_H 0.0294372515f /* (sqrt 2 - 1)^4 */
#define SS_LOG_C7 (1.0f / 7.0f + SS_LOG_H * 2.0f / 9.0f)
#define SS_LOG_C5 (1.0f / 5.0f - SS_LOG_H * SS_LOG_H * 5.0f / 36.0f)
#define SS_LOG_C3 (1.0f / 3.0f + SS_LOG_H * SS_LOG_H * SS_LOG_H / 36.0f)
#define SS_LOG_LN2 (0.693147182f * 0x1p-23f)

static inline float ss_logf(float x) {
    uint32_t bits = ss_bits_of_float(x), e = (bits - SS_SQRT_HALF_BITS) & SS_EXPONENT_BITS;
    float m = ss_float_of_bits(bits - e);
    float f = (m - 1.0f) / (m + 1.0f), square = f * f;
    float p = SS_LOG_C7 * square + SS_LOG_C5;
    p = p * square + SS_LOG_C3;
    p = p * square + 1.0f;
    return (float)(int32_t)e * SS_LOG_LN2 + (f + f) * p;
}

/* Computes ln x = e ln 2 + ln m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh(f), f =
 * (m-1)/(m+1): f^2 < 0.0295, so twelve terms of the series leave an error below 1e-18. */
static inline double ss_log(double x) {
    if (!(x > 0.0)) return x == 0.0 ? -(double)INFINITY : (double)NAN;
    if (x > 1.7976931348623157e308) return x;
    int exponent = 0;
    if (x < 2.2250738585072014e-308) { /* subnormal: 2^54 makes it normal */
        x *= 18014398509481984.0;
        exponent = -54;
    }
    uint64_t bits = ss_bits_of_double(x);
    exponent += (int)(bits >> 52) - 1023;
    double m = ss_double_of_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double f = (m - 1.0) / (m + 1.0), square = f * f, sum = 0.0;
    for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / (double)k;
    /* Adds ln 2 in two parts; the first has 32 bits, so that its product is exact. */
    return (double)exponent * 0.693147180369123816490 +
           ((double)exponent * 1.90821492927058770002e-10 + 2.0 * f * sum);
}

/* Computes e^x as ss_expf does, in double: after r^14/14! the remainder is below 4e-19. */
static inline double ss_exp_double(double x) {
    if (!(x >= -708.0)) return x < -708.0 ? 0.0 : x; /* NaN converts to no integer */
    if (x > 709.0) return (double)INFINITY;
    double n = floor(x * 1.4426950408889634 + 0.5);
    double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    double sum = 1.0;
    for (int k = 14; k >= 1; k--) sum = 1.0 + sum * r / (double)k;
    return sum * ss_double_of_bits((uint64_t)((int64_t)n + 1023) << 52);
}

/* Computes x^y for x > 0; the relative error is about 1e-16 * |y ln x|. */
static inline double ss_pow(double x, double y) {
    return ss_exp_double(y * ss_log(x));
}

/* Returns r, where x = q pi/2 + r with |r| <= pi/4, for |x| < 1e6; *quadrant is q modulo 4. pi/2
 * has three parts of at most 33 bits, so that the first two products are exact. Beyond 1e6 r has
 * fewer correct digits; where none would remain, and for NaN, r is NaN. */
static inline double ss_reduce_angle(double x, int *quadrant) {
    *quadrant = 0;
    if (!(fabs(x) < 1e15)) return (double)NAN;
    double q = floor(x * 0.63661977236758134308 + 0.5);
    *quadrant = (int)((int64_t)q & 3);
    return ((x - q * 1.57079632673412561417) - q * 6.07710050630396597660e-11) -
           q * 2.02226624879595063154e-21;
}

/* Computes a Taylor sum near 0 in nested form: sin(r) / r to r^16/17! for k = 16, cos(r) to
 * r^16/16! for k = 15. The remainder is below 1e-17. */
static inline double ss_taylor(double r, int k) {
    double sum = 1.0;
    for (; k > 0; k -= 2) sum = 1.0 - sum * (r * r) / (double)(k * (k + 1));
    return sum;
}

/* Returns the sine of x + quarters * pi/2. */
static inline double ss_sine_after(double x, int quarters) {
    int quadrant;
    double r = ss_reduce_angle(x, &quadrant);
    quadrant += quarters;
    double magnitude = quadrant & 1 ? ss_taylor(r, 15) : r * ss_taylor(r, 16);
    return quadrant & 2 ? -magnitude : magnitude;
}

static inline double ss_sin(double x) {
    return ss_sine_after(x, 0);
}

static inline double ss_cos(double x) {
    return ss_sine_after(x, 1);
}

#define SS_HALF_STEP 5.9604644775390625e-8f /* 2^-24, the distance between subnormal halves */

static inline float ss_float_of_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, bits = half & 0x7fffu;
    if (bits >= 0x7c00u) return ss_float_of_bits(sign | 0x7f800000u | (bits & 0x3ffu) << 13);
    if (bits >= 0x400u) return ss_float_of_bits(sign | ((bits << 13) + 0x38000000u));
    float magnitude = (float)bits * SS_HALF_STEP;
    return sign ? -magnitude : magnitude;
}

static inline float ss_float_of_bf16(uint16_t brain) {
    return ss_float_of_bits((uint32_t)brain << 16);
}

#endif
