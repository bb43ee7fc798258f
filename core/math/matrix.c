#include "matrix.h"

#include "kernels.h"
#include "unpack.h"

#include <string.h>

/* Inputs that are unpacked at a time: of every block type a whole number of blocks. */
#define STRIP 256

/* The most panels that are unpacked at a time. */
#define PANELS 4

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t ss_matrix_work(size_t T, size_t in) {
    return SS_PANEL * STRIP + (PANELS * SS_PANEL + T) * in;
}

size_t ss_matrix_place(const ss_matrix *w, size_t n) {
    if (w->pair) {
        /* Rotary pairs (j, j + pair/2) of a head lie at 2j and 2j + 1. */
        size_t j = n % w->pair, half = w->pair / 2;
        n += (j < half ? 2 * j : 2 * (j - half) + 1) - j;
    }
    return w->first + n / w->group * w->step + n % w->group;
}

/* Inputs [k, k + n) of output o, one after the other in the file. */
static void unpack_strip(float *out, const ss_matrix *w, size_t o, size_t k, size_t n) {
    size_t place = ss_matrix_place(w, o);
    const unsigned char *row = w->data + place * ss_dtype_bytes(w->type, w->in);
    ss_unpack(out, row + ss_dtype_bytes(w->type, k), w->type, n);
    if (w->scales) ss_scale(out, w->scales[place], n);
}

/* The panel of outputs [n, n + width), whose rows in the file become its columns. */
static void panel_of_rows(float *panel, const ss_matrix *w, size_t n, size_t width, float *strips) {
    for (size_t k = 0; k < w->in; k += STRIP) {
        size_t count = smaller(w->in - k, STRIP);
        const float *lanes[SS_PANEL] = {0};
        for (size_t lane = 0; lane < width; lane++) {
            unpack_strip(strips + lane * STRIP, w, n + lane, k, count);
            lanes[lane] = strips + lane * STRIP;
        }
        ss_interleave(panel + k * SS_PANEL, lanes, count);
    }
}

/* The panels of outputs [n, n + columns) where the file has a row of outputs for each input. */
static void panels_of_columns(float *panels, const ss_matrix *w, size_t n, size_t columns) {
    size_t first = ss_matrix_place(w, n), last = ss_matrix_place(w, n + columns - 1);
    bool together = !w->pair && last - first == columns - 1;
    for (size_t k = 0; k < w->in; k++) {
        const unsigned char *row = w->data + ss_dtype_bytes(w->type, k * w->total);
        float strip[PANELS * SS_PANEL] = {0};
        size_t count = together ? columns : 1;
        for (size_t c = 0; c < columns; c += count)
            ss_unpack(strip + c, row + ss_dtype_bytes(w->type, ss_matrix_place(w, n + c)), w->type,
                      count);
        for (size_t c = 0; c < columns; c += SS_PANEL)
            memcpy(panels + c * w->in + k * SS_PANEL, strip + c, SS_PANEL * sizeof *strip);
    }
}

/* The panels of outputs [n, n + columns). */
static void unpack_panels(float *panels, const ss_matrix *w, size_t n, size_t columns,
                          float *strips) {
    if (w->in_out) {
        panels_of_columns(panels, w, n, columns);
        return;
    }
    for (size_t c = 0; c < columns; c += SS_PANEL)
        panel_of_rows(panels + c * w->in, w, n + c, smaller(columns - c, SS_PANEL), strips);
}

void ss_matrix_times(float *out, const float *a, const ss_matrix *w, const float *bias, size_t T,
                     float *work) {
    float *strips = work, *panels = strips + SS_PANEL * STRIP;
    float *tiles = panels + PANELS * SS_PANEL * w->in;
    /* One row wants several panels at a time, and so does a file that has outputs side by side. */
    size_t most = T == 1 || w->in_out ? PANELS * SS_PANEL : SS_PANEL;
    ss_tile(tiles, a, w->in, T, w->in);
    if (w->panels) {
        ss_matmul(out, w->out, tiles, w->panels, bias, T, w->out, w->in);
        return;
    }
    for (size_t n = 0; n < w->out; n += most) {
        size_t columns = smaller(w->out - n, most);
        unpack_panels(panels, w, n, columns, strips);
        ss_matmul(out + n, w->out, tiles, panels, bias ? bias + n : NULL, T, columns, w->in);
    }
}

void ss_matrix_panels(float *panels, const ss_matrix *w, float *work) {
    size_t most = PANELS * SS_PANEL;
    for (size_t n = 0; n < w->out; n += most)
        unpack_panels(panels + n * w->in, w, n, smaller(w->out - n, most), work);
}

void ss_matrix_output(float *out, const ss_matrix *w, size_t n) {
    if (!w->in_out) {
        unpack_strip(out, w, n, 0, w->in);
        return;
    }
    size_t place = ss_matrix_place(w, n);
    for (size_t k = 0; k < w->in; k++)
        ss_unpack(out + k, w->data + ss_dtype_bytes(w->type, k * w->total + place), w->type, 1);
}
