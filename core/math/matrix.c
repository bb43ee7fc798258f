#include "matrix.h"

#include "../base/bytes.h"
#include "blocks.h"
#include "fixed.h"
#include "joined.h"
#include "unpack.h"

#include <stdint.h>
#include <string.h>

/* Inputs unpacked at a time: a whole number of blocks of every type. */
#define STRIP (SS_GROUPS * SS_GROUP)

/* With fewer inputs, a row is multiplied with one panel at a time: reading one memory stream then
 * saves more time than independent sums do. */
#define NARROW_INPUTS 1024

/* Panels unpacked at a time where weights are stored by input: each row gives half a kilobyte. */
#define PANELS 16

/* Numbers reordered at a time: half a megabyte of floats, which the L2 cache holds. */
#define BLOCK_NUMBERS ((size_t)1 << 17)

size_t ss_matrix_place(const ss_matrix *w, size_t n) {
    if (w->pair) {
        /* The file stores the rotary pair (j, j + half) of a head at 2j and 2j + 1. */
        size_t j = n % w->pair, half = (w->pair - w->unpaired) / 2;
        size_t first = w->pairs_last ? w->unpaired : 0;
        if (j < 2 * half)
            n += w->halves ? first : first + (j < half ? 2 * j : 2 * (j - half) + 1) - j;
        else if (w->pairs_last)
            n -= 2 * half;
    }
    return w->first + n / w->group * w->step + n % w->group;
}

static size_t interleaved_outputs(const ss_matrix *w) {
    return w->interleaved ? w->out / SS_PANEL * SS_PANEL : 0;
}

static const unsigned char *panel_at(const ss_matrix *w, size_t n) {
    return w->data + ss_dtype_bytes(w->type, ss_matrix_place(w, n) * w->in);
}

/* Writes inputs [k, k + n) of an interleaved panel as floats [n][8]; for 16-bit types k and n are
 * even. */
static void spread_panel(float *out, const ss_matrix *w, const unsigned char *panel, size_t k,
                         size_t n) {
    panel += ss_dtype_bytes(w->type, k * SS_PANEL);
    if (w->type == SS_F32)
        memcpy(out, panel, n * SS_PANEL * sizeof *out);
    else
        ss_spread_pairs(out, panel, w->type == SS_F16, n);
}

static void unpack_strip(float *out, const ss_matrix *w, size_t o, size_t k, size_t n) {
    size_t place = ss_matrix_place(w, o);
    const unsigned char *row = w->data + place * ss_dtype_bytes(w->type, w->in);
    ss_unpack(out, row + ss_dtype_bytes(w->type, k), w->type, n);
    if (w->scales) ss_scale(out, w->scales[place], n);
}

/* Returns inputs [k, k + n) of output o: the file's floats, or others unpacked into strip. */
static const void *read_strip(float *strip, const ss_matrix *w, size_t o, size_t k, size_t n) {
    if (w->type == SS_F32) return w->data + (ss_matrix_place(w, o) * w->in + k) * sizeof *strip;
    unpack_strip(strip, w, o, k, n);
    return strip;
}

typedef struct panel_outputs {
    const ss_matrix *w;
    size_t n, width;
    const unsigned char *rows[SS_PANEL];
    const unsigned char *next; /* first row after these outputs in the file, or NULL */
    float scales[SS_PANEL];    /* the scales of SS_I8, as factors of groups */
    float *strips;             /* [8][STRIP], for types that are unpacked number by number */
} panel_outputs;

