#include "maps.h"

#include "../math/kernels.h"
#include "attention.h"

#include <math.h>
#include <string.h>

void ss_map_link(const ss_trace *trace) {
    if (trace->pass) trace->pass->trace = (ss_trace *)(uintptr_t)trace;
}

ss_pool *ss_map_pool(const ss_trace *trace) {
    bool is_computed = trace->computed_fields & SS_BIT(SS_FIELD_ATT);
    return is_computed && !ss_heads_are_independent(trace->pass) ? NULL : trace->pool;
}

void ss_map_read(const ss_trace *trace, ss_field_id field, int head, int t, int n, size_t worker,
                 ss_map_reader *reader, void *context) {
    if (trace->computed_fields & SS_BIT(field)) {
        ss_recompute_rows(trace->pass, field, head, t, n, worker, reader, context);
        return;
    }
    for (int end = t + n, rows; t < end; t += rows) {
        rows = ss_min(SS_MAP_ROWS, end - t);
        reader(context, t, rows, ss_row(trace, field, head, t), trace->widths[field]);
    }
}

static ss_status check_map(const ss_trace *trace, ss_field_id field, int l, int h, ss_error *err) {
    const ss_arch *arch = &trace->model->arch;
    const char *name = ss_fields()[field].name;
    if (!(SS_FIELDS_MAPS & trace->fields & SS_BIT(field)))
        return ss_fail(err, SS_BAD_REQUEST, name, "this run did not record the field");
    if (trace->summed_fields & SS_BIT(field)) return ss_trace_refuse_summed((int)field, err);
    if (l < 0 || l >= arch->L || h < 0 || h >= arch->H)
        return ss_fail(err, SS_BAD_REQUEST, name,
                       "expected a layer below %d and a head below %d, found %d and %d", arch->L,
                       arch->H, l, h);
    return SS_OK;
}

typedef struct map_copy {
    const ss_trace *trace;
    int head, first;
    float *out;
} map_copy;

static void copy_rows(void *context, int t, int n, const float *x, size_t stride) {
    const map_copy *copy = context;
    size_t T = (size_t)copy->trace->T;
    for (int r = 0; r < n; r++, x += stride) {
        float *row = copy->out + (size_t)(t + r - copy->first) * T;
        size_t end = (size_t)ss_row_end(copy->trace, copy->head, t + r);
        memcpy(row, x, end * sizeof *row);
        memset(row + end, 0, (T - end) * sizeof *row);
    }
}

ss_status ss_run_attention(ss_run *run, ss_field_id field, int l, int h, int t, int n, float *out,
                           ss_error *err) {
    const ss_trace *trace = &run->trace;
    ss_status status = check_map(trace, field, l, h, err);
    if (status == SS_OK) status = ss_trace_check_rows(trace, (int)field, t, n, err);
    if (status != SS_OK) return status;
    map_copy copy = {trace, l * trace->model->arch.H + h, t, out};
    ss_map_link(trace);
    ss_map_read(trace, field, copy.head, t, n, 0, copy_rows, &copy);
    return SS_OK;
}

typedef struct pooled_map {
    const ss_trace *trace;
    int head, side, n; /* side: tokens per block; n: blocks per side */
    float *sums, *largest;
} pooled_map;

/* Finds the keys that the mask shows to query t: [0, ends[0]) and [ends[1], ends[2]). */
static void find_visible(const pooled_map *pooled, int t, int ends[3]) {
    const ss_mask *mask = &pooled->trace->choices[pooled->head].mask;
    ends[2] = ss_row_end(pooled->trace, pooled->head, t);
    ends[0] = ss_min(mask->first, ends[2]);
    ends[1] = mask->recent < ends[2] - ends[0] ? ends[2] - mask->recent : ends[0];
}

static void add_cells(const pooled_map *pooled, size_t row, const float *x, int begin,
                      int row_end) {
    for (int j = begin, cell_end; j < row_end; j = cell_end) {
        size_t block = row + (size_t)(j / pooled->side);
        cell_end = ss_min(row_end, (j / pooled->side + 1) * pooled->side);
        pooled->sums[block] += ss_sum(x + j, (size_t)(cell_end - j));
        pooled->largest[block] =
            fmaxf(pooled->largest[block], ss_max(x + j, (size_t)(cell_end - j)));
    }
}

static void add_blocks(void *context, int t, int n, const float *x, size_t stride) {
    const pooled_map *pooled = context;
    for (int r = 0; r < n; r++, x += stride) {
        size_t row = (size_t)((t + r) / pooled->side) * (size_t)pooled->n;
        int ends[3];
        find_visible(pooled, t + r, ends);
        add_cells(pooled, row, x, 0, ends[0]);
        add_cells(pooled, row, x, ends[1], ends[2]);
    }
}

