/* core/math: scalar functions against libm, and the packing of matrices. */
#include "math/pack.h"
#include "math/scalar.h"
#include "math/unpack.h"

#include "check.h"

#include <float.h>
#include <stdint.h>
#include <stdlib.h>

static double as_float(double x) {
    return (double)(float)x;
}
static double my_expf(double x) {
    return (double)ss_expf((float)x);
}
static double libm_expf(double x) {
    return exp(as_float(x));
}
static double my_sigmoidf(double x) {
    return (double)ss_sigmoidf((float)x);
}
static double libm_sigmoidf(double x) {
    return 1.0 / (1.0 + exp(-as_float(x)));
}
static double my_log_power(double x) {
    return ss_log(exp2(x));
}
static double libm_log_power(double x) {
    return log(exp2(x));
}
static double my_log_near(double x) {
    return ss_log(1.0 + x);
}
static double libm_log_near(double x) {
    return log(1.0 + x);
}
static double my_logf_power(double x) {
    return (double)ss_logf((float)exp2(x));
}
static double libm_logf_power(double x) {
    return log(as_float(exp2(x)));
}
static double my_logf_near(double x) {
    return (double)ss_logf((float)(1.0 + x));
}
static double libm_logf_near(double x) {
    return log(as_float(1.0 + x));
}
static double my_theta(double x) {
    return ss_pow(10000.0, x);
}
static double libm_theta(double x) {
    return pow(10000.0, x);
}
static double my_square_root(double x) {
    return ss_pow(x, 0.5);
}

typedef double (*function)(double);

static const struct curve {
    const char *sentence;
    function actual, libm;
    double low, high, tolerance;
    bool relative;
} curves[] = {
    {"ss_expf is exp where the result is normal", my_expf, libm_expf, -87, 88, 2e-7, true},
    {"ss_expf is exp near 0", my_expf, libm_expf, -1e-3, 1e-3, 1.2e-7, true},
    {"ss_sigmoidf is the sigmoid", my_sigmoidf, libm_sigmoidf, -86, 86, 3e-7, true},
    {"ss_log is log for every exponent", my_log_power, libm_log_power, -1074, 1023.9, 4e-16, true},
    {"ss_log is log near 1", my_log_near, libm_log_near, -0.01, 0.01, 6e-16, true},
    {"ss_logf is log", my_logf_power, libm_logf_power, -126, 127.9, 2.3e-7, true},
    {"ss_logf is log near 1", my_logf_near, libm_logf_near, -0.5, 1, 2.3e-7, true},
    {"ss_exp_double is exp", ss_exp_double, exp, -708, 709, 5e-16, true},
    {"ss_pow gives rotary frequencies", my_theta, libm_theta, -2, 2, 6e-15, true},
    {"ss_pow gives square roots", my_square_root, sqrt, 1e-3, 1e6, 4e-15, true},
    {"ss_sin is sin in the first periods", ss_sin, sin, -10, 10, 3e-16, false},
    {"ss_cos is cos in the first periods", ss_cos, cos, -10, 10, 3e-16, false},
    {"ss_sin is sin far out", ss_sin, sin, -1e6, 1e6, 3e-16, false},
    {"ss_cos is cos far out", ss_cos, cos, -1e6, 1e6, 3e-16, false},
};

static void check_curve(const struct curve *curve) {
    enum { SAMPLES = 200000 };
    double worst = 0.0, worst_x = curve->low;
    for (int i = 0; i <= SAMPLES; i++) {
        double x = curve->low + (curve->high - curve->low) * i / SAMPLES, truth = curve->libm(x);
        double error = fabs(curve->actual(x) - truth);
        if (curve->relative && error > 0.0) error /= fabs(truth);
        if (error <= worst)
            continue; /* the test is false for NaN, which therefore becomes the worst error */
        worst = error;
        worst_x = x;
    }
    CASE(curve->sentence);
    /* The last bit of libm's own result depends on the processor. */
    CHECK_NEAR(worst, 0.0, curve->tolerance + DBL_EPSILON);
    printf("    largest error %.3g, at %.9g\n", worst, worst_x);
}

static bool have_same_bits(double a, double b) {
    return ss_bits_of_double(a) == ss_bits_of_double(b) || (isnan(a) && isnan(b));
}