static void find_outputs(panel_outputs *e, const ss_matrix *w, size_t n, float *strips) {
    e->w = w;
    e->n = n;
    e->width = ss_min_size(w->out - n, SS_PANEL);
    e->strips = strips;
    for (size_t lane = 0; lane < e->width; lane++) {
        size_t place = ss_matrix_place(w, n + lane);
        e->rows[lane] = w->data + place * ss_dtype_bytes(w->type, w->in);
        e->scales[lane] = (w->scales ? w->scales[place] : 1.0f) * 0x1p-24f;
    }
    size_t next = n + SS_PANEL < w->out ? ss_matrix_place(w, n + SS_PANEL) : w->total;
    bool has_next = next + SS_PANEL <= w->total;
    e->next = has_next ? w->data + next * ss_dtype_bytes(w->type, w->in) : NULL;
}

static void read_strips(const void *lanes[SS_PANEL], const panel_outputs *e, size_t k, size_t n) {
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        lanes[lane] =
            lane < e->width ? read_strip(e->strips + lane * STRIP, e->w, e->n + lane, k, n) : NULL;
}

static size_t grouped_inputs(const ss_matrix *w) {
    return w->type >= SS_I8 ? w->in - w->in % SS_GROUP : 0;
}

/* Zeroes lanes without an output and sets the factors of SS_I8; read_groups sets all else. */
static void begin_groups(ss_groups *groups, const panel_outputs *e) {
    if (e->width < SS_PANEL) memset(groups, 0, sizeof *groups);
    for (size_t i = 0; e->w->type == SS_I8 && i < SS_GROUPS; i++)
        memcpy(groups->d[0][i], e->scales, sizeof e->scales);
}

static size_t read_groups(ss_groups *groups, const panel_outputs *e, size_t k) {
    const ss_matrix *w = e->w;
    size_t count = ss_min_size(w->in - w->in % SS_GROUP - k, STRIP);
    ss_read_groups(groups, w->type, e->rows, e->width, k / SS_GROUP, count / SS_GROUP);
    groups->prefetch_stride = e->next ? SS_PANEL * ss_dtype_bytes(w->type, count) / (count / 8) : 0;
    groups->prefetch = e->next ? e->next + SS_PANEL * ss_dtype_bytes(w->type, k) : e->rows[0];
    return count;
}

static void fill_panel_from_rows(float *panel, const panel_outputs *e) {
    const ss_matrix *w = e->w;
    size_t k = 0;
    ss_groups groups;
    if (grouped_inputs(w)) begin_groups(&groups, e);
    for (size_t count; k < grouped_inputs(w); k += count) {
        count = read_groups(&groups, e, k);
        ss_spread_groups(panel + k * SS_PANEL, &groups);
    }
    for (size_t count; k < w->in; k += count) {
        const void *lanes[SS_PANEL];
        count = ss_min_size(w->in - k, STRIP);
        read_strips(lanes, e, k, count);
        ss_interleave(panel + k * SS_PANEL, lanes, count);
    }
}

static void row_times_outputs(float *sums, const float *a, const panel_outputs *e) {
    const ss_matrix *w = e->w;
    size_t k = 0, limit = w->type == SS_F32 ? w->in : STRIP;
    ss_groups groups;
    if (grouped_inputs(w)) begin_groups(&groups, e);
    for (size_t count; k < grouped_inputs(w); k += count) {
        count = read_groups(&groups, e, k);
        ss_times_groups(sums, a + k, &groups);
    }
    for (size_t count; k < w->in; k += count) {
        const void *lanes[SS_PANEL];
        count = ss_min_size(w->in - k, limit);
        read_strips(lanes, e, k, count);
        for (size_t lane = e->width; lane < SS_PANEL; lane++) lanes[lane] = lanes[0];
        ss_times_rows(sums, a + k, lanes, count);
    }
}

static size_t adjacent_outputs(const ss_matrix *w, size_t n, size_t limit) {
    return w->pair ? 1 : ss_min_size(limit, w->group - n % w->group);
}

