#include "feature.h"

#include "../math/kernels.h"
#include "linear.h"

#include <math.h>

static void map_mlp(ss_pass *pass, const ss_layer *layer, float *rows, size_t n) {
    size_t K = (size_t)pass->trace->model->arch.K, C = (size_t)pass->trace->capacity;
    size_t rows_max = ss_min_size(C, SS_MAP_ROWS);
    for (size_t i = 0; i < n; i += rows_max, rows += rows_max * K) {
        size_t count = ss_min_size(n - i, rows_max);
        ss_linear_rows(pass, rows, rows, &layer->kernel_in, count);
        ss_relu(rows, count * K);
        ss_linear_rows(pass, rows, rows, &layer->kernel_out, count);
    }
}

void ss_map_features(ss_pass *pass, int a, ss_feature feature, float *rows, size_t n) {
    const ss_model *model = pass->trace->model;
    if (feature == SS_FEATURE_ELU1) ss_elu1(rows, n * (size_t)model->arch.K);
    if (feature == SS_FEATURE_MLP) map_mlp(pass, &model->layers[model->arch.layers[a]], rows, n);
}

/* Returns ALiBi's slope of head h: 2^(-8(h+1)/H) if H is a power of two. Otherwise the first heads
 * use the slopes of the power below, and the others every second slope of the power above (Press et
 * al. 2022, footnote of section 3). Repeated square roots of 1/256 give the base, so that only
 * products round. */
static float alibi_slope(int H, int h) {
    double root = 1.0 / 256.0, slope = 1.0; /* root: the power-th root of 1/256 */
    int power = 1, exponent = h + 1;
    for (; 2 * power <= H; power *= 2) root = sqrt(root);
    if (h >= power) {
        root = sqrt(root);
        exponent = 2 * (h - power) + 1;
    }
    for (int i = 0; i < exponent; i++) slope *= root;
    return (float)slope;
}

/* The smallest distances of T5's buckets 17 .. 31. */
static const unsigned char bucket_starts[] = {19, 21, 24, 27, 31, 35, 40, 46,
                                              52, 59, 67, 77, 87, 99, 113};

/* Returns the index of T5's bucket of a distance d: d itself below 16, then 16 + floor(16 ln(d/16)
 * / ln 8), at most 31. */
static float bucket_of(int distance) {
    int bucket = 16;
    if (distance < 16) return (float)(distance > 0 ? distance : 0);
    while (bucket < 16 + (int)sizeof bucket_starts && distance >= bucket_starts[bucket - 16])
        bucket++;
    return (float)bucket;
}

void ss_add_distances(float *x, size_t n, const ss_arch *arch, int h, int t,
                      const int32_t *positions) {
    bool is_relative = arch->positions == SS_POSITIONS_RELATIVE;
    if (!is_relative && arch->positions != SS_POSITIONS_ALIBI) return;
    float slope = alibi_slope(arch->H, h);
    for (size_t j = 0; j < n; j++) {
        /* Negative where an edit has swapped positions; counts as 0, with ALiBi and T5 alike. */
        int distance = positions[t] - positions[j];
        if (is_relative)
            x[j] += bucket_of(distance);
        else if (distance > 0)
            x[j] -= slope * (float)distance;
    }
}