static const struct edge {
    function actual;
    double x, expected;
    const char *name;
} edges[] = {
    {my_expf, 0.0, 1.0, "expf(0)"},
    {my_expf, -0.0, 1.0, "expf(-0)"},
    {my_expf, 1e-45, 1.0, "expf(subnormal)"},
    {my_expf, -1e-45, 1.0, "expf(-subnormal)"},
    {my_expf, -87.00001, 0.0, "expf below its limit"},
    {my_expf, 88.00001, (double)INFINITY, "expf above its limit"},
    {my_expf, (double)INFINITY, (double)INFINITY, "expf(inf)"},
    {my_expf, -(double)INFINITY, 0.0, "expf(-inf)"},
    {my_expf, (double)NAN, (double)NAN, "expf(NaN)"},
    {my_sigmoidf, 0.0, 0.5, "sigmoidf(0)"},
    {my_sigmoidf, -0.0, 0.5, "sigmoidf(-0)"},
    {my_sigmoidf, 1e-45, 0.5, "sigmoidf(subnormal)"},
    {my_sigmoidf, 100.0, 1.0, "sigmoidf(100)"},
    {my_sigmoidf, -100.0, 0.0, "sigmoidf(-100)"},
    {my_sigmoidf, (double)INFINITY, 1.0, "sigmoidf(inf)"},
    {my_sigmoidf, -(double)INFINITY, 0.0, "sigmoidf(-inf)"},
    {my_sigmoidf, (double)NAN, (double)NAN, "sigmoidf(NaN)"},
    {ss_log, 1.0, 0.0, "log(1)"},
    {ss_log, 0.0, -(double)INFINITY, "log(0)"},
    {ss_log, -0.0, -(double)INFINITY, "log(-0)"},
    {ss_log, -1.0, (double)NAN, "log(-1)"},
    {ss_log, (double)INFINITY, (double)INFINITY, "log(inf)"},
    {ss_log, -(double)INFINITY, (double)NAN, "log(-inf)"},
    {ss_log, (double)NAN, (double)NAN, "log(NaN)"},
    {ss_exp_double, 0.0, 1.0, "exp(0)"},
    {ss_exp_double, -0.0, 1.0, "exp(-0)"},
    {ss_exp_double, 5e-324, 1.0, "exp(subnormal)"},
    {ss_exp_double, -709.0, 0.0, "exp below its limit"},
    {ss_exp_double, 709.5, (double)INFINITY, "exp above its limit"},
    {ss_exp_double, (double)INFINITY, (double)INFINITY, "exp(inf)"},
    {ss_exp_double, -(double)INFINITY, 0.0, "exp(-inf)"},
    {ss_exp_double, (double)NAN, (double)NAN, "exp(NaN)"},
    {ss_sin, (double)INFINITY, (double)NAN, "sin(inf)"},
    {ss_sin, (double)NAN, (double)NAN, "sin(NaN)"},
    {ss_cos, -1e300, (double)NAN, "cos far beyond its limit"},
    {ss_cos, (double)NAN, (double)NAN, "cos(NaN)"},
    {ss_sin, 0.0, 0.0, "sin(0)"},
    {ss_sin, 5e-324, 5e-324, "sin(subnormal)"},
    {ss_cos, 0.0, 1.0, "cos(0)"},
    {ss_cos, -0.0, 1.0, "cos(-0)"},
    {ss_cos, 5e-324, 1.0, "cos(subnormal)"},
};

static void check_edges(void) {
    CASE("scalar functions are right at zeros, limits, infinities and NaN");
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        double actual = edges[i].actual(edges[i].x);
        if (check_failed(have_same_bits(actual, edges[i].expected), __FILE__, __LINE__,
                         edges[i].name))
            printf("    expected %.17g, found %.17g\n", edges[i].expected, actual);
    }
    CHECK(ss_sin(-0.0) == 0.0);
    CHECK(ss_expf(-87.0f) > 0.0f && ss_expf(88.0f) < INFINITY);
    CHECK_NEAR(ss_log(5e-324), log(5e-324), 1e-13);
}

static bool are_equal(float a, float b) {
    return ss_bits_of_float(a) == ss_bits_of_float(b);
}