/* Writes the panels of outputs [n, n + columns) of a tensor stored by input, [in][total]. */
static void fill_panels_from_columns(float *panels, const ss_matrix *w, size_t n, size_t columns) {
    size_t adjacent = adjacent_outputs(w, n, columns), place = ss_matrix_place(w, n);
    size_t plain_columns =
        w->type == SS_F32 && adjacent == columns ? columns - columns % SS_PANEL : 0;
    for (size_t k = 0; k < w->in; k++) {
        const unsigned char *row = w->data + ss_dtype_bytes(w->type, k * w->total);
        for (size_t c = 0; c < plain_columns; c += SS_PANEL)
            memcpy(panels + c * w->in + k * SS_PANEL, row + (place + c) * sizeof *panels,
                   SS_PANEL * sizeof *panels);
        if (plain_columns == columns) continue;
        float strip[PANELS * SS_PANEL] = {0};
        if (adjacent == columns)
            ss_unpack(strip, row + ss_dtype_bytes(w->type, place), w->type, columns);
        else
            for (size_t c = 0; c < columns; c++)
                ss_unpack(strip + c, row + ss_dtype_bytes(w->type, ss_matrix_place(w, n + c)),
                          w->type, 1);
        for (size_t c = 0; c < columns; c += SS_PANEL)
            memcpy(panels + c * w->in + k * SS_PANEL, strip + c, SS_PANEL * sizeof *strip);
    }
}

static void unpack_panels(float *panels, const ss_matrix *w, size_t n, size_t columns,
                          float *strips) {
    if (w->in_out) {
        fill_panels_from_columns(panels, w, n, columns);
        return;
    }
    for (size_t c = 0; c < columns; c += SS_PANEL) {
        panel_outputs e = {0};
        find_outputs(&e, w, n + c, strips);
        fill_panel_from_rows(panels + c * w->in, &e);
    }
}

typedef struct product {
    float *out; /* [T][w->out] */
    const float *tiles, *bias;
    const ss_matrix *w;
    size_t T, columns;
    float *work; /* [workers], each with strips [8][STRIP] and panels [PANELS][in][8] */
} product;

static void row_times_rows(float *out, const float *a, const ss_matrix *w, size_t n, size_t end,
                           float *strips) {
    for (; n < end; n += SS_PANEL) {
        float sums[SS_PANEL] = {0};
        panel_outputs e = {0};
        find_outputs(&e, w, n, strips);
        ss_copy(sums, out + n, e.width);
        row_times_outputs(sums, a, &e);
        ss_copy(out + n, sums, e.width);
    }
}

static void row_times_columns(float *out, const float *a, const ss_matrix *w, size_t n,
                              size_t count, float *strips) {
    size_t stride = ss_dtype_bytes(w->type, w->total);
    const unsigned char *rows = w->data + ss_dtype_bytes(w->type, ss_matrix_place(w, n));
    if (w->type == SS_F32) {
        ss_times_columns(out, a, rows, stride, count, w->in);
        return;
    }
    for (size_t k = 0; k < w->in; k += SS_PANEL) {
        size_t inputs = ss_min_size(w->in - k, SS_PANEL);
        for (size_t i = 0; i < inputs; i++)
            ss_unpack(strips + i * STRIP, rows + (k + i) * stride, w->type, count);
        ss_times_columns(out, a + k, strips, STRIP * sizeof *strips, count, inputs);
    }
}

static void multiply_row(const product *p, size_t n, size_t end, float *strips) {
    const ss_matrix *w = p->w;
    if (p->bias)
        memcpy(p->out + n, p->bias + n, (end - n) * sizeof *p->out);
    else
        memset(p->out + n, 0, (end - n) * sizeof *p->out);
    if (!w->in_out) {
        row_times_rows(p->out, p->tiles, w, n, end, strips);
        return;
    }
    size_t limit = w->type == SS_F32 ? w->out : STRIP;
    for (size_t count; n < end; n += count) {
        count = adjacent_outputs(w, n, ss_min_size(end - n, limit));
        row_times_columns(p->out + n, p->tiles, w, n, count, strips);
    }
}

