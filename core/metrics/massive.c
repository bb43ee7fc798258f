/*
 * Do a few activations dwarf all others?
 *
 * The three largest |h| of a hidden state over all its tokens and channels, their places, and the
 * median |h| (Sun et al. 2024, "Massive activations in large language models"). The median of an
 * even count is the lower of the two middle numbers, as in torch.median.
 */
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>
#include <string.h>

#define TOP 3

typedef struct peak {
    float size;
    int channel, token;
} peak;

static const float *hidden_at(const ss_trace *trace, int row) {
    return ss_row(trace, SS_FIELD_HIDDEN, row, 0);
}

/* Finds the peaks and sorts them by size; ties go to the first token, then the first channel. A
 * missing peak has size -1. */
static void find_peaks(const float *h, int T, int D, peak peaks[TOP]) {
    for (int i = 0; i < TOP; i++) peaks[i] = (peak){-1.0f, -1, -1};
    for (int t = 0; t < T; t++)
        for (int d = 0; d < D; d++) {
            peak candidate = {fabsf(h[(size_t)t * (size_t)D + (size_t)d]), d, t};
            if (!(candidate.size > peaks[TOP - 1].size)) continue;
            int rank = TOP - 1;
            while (rank > 0 && candidate.size > peaks[rank - 1].size) rank--;
            for (int i = TOP - 1; i > rank; i--) peaks[i] = peaks[i - 1];
            peaks[rank] = candidate;
        }
}

/* Returns the rank-th smallest |x| (0-based) of n. Selects its bytes from the top, in four passes
 * without a copy; the bits of |x|, as integers, have the order of the numbers. */
static float select_abs(const float *x, size_t n, size_t rank) {
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t counts[256] = {0};
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = ss_bits_of_float(x[i]) & 0x7fffffffu;
            if ((bits & mask) == prefix) counts[bits >> shift & 255]++;
        }
        uint32_t byte = 0;
        while (rank >= counts[byte]) rank -= counts[byte++];
        prefix |= byte << shift;
        mask |= 255u << shift;
    }
    return ss_float_of_bits(prefix);
}

void ss_measure_massive(const ss_trace *trace, const ss_metric_args *args, float *out) {
    int D = trace->model->arch.D;
    size_t n = (size_t)args->T * (size_t)D;
    for (int row = 0; row < ss_states(&trace->model->arch); row++, out += TOP + 1) {
        peak peaks[TOP];
        find_peaks(hidden_at(trace, row), args->T, D, peaks);
        for (int i = 0; i < TOP; i++) out[i] = peaks[i].size < 0.0f ? NAN : peaks[i].size;
        out[TOP] = select_abs(hidden_at(trace, row), n, (n - 1) / 2);
    }
}

void ss_measure_massive_at(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int row = 0; row < ss_states(&trace->model->arch); row++) {
        peak peaks[TOP];
        find_peaks(hidden_at(trace, row), args->T, trace->model->arch.D, peaks);
        for (int i = 0; i < TOP; i++) {
            *out++ = peaks[i].channel < 0 ? NAN : (float)peaks[i].channel;
            *out++ = peaks[i].token < 0 ? NAN : (float)peaks[i].token;
        }
    }
}

/* Finds the weight that makes a layer's largest activation. It takes the token with the largest
 * output of the down projection and writes that output's row, the column of the token's largest
 * input, the token, the weight there, that input and that output (Yu et al. 2024, "The super weight
 * in large language models": input and output both spike where a super weight exists). The share of
 * the output that the weight makes is weight * input / output. NaN with experts, because each has a
 * down projection of its own. */
void ss_measure_super_weight(const ss_trace *trace, const ss_metric_args *args, float *out) {
    for (int l = 0; l < trace->model->arch.L; l++, out += 6) {
        const float *spike = ss_row(trace, SS_FIELD_SPIKES, l, 0), *largest = spike;
        for (int i = 0; !spike && i < 6; i++) out[i] = NAN;
        if (!spike) continue;
        for (int t = 1; t < args->T; t++)
            if (fabsf(spike[5 * t + 4]) > fabsf(largest[4])) largest = spike + 5 * t;
        memcpy(out, largest, 2 * sizeof *out);
        out[2] = (float)((largest - spike) / 5);
        memcpy(out + 3, largest + 2, 3 * sizeof *out);
    }
}
