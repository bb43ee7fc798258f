/*
 * Activations through n bits and back: x becomes scale * round(x / scale), numbers that share a
 * scale being those of a tensor, a token, a channel or a group. Halves round to even, as
 * torch.round does.
 *
 *     symmetric   scale = max |x| / (2^(bits-1) - 1)
 *     else        scale = (max x - min x) / (2^bits - 1), x rounded as min x + whole * scale
 */
#include "site.h"

#include <math.h>

enum { TENSOR, TOKEN, CHANNEL, GROUP };

/* The row's values, in the order of edit.c. */
enum { WHAT, BITS, BY, GROUP_SIZE, SYMMETRIC, FIRST, LAYER };

bool ss_whole_quantise(const float *values) {
    return (int)values[BY] == TENSOR || (int)values[BY] == CHANNEL;
}

/* Numbers that share a scale: x[i * step + j], i < rows, j < n. */
static void quantise(float *x, size_t rows, size_t step, size_t n, int bits, bool symmetric) {
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            low = fminf(low, x[i * step + j]);
            high = fmaxf(high, x[i * step + j]);
        }
    float most = symmetric ? fmaxf(-low, high) : high - low;
    float levels = (float)((1 << (symmetric ? bits - 1 : bits)) - 1);
    float scale = most / levels, zero = symmetric ? 0.0f : low;
    if (!(scale > 0.0f)) return; /* all alike, and exact */
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            x[i * step + j] = zero + scale * rintf((x[i * step + j] - zero) / scale);
}

void ss_apply_quantise(const ss_site *site, const float *values) {
    static const unsigned places[] = {SS_AT_QUERIES, SS_AT_KEYS, SS_AT_VALUES, SS_AT_HIDDEN};
    int exact = (int)values[FIRST] - site->t, bits = (int)values[BITS], by = (int)values[BY];
    bool symmetric = values[SYMMETRIC] != 0.0f;
    exact = exact > 0 ? exact : 0;
    if (places[(int)values[WHAT]] != site->place || exact >= site->n ||
        !ss_edit_holds(values[LAYER], site->l))
        return;
    size_t width = site->heads * site->width, rows = (size_t)(site->n - exact);
    size_t group = by == GROUP ? (size_t)values[GROUP_SIZE] : width;
    float *x = site->rows + (size_t)exact * width;
    if (by == TENSOR) quantise(x, rows, width, width, bits, symmetric);
    for (size_t d = 0; by == CHANNEL && d < width; d++)
        quantise(x + d, rows, width, 1, bits, symmetric);
    for (size_t i = 0; (by == TOKEN || by == GROUP) && i < rows; i++)
        for (size_t d = 0; d < width; d += group)
            quantise(x + i * width + d, 1, width, width - d < group ? width - d : group, bits,
                     symmetric);
}