static size_t worker_floats(size_t in) {
    return SS_PANEL * STRIP + PANELS * SS_PANEL * in;
}

size_t ss_matrix_work(size_t T, size_t in, size_t workers) {
    /* After the workers' memory: tiles [T][in] of floats; for fixed point, rows that fill the last
     * tile, and two numbers per group. */
    return workers * worker_floats(in) + T * in + 5 * T + T * in / 16 + 10 * in;
}

static void multiply_panels(const product *p, size_t n, size_t columns, const float *panels) {
    const ss_matrix *w = p->w;
    ss_matmul(p->out + n, w->out, p->tiles, panels, p->bias ? p->bias + n : NULL, p->T, columns,
              w->in);
}

static size_t multiply_interleaved(const product *p, size_t n, size_t end, float *panels) {
    const ss_matrix *w = p->w;
    size_t begin = n;
    bool is_float = w->type == SS_F32, is_wide = is_float && (p->T > 1 || w->in >= NARROW_INPUTS);
    end = ss_min_size(end, interleaved_outputs(w));
    for (size_t columns; n < end; n += columns) {
        const float *numbers = (const float *)(const void *)panel_at(w, n);
        columns = is_wide ? adjacent_outputs(w, n, end - n) : SS_PANEL;
        if (!is_float) spread_panel(panels, w, panel_at(w, n), 0, w->in);
        multiply_panels(p, n, columns, is_float ? numbers : panels);
    }
    return n - begin;
}

static void multiply_piece(const void *job, size_t i, size_t worker) {
    const product *p = job;
    const ss_matrix *w = p->w;
    float *strips = p->work + worker * worker_floats(w->in), *panels = strips + SS_PANEL * STRIP;
    size_t n = i * p->columns, end = ss_min_size(w->out, n + p->columns);
    if (w->panels) {
        multiply_panels(p, n, end - n, w->panels + n * w->in);
        return;
    }
    n += multiply_interleaved(p, n, end, panels);
    if (n >= end) return;
    if (p->T == 1) {
        multiply_row(p, n, end, strips);
        return;
    }
    unpack_panels(panels, w, n, end - n, strips);
    multiply_panels(p, n, end - n, panels);
}

/* Returns the number of outputs of a piece: as many as one worker unpacks at a time. A product of
 * one row, or with packed or interleaved weights, has four pieces per worker, so that no thread
 * waits long for another's last piece. */
static size_t piece_columns(const ss_matrix *w, size_t T, size_t workers) {
    if (T > 1 && !w->panels && !w->interleaved) return w->in_out ? PANELS * SS_PANEL : SS_PANEL;
    size_t pieces = workers > 1 ? 4 * workers : 1;
    return (w->out / pieces / SS_PANEL + 1) * SS_PANEL;
}

bool ss_matrix_is_fixed(const ss_matrix *w) {
    ss_dtype type = w->type;
    return type == SS_Q8_0 || type == SS_Q4_0 || type == SS_Q4_1 || type == SS_Q4_K;
}

/* A product in pieces: tiles of five rows, and one or two remaining rows singly. */
typedef struct fixed_product {
    float *out;
    const float *bias;
    const ss_matrix *w;
    size_t T, columns, tiles;
    const ss_fixed_tile *tile; /* [tiles][groups] */
    const ss_fixed *rows;      /* [remaining rows][groups] */
    float *work;               /* [workers], each with the groups of a panel */
} fixed_product;

/* Eight outputs from n, and the groups that read_fixed_groups read last. */
typedef struct fixed_outputs {
    const ss_matrix *w;
    size_t n;
    const unsigned char *panel; /* the interleaved panel of these outputs, or NULL */
    panel_outputs rows;         /* the rows of these outputs, if they are not interleaved */
    ss_fixed_groups groups;
    unsigned char joined[SS_PANEL * SS_GROUPS * 34];
} fixed_outputs;

