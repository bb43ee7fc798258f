/* The kernels as textbook loops; kernels.h specifies them to the bit. */
#include "kernels.h"

#include "../base/bytes.h"
#include "scalar.h"

static void row_times_panel(float sums[SS_PANEL], const float *tile, size_t rows, size_t r,
                            const float *panel, size_t Kin) {
    for (size_t k = 0; k < Kin; k++)
        for (size_t lane = 0; lane < SS_PANEL; lane++)
            sums[lane] += tile[k * rows + r] * panel[k * SS_PANEL + lane];
}

void ss_matmul_ref(SS_MATMUL_ARGS) {
    for (size_t n = 0; n < N; n += SS_PANEL) {
        size_t width = ss_min_size(N - n, SS_PANEL);
        for (size_t t = 0; t < T; t++) {
            size_t first = t - t % SS_TILE;
            float sums[SS_PANEL] = {0};
            if (bias) memcpy(sums, bias + n, width * sizeof *sums);
            row_times_panel(sums, tiles + first * Kin, ss_min_size(T - first, SS_TILE), t - first,
                            panels + n * Kin, Kin);
            memcpy(out + t * out_stride + n, sums, width * sizeof *sums);
        }
    }
}

void ss_tile_ref(SS_TILE_ARGS) {
    for (size_t first = 0; first < T; first += SS_TILE)
        for (size_t k = 0; k < Kin; k++)
            for (size_t t = first; t < T && t < first + SS_TILE; t++)
                *tiles++ = rows[t * stride + k];
}

static float read_float(const void *row, size_t i) {
    float x;
    memcpy(&x, (const unsigned char *)row + i * sizeof x, sizeof x);
    return x;
}

void ss_times_rows_ref(SS_TIMES_ROWS_ARGS) {
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        for (size_t k = 0; k < Kin; k++) sums[lane] += a[k] * read_float(rows[lane], k);
}

void ss_times_columns_ref(SS_TIMES_COLUMNS_ARGS) {
    for (size_t k = 0; k < Kin; k++)
        for (size_t n = 0; n < N; n++)
            out[n] += a[k] * read_float((const unsigned char *)w + k * stride, n);
}

void ss_spread_groups_ref(SS_SPREAD_GROUPS_ARGS) {
    for (size_t k = 0; k < groups->n * SS_GROUP; k++)
        for (size_t lane = 0; lane < SS_PANEL; lane++) *panel++ = ss_group_weight(groups, k, lane);
}

void ss_times_groups_ref(SS_TIMES_GROUPS_ARGS) {
    for (size_t k = 0; k < groups->n * SS_GROUP; k++)
        for (size_t lane = 0; lane < SS_PANEL; lane++)
            sums[lane] += a[k] * ss_group_weight(groups, k, lane);
}

void ss_interleave_ref(SS_INTERLEAVE_ARGS) {
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        for (size_t k = 0; k < n; k++)
            panel[k * SS_PANEL + lane] = rows[lane] ? read_float(rows[lane], k) : 0.0f;
}

void ss_spread_pairs_ref(SS_SPREAD_PAIRS_ARGS) {
    for (size_t i = 0; i < n * SS_PANEL; i++) {
        size_t k = i / SS_PANEL, lane = i % SS_PANEL;
        const unsigned char *at = pairs + 2 * ((k - k % 2) * SS_PANEL + 2 * lane + k % 2);
        uint16_t bits = (uint16_t)(at[0] | at[1] << 8);
        panel[i] = are_halves ? ss_float_of_f16(bits) : ss_float_of_bf16(bits);
    }
}

void ss_unpack_halves_ref(SS_UNPACK_HALVES_ARGS) {
    for (size_t i = 0; i < n; i++)
        out[i] = ss_float_of_f16((uint16_t)(halves[2 * i] | halves[2 * i + 1] << 8));
}