/* Returns the value of a small float from the fields of its bits. */
static float decode(unsigned bits, int exponent_bits, int fraction_bits) {
    int top = (1 << exponent_bits) - 1, bias = top / 2;
    int exponent = (int)(bits >> fraction_bits) & top;
    int fraction = (int)(bits & ((1u << fraction_bits) - 1u)), hidden = 1 << fraction_bits;
    float size = exponent == top ? (fraction ? NAN : INFINITY)
                 : exponent == 0
                     ? ldexpf((float)fraction, 1 - bias - fraction_bits)
                     : ldexpf((float)(fraction + hidden), exponent - bias - fraction_bits);
    return bits & 0x8000u ? -size : size;
}

static void check_halves(ss_dtype type, int exponent_bits, int fraction_bits) {
    enum { ALL = 65536 };
    static unsigned char source[2 * ALL];
    static float out[ALL];
    for (unsigned i = 0; i < ALL; i++) {
        source[2 * i] = (unsigned char)(i & 255u);
        source[2 * i + 1] = (unsigned char)(i >> 8);
    }
    ss_unpack(out, source, type, ALL);
    size_t first_bad = ss_first_not_finite(source, type, ALL), wrong_n = 0;
    for (unsigned i = 0; i < ALL; i++) {
        float expected = decode(i, exponent_bits, fraction_bits);
        wrong_n += !(are_equal(out[i], expected) || (isnan(out[i]) && isnan(expected)));
    }
    CHECK_INT(wrong_n, 0);
    CHECK_INT(first_bad, ((1u << exponent_bits) - 1u)
                             << fraction_bits); /* the first number that is not finite is +inf */
}

/* Tests an infinity at each index of each length, among the largest finite numbers, in blocks of
 * exact size. */
static void check_places(ss_dtype type, uint32_t largest, uint32_t infinite) {
    size_t bytes = ss_dtype_bytes(type, 1);
    const uint32_t bad_bits[] = {infinite, infinite | 1u, largest | infinite};
    for (size_t n = 0; n < 19; n++)
        for (size_t place = 0; place <= n; place++)
            for (int kind = 0; kind < 3; kind++) {
                unsigned char *block = malloc(n * bytes + 1), *source = block + 1; /* unaligned */
                if (!block) exit(2);
                for (size_t i = 0; i < n; i++) {
                    uint32_t bits = i == place ? bad_bits[kind] : largest;
                    memcpy(source + i * bytes, &bits, bytes);
                }
                CHECK_INT(ss_first_not_finite(source, type, n), place < n ? place : SIZE_MAX);
                free(block);
            }
}

enum { COLUMNS = 11, DEPTH = 5 };

static void check_packing(void) {
    CASE("all 65536 halves are converted exactly");
    check_halves(SS_F16, 5, 10);
    CASE("all 65536 bfloat16 numbers are converted exactly");
    check_halves(SS_BF16, 8, 7);
    CASE("the first infinity or NaN is found at any index");
    check_places(SS_F32, 0xff7fffff, 0x7f800000);
    check_places(SS_F16, 0xfbff, 0x7c00);
    check_places(SS_BF16, 0xff7f, 0x7f80);
    float rows[10 * 9 + DEPTH], panels[16 * DEPTH];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) rows[i] = (float)(i + 1);
    CASE("rows with any stride are packed as columns, with zeros beyond the last");
    CHECK_INT(ss_panels_floats(COLUMNS, DEPTH), 16 * DEPTH);
    ss_pack_rows(panels, rows, 9, COLUMNS, DEPTH);
    for (size_t i = 0; i < 16 * DEPTH; i++) {
        size_t n = i / 8 / DEPTH * 8 + i % 8, k = i / 8 % DEPTH;
        CHECK(are_equal(panels[i], n < COLUMNS ? rows[n * 9 + k] : 0.0f));
    }
    CASE("columns are packed with any stride, with zeros beyond the last");
    ss_pack_columns(panels, rows, COLUMNS + 1, COLUMNS, DEPTH);
    for (size_t i = 0; i < 16 * DEPTH; i++) {
        size_t n = i / 8 / DEPTH * 8 + i % 8, k = i / 8 % DEPTH;
        CHECK(are_equal(panels[i], n < COLUMNS ? rows[k * (COLUMNS + 1) + n] : 0.0f));
    }
}

int main(void) {
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) check_curve(curves + i);
    check_edges();
    check_packing();
    return check_done();
}