static void find_fixed_outputs(fixed_outputs *e, const ss_matrix *w, size_t n) {
    e->w = w;
    e->n = n;
    e->panel = n < interleaved_outputs(w) ? panel_at(w, n) : NULL;
    if (!e->panel) find_outputs(&e->rows, w, n, NULL);
}

/* Returns the largest number of inputs per read: all of them if the file's bytes are used in place
 * and their factors need no unpacking. */
static size_t max_fixed_inputs(const fixed_outputs *e) {
    return e->panel && ss_dtype_block(e->w->type) == SS_GROUP ? e->w->in : STRIP;
}

static size_t read_fixed_groups(fixed_outputs *e, size_t k, size_t limit) {
    ss_dtype type = e->w->type;
    size_t count = ss_min_size(e->w->in - k, limit), offset = ss_dtype_bytes(type, k);
    const unsigned char *joined = e->panel ? e->panel + SS_PANEL * offset : e->joined;
    if (!e->panel) {
        const void *rows[SS_PANEL];
        for (size_t lane = 0; lane < e->rows.width; lane++)
            rows[lane] = e->rows.rows[lane] + offset;
        ss_join_blocks(e->joined, rows, e->rows.width, type, count / ss_dtype_block(type));
    }
    ss_read_fixed_groups(&e->groups, type, joined, count / SS_GROUP);
    return count;
}

static void tiles_times_outputs(const fixed_product *p, fixed_outputs *e, ss_fixed_panel *panel,
                                const float start[SS_PANEL], size_t width) {
    size_t n = p->w->in / SS_GROUP;
    for (size_t k = 0, count; k < p->w->in; k += count) {
        count = read_fixed_groups(e, k, max_fixed_inputs(e));
        ss_spread_fixed(panel + k / SS_GROUP, &e->groups);
    }
    for (size_t t = 0; t < p->tiles * SS_FIXED_ROWS; t += SS_FIXED_ROWS) {
        float sums[SS_FIXED_ROWS * SS_PANEL];
        for (size_t r = 0; r < SS_FIXED_ROWS; r++) ss_copy(sums + r * SS_PANEL, start, SS_PANEL);
        ss_tile_times_fixed(sums, p->tile + t / SS_FIXED_ROWS * n, panel, n);
        for (size_t r = 0; r < SS_FIXED_ROWS && t + r < p->T; r++)
            ss_copy(p->out + (t + r) * p->w->out + e->n, sums + r * SS_PANEL, width);
    }
}

static void multiply_fixed_piece(const void *job, size_t i, size_t worker) {
    const fixed_product *p = job;
    const ss_matrix *w = p->w;
    size_t end = ss_min_size(w->out, (i + 1) * p->columns);
    ss_fixed_panel *panel = (ss_fixed_panel *)(p->work + worker * worker_floats(w->in));
    for (size_t n = i * p->columns; n < end; n += SS_PANEL) {
        float start[SS_PANEL] = {0};
        size_t width = ss_min_size(w->out - n, SS_PANEL);
        fixed_outputs e;
        find_fixed_outputs(&e, w, n);
        if (p->bias) ss_copy(start, p->bias + n, width);
        if (p->tiles) tiles_times_outputs(p, &e, panel, start, width);
        for (size_t t = p->tiles * SS_FIXED_ROWS; t < p->T; t++) {
            float sums[SS_PANEL];
            const ss_fixed *row = p->rows + (t - p->tiles * SS_FIXED_ROWS) * (w->in / SS_GROUP);
            ss_copy(sums, start, SS_PANEL);
            for (size_t k = 0, count; k < w->in; k += count) {
                count = read_fixed_groups(&e, k, max_fixed_inputs(&e));
                ss_times_fixed(sums, row + k / SS_GROUP, &e.groups);
            }
            ss_copy(p->out + t * w->out + n, sums, width);
        }
    }
}

