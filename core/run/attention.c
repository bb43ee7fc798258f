#include "attention.h"

#include "../math/kernels.h"
#include "../math/pack.h"

#include <string.h>

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* Panels of the T keys and values of group g; the query heads of the group share them. */
static void pack_group(ss_run *run, int l, int g, size_t T) {
    const ss_trace *trace = &run->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K;
    size_t at = ((size_t)l * (size_t)arch->G + (size_t)g) * (size_t)trace->capacity * K;
    ss_pack_rows(run->scratch.key_panels, trace->k + at, K, T, K);
    ss_pack_columns(run->scratch.value_panels, trace->v + at, K, K, T);
}

/* out[r] = sum_j weights[r][j] v[j] over the first `keys` of T keys. */
static void mix_values(float *out, size_t out_stride, const float *tiles, const float *panels,
                       size_t rows, size_t keys, size_t T, size_t K) {
    for (size_t c = 0; c < K; c += SS_PANEL) {
        size_t width = K - c < SS_PANEL ? K - c : SS_PANEL;
        ss_matmul(out + c, out_stride, tiles, panels + c * T, NULL, rows, width, keys);
    }
}

/* n scores -> n weights, exact zeros for the keys that the mask hides. */
static void weigh(float *x, size_t n, const ss_choice *choice) {
    size_t first = (size_t)choice->mask.first, recent = (size_t)choice->mask.recent;
    if (first >= n || recent >= n - first) {
        choice->operation->row(x, n, choice->parameters);
        return;
    }
    /* The operation sees the keys in sight side by side; then they go back to their places. */
    size_t hidden = n - first - recent;
    memmove(x + first, x + first + hidden, recent * sizeof *x);
    choice->operation->row(x, first + recent, choice->parameters);
    memmove(x + first + hidden, x + first, recent * sizeof *x);
    memset(x + first, 0, hidden * sizeof *x);
}

/* Rows [t, t+rows) of head h: scores, weights, mixed values. */
static void attend_rows(ss_run *run, int l, int h, int t0, int t, int rows, int T) {
    ss_trace *trace = &run->trace;
    const ss_scratch *s = &run->scratch;
    const ss_arch *arch = &trace->model->arch;
    size_t K = (size_t)arch->K, C = (size_t)trace->capacity, width = (size_t)arch->H * K;
    size_t keys = (size_t)(t + rows); /* that the last of these rows sees */
    float *q = s->heads + (size_t)(t - t0) * width + (size_t)h * K;
    const ss_choice *choice = &trace->choices[l * arch->H + h];

    ss_tile(s->tiles, q, width, (size_t)rows, K);
    ss_matmul(s->scores, C, s->tiles, s->key_panels, NULL, (size_t)rows, keys, K);
    for (int r = 0; r < rows; r++) {
        float *x = s->scores + (size_t)r * C;
        size_t sees = (size_t)(t + r + 1);
        ss_scale(x, arch->score_scale, sees);
        weigh(x, sees, choice);
        memset(x + sees, 0, (keys - sees) * sizeof *x);
        if (trace->att) {
            size_t row = ((size_t)l * (size_t)arch->H + (size_t)h) * C + (size_t)(t + r);
            memcpy(trace->att + row * C, x, keys * sizeof *x);
            memset(trace->att + row * C + keys, 0, (C - keys) * sizeof *x);
        }
    }
    ss_tile(s->tiles, s->scores, C, (size_t)rows, keys);
    mix_values(q, width, s->tiles, s->value_panels, (size_t)rows, keys, (size_t)T, K);
}

void ss_attend(ss_run *run, int l, int t0, int n) {
    const ss_arch *arch = &run->trace.model->arch;
    int share = arch->H / arch->G, T = t0 + n;
    for (int g = 0; g < arch->G; g++) {
        pack_group(run, l, g, (size_t)T);
        for (int h = g * share; h < (g + 1) * share; h++)
            for (int t = t0; t < T; t += SS_ATTENTION_ROWS)
                attend_rows(run, l, h, t0, t, min_int(SS_ATTENTION_ROWS, T - t), T);
    }
}
