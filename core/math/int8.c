#include "int8.h"

#include "scalar.h"

#define SCALE_MIN 0x1p-100f

#define EACH_LANE for (size_t lane = 0; lane < SS_PANEL; lane++)

static float inverse_or_zero(float scale) {
    return fabsf(scale) < SCALE_MIN ? 0.0f : 1.0f / scale;
}

static void find_scales(float scale[SS_PANEL], const float *floats, size_t Kin) {
    float top[SS_PANEL] = {0};
    for (size_t k = 0; k < Kin; k++, floats += SS_PANEL) {
        EACH_LANE {
            float magnitude = fabsf(floats[lane]);
            top[lane] = magnitude > top[lane] ? magnitude : top[lane];
        }
    }
    EACH_LANE scale[lane] = top[lane] / 127.0f;
}

/* Returns the bits of SS_ROUNDING + q, where q is x times `factor`, rounded and clamped to a byte.
 */
static uint32_t rounded_bits(float x, float factor) {
    float y = x * factor;
    y = y > 127.0f ? 127.0f : y;
    return ss_bits_of_float((y > -128.0f ? y : -128.0f) + SS_ROUNDING);
}

void ss_int8_panel(int8_t *panel, float scale[SS_PANEL], int32_t sums[SS_PANEL],
                   const float *floats, const float *scales, size_t Kin) {
    float factor[SS_PANEL];
    if (scales)
        memcpy(scale, scales, SS_PANEL * sizeof *scale);
    else
        find_scales(scale, floats, Kin);
    EACH_LANE factor[lane] = inverse_or_zero(scale[lane]);
    uint32_t bits[SS_PANEL] = {0};
    for (size_t k = 0; k < Kin; k += SS_QUAD, panel += SS_PANEL * SS_QUAD) {
        uint32_t quads[SS_PANEL] = {0};
        size_t n = Kin - k < SS_QUAD ? Kin - k : SS_QUAD;
        for (size_t i = 0; i < n; i++, floats += SS_PANEL) {
            EACH_LANE {
                uint32_t q = rounded_bits(floats[lane], factor[lane]);
                bits[lane] += q;
                quads[lane] |= (q & 0xff) << 8 * i;
            }
        }
        memcpy(panel, quads, sizeof quads);
    }
    /* Each term carries the bits of SS_ROUNDING; modulo 2^32 they can be subtracted at the end. */
    EACH_LANE {
        bits[lane] -= (uint32_t)Kin * 0x4b400000u;
        memcpy(&sums[lane], &bits[lane], sizeof *sums);
        if (factor[lane] == 0.0f) scale[lane] = 0.0f;
    }
}

typedef struct span {
    float low, high;
    float not_finite;
} span;

static span span_of(const float *x, size_t n) {
    float low[SS_PANEL] = {0}, high[SS_PANEL] = {0}, not_finite[SS_PANEL] = {0};
    size_t i = 0;
    for (; i + SS_PANEL <= n; i += SS_PANEL) {
        EACH_LANE {
            float y = x[i + lane];
            low[lane] = y < low[lane] ? y : low[lane];
            high[lane] = y > high[lane] ? y : high[lane];
            not_finite[lane] += y * 0.0f;
        }
    }
    span s = {0};
    for (; i < n; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
        not_finite[0] += x[i] * 0.0f;
    }
    EACH_LANE {
        s.low = low[lane] < s.low ? low[lane] : s.low;
        s.high = high[lane] > s.high ? high[lane] : s.high;
        s.not_finite += not_finite[lane];
    }
    return s;
}

static uint8_t round_to_7_bits(float x, float factor, float zero) {
    float y = x * factor + SS_ROUNDING - SS_ROUNDING + zero;
    y = y < 127.0f ? y : 127.0f;
    return (uint8_t)ss_bits_of_float((y > 0.0f ? y : 0.0f) + SS_ROUNDING);
}

void ss_int8_rows(const ss_rows8 *rows, const float *x, size_t T, size_t Kin) {
    size_t stride = SS_QUAD * ss_quads(Kin);
    for (size_t t = 0; t < T; t++, x += Kin) {
        uint8_t *u = rows->numbers + t * stride;
        span s = span_of(x, Kin);
        float scale = (s.high - s.low) / 127.0f, factor = inverse_or_zero(scale);
        float zero = s.not_finite == 0.0f ? -s.low * factor + SS_ROUNDING - SS_ROUNDING : 0.0f;
        for (size_t k = 0; k < Kin; k++) u[k] = round_to_7_bits(x[k], factor, zero);
        memset(u + Kin, 0, stride - Kin);
        rows->scales[t] = (factor == 0.0f ? 0.0f : scale) + s.not_finite;
        rows->zeros[t] = (int32_t)zero;
    }
}

void ss_tile8_ref(SS_TILE8_ARGS) {
    (void)rows, (void)T, (void)Kin;
}

void ss_times8_ref(SS_TIMES8_ARGS) {
    size_t quads = ss_quads(Kin);
    for (size_t t = 0; t < T; t++) {
        const uint8_t *u = rows->numbers + t * quads * SS_QUAD;
        for (size_t n = 0; n < N; n++) {
            const int8_t *q =
                w->panels + (n / SS_PANEL * quads * SS_PANEL + n % SS_PANEL) * SS_QUAD;
            int32_t sum = 0;
            for (size_t k = 0; k < quads; k++, q += SS_PANEL * SS_QUAD)
                for (size_t i = 0; i < SS_QUAD; i++) sum += u[k * SS_QUAD + i] * q[i];
            out[t * out_stride + n] =
                ss_int8_number(sum, rows->zeros[t], w->sums[n], rows->scales[t], w->scales[n],
                               bias ? bias[n] : 0.0f);
        }
    }
}