static void multiply_fixed(float *out, const float *a, const ss_matrix *w, const float *bias,
                           size_t T, float *work, ss_pool *pool) {
    size_t workers = ss_pool_workers(pool), n = w->in / SS_GROUP, tiles = (T + 2) / SS_FIXED_ROWS;
    ss_fixed *rows = (ss_fixed *)(work + workers * worker_floats(w->in));
    ss_fixed_tile *tile = (ss_fixed_tile *)(rows + SS_FIXED_ROWS * n);
    fixed_product p = {out, bias, w, T, piece_columns(w, T, workers), tiles, tile, rows, work};
    for (size_t t = 0; t < T; t += SS_FIXED_ROWS) {
        size_t count = ss_min_size(T - t, SS_FIXED_ROWS);
        memset(rows, 0, SS_FIXED_ROWS * n * sizeof *rows);
        for (size_t r = 0; r < count; r++) ss_fixed_row(rows + r * n, a + (t + r) * w->in, n);
        if (t / SS_FIXED_ROWS < tiles) ss_tile_fixed(tile + t / SS_FIXED_ROWS * n, rows, n);
    }
    ss_pool_run(pool, multiply_fixed_piece, &p, (w->out + p.columns - 1) / p.columns,
                (uint64_t)T * w->in * w->out);
}

/* Writes inputs [k, k + count) of output n of an interleaved matrix; k is a multiple of STRIP. */
static void write_fixed_strip(float *out, const ss_matrix *w, size_t n, size_t k, size_t count) {
    fixed_outputs e;
    size_t lane = n % SS_PANEL;
    find_fixed_outputs(&e, w, n - lane);
    read_fixed_groups(&e, k, STRIP);
    for (size_t i = 0; i < count / SS_GROUP; i++, out += SS_GROUP) {
        float d[SS_PANEL], m[SS_PANEL];
        int offset = e.groups.kind == SS_NIBBLES_MINUS_8 ? 8 : 0;
        ss_fixed_factors(d, m, &e.groups, i);
        if (e.groups.kind == SS_BYTES) d[lane] /= SS_BYTE_FACTOR;
        for (size_t j = 0; j < SS_GROUP; j++) {
            out[j] = (float)(ss_fixed_integer(&e.groups, i, j, lane) - offset) * d[lane];
            if (e.groups.kind >= SS_NIBBLES_PLUS_M) out[j] += m[lane];
        }
    }
}

void ss_matrix_times(float *out, const float *a, const ss_matrix *w, const float *bias, size_t T,
                     float *work, ss_pool *pool) {
    if (ss_matrix_is_fixed(w)) {
        multiply_fixed(out, a, w, bias, T, work, pool);
        return;
    }
    size_t workers = ss_pool_workers(pool), columns = piece_columns(w, T, workers);
    float *tiles = work + workers * worker_floats(w->in);
    product p = {out, tiles, bias, w, T, columns, work};
    ss_tile(tiles, a, w->in, T, w->in);
    ss_pool_run(pool, multiply_piece, &p, (w->out + columns - 1) / columns,
                (uint64_t)T * w->in * w->out);
}

void ss_matrix_unpack(float *panels, const ss_matrix *w) {
    size_t columns_max = PANELS * SS_PANEL;
    float strips[SS_PANEL * STRIP];
    for (size_t n = 0; n < w->out; n += columns_max)
        unpack_panels(panels + n * w->in, w, n, ss_min_size(w->out - n, columns_max), strips);
}

/* Returns true if every eight consecutive outputs are adjacent in the file, after the rotary pairs
 * of each head are reordered. */
static bool outputs_form_panels(const ss_matrix *w) {
    bool is_one_group = w->group >= w->out;
    bool is_aligned = is_one_group || (w->group % SS_PANEL == 0 && w->step % SS_PANEL == 0);
    /* The ternary avoids a remainder by 0, which traps in wasm even where its result is not
     * used. */
    bool has_heads = w->pair % SS_PANEL == 0 && w->out % (w->pair ? w->pair : 1) == 0;
    bool is_whole = w->total % SS_PANEL == 0 && w->out % SS_PANEL == 0 && !w->pair;
    return w->first % SS_PANEL == 0 && is_aligned && has_heads && (is_whole || !w->in_out);
}