/* Adds eight lanes by the tree of kernels.h, which ends every reduction. */
static float add_lanes(const float s[8]) {
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

float ss_exp_ref(SS_EXP_ARGS) {
    float lanes[8] = {0};
    for (size_t i = 0; i < n; i++) {
        out[i] = ss_expf(x[i] - shift);
        lanes[i % 8] += out[i];
    }
    return add_lanes(lanes);
}

float ss_sigmoid_ref(SS_SIGMOID_ARGS) {
    float lanes[8] = {0};
    for (size_t i = 0; i < n; i++) {
        out[i] = ss_sigmoidf(x[i] + shift);
        lanes[i % 8] += out[i];
    }
    return add_lanes(lanes);
}

void ss_copy_ref(SS_COPY_ARGS) {
    memcpy(out, x, n * sizeof *out);
}

void ss_clear_ref(SS_CLEAR_ARGS) {
    memset(x, 0, n * sizeof *x);
}

void ss_scale_ref(SS_SCALE_ARGS) {
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

void ss_add_ref(SS_ADD_ARGS) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

float ss_max_ref(SS_MAX_ARGS) {
    float largest = x[0];
    for (size_t i = 1; i < n; i++) largest = largest < x[i] ? x[i] : largest;
    return largest;
}

size_t ss_peak_ref(SS_PEAK_ARGS) {
    size_t peak = 0;
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > largest) {
            peak = i;
            largest = fabsf(x[i]);
        }
    return peak;
}

size_t ss_count_ref(SS_COUNT_ARGS) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += x[i] > limit || (with_equal && x[i] == limit);
    return count;
}

float ss_sum_ref(SS_SUM_ARGS) {
    float lanes[8] = {0};
    for (size_t i = 0; i < n; i++) lanes[i % 8] += x[i];
    return add_lanes(lanes);
}

void ss_add_shares_ref(SS_ADD_SHARES_ARGS) {
    for (size_t i = 0; i < n; i++)
        sums[i] += factor * (absolute ? fabs((double)x[i]) : (double)x[i]);
}

double ss_entropy_ref(SS_ENTROPY_ARGS) {
    double lanes[4] = {0};
    for (size_t i = 0; i < n; i++) {
        float p = fabsf(x[i]) * factor;
        lanes[i % 4] += (double)(p * ss_logf(p));
    }
    return 0.0 - ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

float ss_dot_ref(SS_DOT_ARGS) {
    float lanes[8] = {0};
    for (size_t i = 0; i < n; i++) lanes[i % 8] += a[i] * b[i];
    return add_lanes(lanes);
}

void ss_rmsnorm_ref(SS_RMSNORM_ARGS) {
    float r = 1.0f / sqrtf(ss_dot_ref(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) out[i] = (x[i] * r) * w[i];
}

void ss_layernorm_ref(SS_LAYERNORM_ARGS) {
    float mean = ss_sum_ref(x, n) / (float)n;
    for (size_t i = 0; i < n; i++) out[i] = x[i] - mean;
    float r = 1.0f / sqrtf(ss_dot_ref(out, out, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) out[i] = b ? (out[i] * r) * w[i] + b[i] : (out[i] * r) * w[i];
}

void ss_silu_mul_ref(SS_SILU_MUL_ARGS) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] * ss_sigmoidf(x[i]) * up[i];
}

/* Computes 0.5 (1 + tanh u) as sigmoid(2u), so no tanh is needed. 2 sqrt(2/pi) = 1.59576912. */
void ss_gelu_ref(SS_GELU_ARGS) {
    for (size_t i = 0; i < n; i++) {
        float cube = x[i] * x[i] * x[i];
        x[i] = x[i] * ss_sigmoidf(1.59576912f * (x[i] + 0.044715f * cube));
    }
}

void ss_gelu_erf_ref(SS_GELU_ERF_ARGS) {
    for (size_t i = 0; i < n; i++) x[i] = ss_gelu_erff(x[i]);
}

void ss_relu_ref(SS_RELU_ARGS) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

void ss_multiply_ref(SS_MULTIPLY_ARGS) {
    for (size_t i = 0; i < n; i++) x[i] *= y[i];
}

void ss_rotate_ref(SS_ROTATE_ARGS) {
    for (size_t j = 0; j < pairs; j++) {
        float a = x[j], b = x[j + pairs];
        out[j] = a * cosine[j] - b * sine[j];
        out[j + pairs] = b * cosine[j] + a * sine[j];
    }
}