static int count_visible_cells(const pooled_map *pooled, int row, int column) {
    int count = 0, first_key = column * pooled->side, end_key = first_key + pooled->side;
    for (int t = row * pooled->side; t < ss_min(pooled->trace->T, (row + 1) * pooled->side); t++) {
        int ends[3];
        find_visible(pooled, t, ends);
        int first = ss_min(ends[0], end_key) - first_key,
            begin = ends[1] > first_key ? ends[1] : first_key;
        int recent = ss_min(ends[2], end_key) - begin;
        count += (first > 0 ? first : 0) + (recent > 0 ? recent : 0);
    }
    return count;
}

ss_status ss_run_pooled(ss_run *run, ss_field_id field, int l, int h, int b, float *out,
                        ss_error *err) {
    const ss_trace *trace = &run->trace;
    ss_status status = check_map(trace, field, l, h, err);
    if (status != SS_OK) return status;
    if (b < 1 || b > trace->T)
        return ss_fail(err, SS_BAD_REQUEST, ss_fields()[field].name,
                       "expected blocks of 1 to %d tokens, found %d", trace->T, b);
    int P = ss_blocks_of(trace, b);
    size_t cells = (size_t)P * (size_t)P;
    pooled_map pooled = {trace, l * trace->model->arch.H + h, b, P, out, out + cells};
    for (size_t i = 0; i < cells; i++) {
        pooled.sums[i] = 0.0f;
        pooled.largest[i] = -INFINITY;
    }
    ss_map_link(trace);
    ss_map_read(trace, field, pooled.head, 0, trace->T, 0, add_blocks, &pooled);
    for (size_t i = 0; i < cells; i++) {
        int count = count_visible_cells(&pooled, (int)i / P, (int)i % P);
        if (count)
            pooled.sums[i] /= (float)count;
        else
            pooled.largest[i] = 0.0f;
    }
    return SS_OK;
}

typedef struct statistics_job {
    const ss_trace *trace;
    unsigned groups;
    int T;
} statistics_job;

typedef struct head_reader {
    const statistics_job *job;
    int head;
} head_reader;

static void add_rows(void *context, int t, int n, const float *x, size_t stride) {
    const head_reader *reader = context;
    const ss_trace *trace = reader->job->trace;
    ss_statistics_add(trace, reader->job->groups, reader->head, t, n, trace->T, x, stride);
}

static void compute_head_statistics(const void *context, size_t head, size_t worker) {
    const statistics_job *job = context;
    head_reader reader = {job, (int)head};
    int t = ss_statistics_align(job->trace, job->groups, (int)head, job->T);
    if (t < job->T)
        ss_map_read(job->trace, SS_FIELD_ATT, (int)head, t, job->T - t, worker, add_rows, &reader);
}

static void compute_head_cosines(const void *context, size_t head, size_t worker) {
    const statistics_job *job = context;
    (void)worker;
    ss_statistics_add_recorded_queries(job->trace, (int)head, job->T);
}

void ss_statistics_compute(const ss_trace *trace, unsigned groups, int T) {
    uint64_t heads = (uint64_t)ss_heads(trace), cells = (uint64_t)T * (uint64_t)T;
    groups &= ~(unsigned)(SS_STATISTIC_NORMS |
                          SS_STATISTIC_SPECTRA); /* norms are computed from the vectors when
                                      they are read, and spectra in the pass */
    bool reads_queries = groups == SS_STATISTIC_COSINES;
    bool has_room =
        reads_queries ? trace->statistics.cosines != NULL : trace->statistics.alpha != NULL;
    if (!groups || !has_room || ss_statistics_are_complete(trace, groups, T)) return;
    SS_ASSERT(!trace->summed_fields); /* the rows of a measuring run cannot be computed again */
    if (reads_queries) {
        statistics_job job = {trace, 0, T};
        ss_pool_run(trace->pool, compute_head_cosines, &job, (size_t)heads,
                    heads * (uint64_t)T * (uint64_t)(4 * trace->model->arch.K));
        return;
    }
    bool is_computed = trace->computed_fields & SS_BIT(SS_FIELD_ATT);
    /* Computing rows again is expensive, so all groups read them at once. The group of entropies
     * needs the factors of the group of shares. */
    groups = is_computed ? ss_available_statistics(trace)
                         : groups | (groups & SS_STATISTIC_ENTROPY ? SS_STATISTIC_SHARES : 0);
    statistics_job job = {trace, groups, T};
    ss_map_link(trace);
    uint64_t work = heads * cells * (is_computed ? (uint64_t)trace->model->arch.K : 1);
    ss_pool_run(ss_map_pool(trace), compute_head_statistics, &job, (size_t)heads, work);
}