static bool can_interleave(const ss_matrix *w) {
    bool is_float = w->type == SS_F32 && (uintptr_t)w->data % sizeof(float) == 0;
    bool is_short = (w->type == SS_F16 || w->type == SS_BF16) && w->in % 2 == 0;
    if (!w->data || w->panels || w->interleaved || !outputs_form_panels(w)) return false;
    return is_float || is_short || ss_matrix_is_fixed(w);
}

/* Returns the number of inputs of a tensor [in][total] that are reordered together: a divisor of
 * `in`, even for 16-bit types, and small enough for their outputs to stay in the L2 cache. */
static size_t block_inputs(const ss_matrix *w) {
    size_t unit = w->type == SS_F32 ? 1 : 2,
           inputs = ss_min_size(w->in, BLOCK_NUMBERS / w->total / unit * unit);
    if (inputs < unit) inputs = unit;
    while (w->in % inputs) inputs -= unit;
    return inputs;
}

size_t ss_matrix_interleave_work(const ss_matrix *w) {
    if (!can_interleave(w)) return 0;
    if (!w->in_out) return ss_max_size(w->pair, SS_PANEL) * w->in;
    size_t inputs = block_inputs(w), block = inputs * w->total;
    size_t pieces = w->in / inputs * (w->total / SS_PANEL + 1);
    return ss_max_size(block, inputs * SS_PANEL + pieces);
}

/* Copies inputs [k, k + n) as panels [total/8][n][8], or [n/2][8][2] of 16-bit types. */
static void reorder_block(unsigned char *out, const ss_matrix *w, size_t k, size_t n) {
    size_t width = ss_dtype_bytes(w->type, SS_PANEL), stride = width * (w->total / SS_PANEL);
    const unsigned char *rows = w->data + k * stride;
    for (size_t p = 0; p < w->total / SS_PANEL; p++, rows += width)
        for (size_t i = 0; i < n; i++, out += width)
            if (w->type == SS_F32)
                memcpy(out, rows + i * stride, SS_PANEL * sizeof(float));
            else /* two inputs of four outputs at a time */
                for (size_t c = 0; c < SS_PANEL; c++)
                    memcpy(out + 2 * c,
                           rows + (i - i % 2 + c % 2) * stride + i % 2 * width / 2 + c / 2 * 2, 2);
}

/* Transposes pieces [blocks][panels] of `bytes` bytes to [panels][blocks] in place, moving each
 * once along the cycles of this permutation. */
static void transpose_pieces(unsigned char *pieces, size_t blocks, size_t panels, size_t bytes,
                             unsigned char *work) {
    unsigned char *spare = work, *is_moved = work + bytes;
    if (blocks == 1) return;
    memset(is_moved, 0, blocks * panels);
    for (size_t begin = 0; begin < blocks * panels; begin++) {
        if (is_moved[begin]) continue;
        memcpy(spare, pieces + begin * bytes, bytes);
        for (size_t target = begin, source;; target = source) {
            source = target % blocks * panels + target / blocks;
            is_moved[target] = 1;
            memcpy(pieces + target * bytes, source == begin ? spare : pieces + source * bytes,
                   bytes);
            if (source == begin) break;
        }
    }
}

/* Interleaves a tensor [in][total]: first turns each block of inputs into panels, in place; then
 * brings the pieces of each panel together. */
