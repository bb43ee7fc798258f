#include "linear.h"

#include "../../math/kernels.h"
#include "../../math/pack.h"

#include <string.h>

static size_t panels_floats(size_t in, size_t out) {
    size_t weight_floats = ss_max_size(ss_panels_floats(in, out), ss_panels_floats(out, in));
    return ss_max_size(weight_floats, ss_panels_floats(ss_max_size(in, out), SS_BACK_ROWS));
}

size_t ss_linear_back_work(size_t in, size_t out) {
    return panels_floats(in, out) + SS_BACK_ROWS * ss_max_size(in, out) + in * out;
}

void ss_tile_columns(float *tiles, const float *rows, size_t stride, size_t T, size_t Kin) {
    size_t first = 0;
    for (; first + SS_TILE <= T; first += SS_TILE)
        for (size_t k = 0; k < Kin; k++, tiles += SS_TILE)
            memcpy(tiles, rows + k * stride + first, SS_TILE * sizeof *tiles);
    for (size_t k = 0; k < Kin; k++)
        for (size_t t = first; t < T; t++) *tiles++ = rows[k * stride + t];
}

static float *floats_of(const ss_matrix *w) {
    return (float *)(size_t)w->data;
}

void ss_linear_back_inputs(float *dx, const float *d, const ss_linear *linear, size_t n,
                           float *work) {
    const ss_matrix *w = &linear->w;
    float *panels = work, *tiles = panels + panels_floats(w->in, w->out);
    if (w->in_out)
        ss_pack_rows(panels, floats_of(w) + w->first, w->total, w->in, w->out);
    else
        ss_pack_columns(panels, floats_of(w) + w->first * w->in, w->in, w->in, w->out);
    for (size_t t = 0; t < n; t += SS_BACK_ROWS) {
        size_t rows = ss_min_size(n - t, SS_BACK_ROWS);
        ss_tile(tiles, d + t * w->out, w->out, rows, w->out);
        ss_matmul(dx + t * w->in, w->in, tiles, panels, NULL, rows, w->in, w->out);
    }
}

static void add_products(float *sums, size_t stride, const float *a, size_t rows, const float *b,
                         size_t columns, size_t n, float *panels, float *tiles, float *product) {
    for (size_t t = 0; t < n; t += SS_BACK_ROWS) {
        size_t count = ss_min_size(n - t, SS_BACK_ROWS);
        ss_tile_columns(tiles, a + t * rows, rows, rows, count);
        ss_pack_columns(panels, b + t * columns, columns, columns, count);
        ss_matmul(product, columns, tiles, panels, NULL, rows, columns, count);
        for (size_t r = 0; r < rows; r++) ss_add(sums + r * stride, product + r * columns, columns);
    }
}

void ss_linear_back_weights(const float *x, const float *d, const ss_linear *sums, size_t n,
                            float *work) {
    const ss_matrix *w = &sums->w;
    float *panels = work, *tiles = panels + panels_floats(w->in, w->out);
    float *product = tiles + SS_BACK_ROWS * ss_max_size(w->in, w->out);
    if (w->in_out)
        add_products(floats_of(w) + w->first, w->total, x, w->in, d, w->out, n, panels, tiles,
                     product);
    else
        add_products(floats_of(w) + w->first * w->in, w->in, d, w->out, x, w->in, n, panels, tiles,
                     product);
    float *bias_sum = (float *)(size_t)sums->bias;
    for (size_t t = 0; bias_sum && t < n; t++) ss_add(bias_sum, d + t * w->out, w->out);
}