static void interleave_columns(const ss_matrix *w, unsigned char *work) {
    size_t inputs = block_inputs(w), bytes = ss_dtype_bytes(w->type, inputs * w->total);
    size_t panels = w->total / SS_PANEL;
    unsigned char *tensor = (unsigned char *)(size_t)w->data;
    for (size_t k = 0; k < w->in; k += inputs) {
        reorder_block(work, w, k, inputs);
        memcpy(tensor + k / inputs * bytes, work, bytes);
    }
    transpose_pieces(tensor, w->in / inputs, panels, bytes / panels, work);
}

/* Interleaves a tensor [total][in]. If the file permutes the outputs of a head, all outputs of
 * the head move together. Two 16-bit numbers move as one of 32 bits. */
static void interleave_rows(ss_matrix *w, float *work) {
    size_t bytes = ss_dtype_bytes(w->type, w->in), outputs = w->pair ? w->pair : SS_PANEL;
    ss_matrix result = *w;
    result.pair = 0;
    for (size_t n = 0; n + outputs <= w->out; n += outputs) {
        for (size_t c = 0; c < outputs; c += SS_PANEL) {
            const void *rows[SS_PANEL];
            float *panel = work + c * bytes / sizeof *work;
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                rows[lane] = w->data + ss_matrix_place(w, n + c + lane) * bytes;
            if (ss_matrix_is_fixed(w))
                ss_join_blocks((unsigned char *)panel, rows, SS_PANEL, w->type,
                               w->in / ss_dtype_block(w->type));
            else
                ss_interleave(panel, rows, bytes / sizeof *panel);
        }
        memcpy((unsigned char *)(size_t)panel_at(&result, n), work, outputs * bytes);
    }
    *w = result;
}

void ss_matrix_interleave(ss_matrix *w, float *work) {
    if (!can_interleave(w)) return;
    if (!w->in_out)
        interleave_rows(w, work);
    else if (w->first == 0)
        interleave_columns(w, (unsigned char *)work);
    w->in_out = false;
    w->interleaved = true;
}

static void write_output_strip(float *out, const ss_matrix *w, size_t n, size_t k, size_t count) {
    if (n < interleaved_outputs(w) && ss_matrix_is_fixed(w)) {
        write_fixed_strip(out, w, n, k, count);
        return;
    }
    if (n < interleaved_outputs(w)) {
        float panel[STRIP * SS_PANEL];
        spread_panel(panel, w, panel_at(w, n - n % SS_PANEL), k, count);
        for (size_t i = 0; i < count; i++) out[i] = panel[i * SS_PANEL + n % SS_PANEL];
        return;
    }
    if (!w->in_out) {
        unpack_strip(out, w, n, k, count);
        return;
    }
    size_t place = ss_matrix_place(w, n);
    for (size_t i = 0; i < count; i++)
        ss_unpack(out + i, w->data + ss_dtype_bytes(w->type, (k + i) * w->total + place), w->type,
                  1);
}

void ss_matrix_unpack_output(float *out, const ss_matrix *w, size_t n) {
    for (size_t k = 0; k < w->in; k += STRIP)
        write_output_strip(out + k, w, n, k, ss_min_size(w->in - k, STRIP));
}

float ss_matrix_weight(const ss_matrix *w, size_t n, size_t k) {
    float strip[STRIP];
    size_t begin = k - k % STRIP;
    write_output_strip(strip, w, n, begin, ss_min_size(w->in - begin, STRIP));
    return strip[k % STRIP];
}

const float *ss_matrix_panel(float *work, const ss_matrix *w, size_t n) {
    float *rows = work + SS_PANEL * w->in;
    const void *lanes[SS_PANEL] = {NULL};
    if (w->panels) return w->panels + n * w->in;
    if (n < interleaved_outputs(w) && w->type == SS_F32) return (const void *)panel_at(w, n);
    for (size_t lane = 0; lane < SS_PANEL && n + lane < w->out; lane++) {
        lanes[lane] = rows + lane * w->in;
        ss_matrix_unpack_output(rows + lane * w->in, w, n + lane);
    }
    ss_interleave(work, lanes, w->in);
    return work;
}
