/*
 * Metrics on hand-made maps and vectors with answers in closed form, and on random maps against an
 * independent implementation (tests/golden/metrics). Numbers in names are the oracles of section 6
 * of the specification.
 */
#include "check.h"
#include "files.h"
#include "../../core/math/spectrum.h"

#include <math.h>

/* A trace without a model, with L layers, H heads and T tokens; all fields are zero. */
typedef struct fake {
    ss_layer layers[4];
    ss_model model;
    ss_trace trace;
    ss_arena arena;
    float *kept[16]; /* numbers of metrics, freed with the trace */
    int kept_n;
} fake;

static void fake_init(fake *f, const ss_arch *arch, int T, const char *operation) {
    int n;
    *f = (fake){0};
    f->model.arch = *arch;
    ss_attend_everywhere(&f->model.arch);
    f->trace = (ss_trace){.model = &f->model,
                          .fields = ss_fields_of(&f->model.arch),
                          .capacity = T,
                          .slots = T,
                          .T = T};
    ss_arena counting_arena = ss_arena_measure();
    ss_trace_lay_out(&f->trace, &counting_arena);
    f->arena = arena_of(counting_arena.used);
    memset(f->arena.block, 0, counting_arena.used);
    ss_trace_lay_out(&f->trace, &f->arena);
    for (int i = 0; i < arch->L * arch->H; i++) {
        f->trace.choices[i] =
            (ss_choice){&ss_operations(&n)[ss_operation_find(operation)], {0}, {0, INT_MAX, 0}};
        for (int t = 0; t < T; t++) *ss_row(&f->trace, SS_FIELD_SEEN, i, t) = (float)(t + 1);
    }
}

static void fake_open(fake *f, int L, int H, int T, int D, const char *operation) {
    fake_init(f, &(ss_arch){.L = L, .H = H, .G = H, .D = D, .K = D, .U = D, .V = 2}, T, operation);
}

static void fake_close(fake *f) {
    while (f->kept_n) free(f->kept[--f->kept_n]);
    free(f->arena.block);
}

#define scoped_fake __attribute__((cleanup(fake_close))) fake

static const float *keep(fake *f, float *numbers) {
    if (f->kept_n == 16) exit(2);
    return f->kept[f->kept_n++] = numbers;
}

static const float *metric_of(fake *f, const char *name) {
    return keep(f, measure(&f->trace, name, 0.3f, 0, 0, 0, NULL));
}

static float *weight_at(fake *f, int head, int i, int j) {
    size_t T = (size_t)f->trace.T;
    return ss_floats(&f->trace, SS_FIELD_ATT) + ((size_t)head * T + (size_t)i) * T + j;
}

static void check_all_on_first(void) {
    CASE("3. with all attention on the first key, alpha_1 is 1 and every other alpha 0");
    scoped_fake f;
    fake_open(&f, 1, 1, 64, 1, "softmax");
    for (int i = 0; i < 64; i++) *weight_at(&f, 0, i, 0) = 1;
    const float *alpha = metric_of(&f, "alpha");
    const float *sink = metric_of(&f, "sink_ratio");
    const float *entropy = metric_of(&f, "entropy_mean");
    for (int k = 0; k < 64; k++) {
        CHECK_NEAR(alpha[k], k == 0, 0);
        CHECK_NEAR(sink[k], k == 0, 0);
    }
    CHECK_NEAR(*entropy, 0, 0);
}

static void check_all_on_self(void) {
    CASE("3. with all attention on the query's own key, alpha_k is 1/(T-k+1), and only the last "
         "three keys are sinks");
    scoped_fake f;
    fake_open(&f, 1, 1, 64, 1, "softmax");
    for (int i = 0; i < 64; i++) *weight_at(&f, 0, i, i) = 1;
    const float *alpha = metric_of(&f, "alpha");
    const float *sink = metric_of(&f, "sink_ratio");
    for (int k = 0; k < 64; k++) {
        CHECK_NEAR(alpha[k], 1.0 / (64 - k), 1e-7);
        CHECK_NEAR(sink[k], k >= 61, 0);
    }
}

static void check_strictly_greater(void) {
    CASE("a head whose alpha_1 equals eps does not count, and is reported as near");
    scoped_fake f;
    fake_open(&f, 1, 2, 2, 1, "softmax");
    *weight_at(&f, 0, 0, 0) = 1;
    *weight_at(&f, 0, 1, 0) = 0; /* alpha_1 = 0.5 */
    *weight_at(&f, 0, 1, 1) = 1;
    *weight_at(&f, 1, 0, 0) = 1;
    *weight_at(&f, 1, 1, 0) = 0.5f; /* alpha_1 = 0.75 */
    *weight_at(&f, 1, 1, 1) = 0.5f;
    const float *at_eps = keep(&f, measure(&f.trace, "sink_ratio", 0.5f, 0, 0, 0, NULL));
    const float *below_eps = keep(&f, measure(&f.trace, "sink_ratio", 0.49f, 0, 0, 0, NULL));
    const float *near_eps = keep(&f, measure(&f.trace, "near_eps", 0.5f, 0, 0, 0, NULL));
    CHECK_NEAR(at_eps[0], 0.5, 0);
    CHECK_NEAR(below_eps[0], 1, 0);
    CHECK_NEAR(near_eps[0], 1, 0);
}

static void check_near_the_threshold(void) {
    CASE("alphas within 0.002 of eps, on either side, are near; 0.0025 away is not near");
    static const float alphas[] = {0.3f, 0.3015f, 0.2985f, 0.3025f, 0.2975f, 0.31f};
    enum { HEADS = sizeof alphas / sizeof *alphas };
    scoped_fake f;
    fake_open(&f, 1, HEADS, 1, 1, "softmax");
    for (int h = 0; h < HEADS; h++) *weight_at(&f, h, 0, 0) = alphas[h];
    const float *near_eps = metric_of(&f, "near_eps");
    CHECK_NEAR(near_eps[0], 3, 0);
}

static void check_uniform_baseline(void) {
    CASE("1. the uniform baseline has the numbers of the specification and of a uniform map");
    static const struct {
        int T;
        double alpha_1;
    } table[] = {{32, .1268}, {64, .0741}, {128, .0424}, {256, .0239}, {512, .0133}, {1024, .0073}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        scoped_fake f;
        fake_open(&f, 1, 1, table[i].T, 1, "softmax");
        for (int t = 0; t < table[i].T; t++)
            for (int j = 0; j <= t; j++) *weight_at(&f, 0, t, j) = 1.0f / (float)(t + 1);
        for (int t = 0; t < table[i].T; t++) ss_floats(&f.trace, SS_FIELD_V)[t] = 2;
        const float *uniform = metric_of(&f, "alpha_uniform");
        const float *alpha = metric_of(&f, "alpha");
        const float *contribution = metric_of(&f, "contribution_at");
        const float *sink = metric_of(&f, "sink_ratio");
        const float *entropy = metric_of(&f, "entropy");
        CHECK_NEAR(uniform[0], table[i].alpha_1, 5e-5);
        for (int k = 0; k < table[i].T; k++) {
            CHECK_NEAR(alpha[k], uniform[k], 1e-6);
            CHECK_NEAR(contribution[k], uniform[k], 1e-6); /* all values have the same norm */
            CHECK_NEAR(sink[k], 0, 0);
            CHECK_NEAR(entropy[k], k > 0, 1e-6);
        }
    }
}

static void check_long_prefix(void) {
    CASE("with a prefix longer than a block of columns, every query of the prefix counts");
    enum { T = 300, PREFIX = 280 };
    scoped_fake f;
    fake_open(&f, 1, 1, T, 1, "softmax");
    f.model.arch.prefix = f.trace.choices[0].mask.prefix = PREFIX;
    for (int i = 0; i < T; i++) {
        int seen = i < PREFIX ? PREFIX : i + 1;
        for (int j = 0; j < seen; j++) *weight_at(&f, 0, i, j) = 1.0f / (float)seen;
    }
    const float *alpha = metric_of(&f, "alpha");
    const float *uniform = metric_of(&f, "alpha_uniform");
    for (int k = 0; k < T; k++) CHECK_NEAR(alpha[k], uniform[k], 1e-6);
}

static void check_prefix_of_tokens(void) {
    CASE("tokens = n gives the numbers of a run of the first n tokens");
    scoped_fake full, part;
    fake_open(&full, 1, 1, 9, 1, "softmax");
    fake_open(&part, 1, 1, 5, 1, "softmax");
    for (int i = 0; i < 9; i++)
        for (int j = 0; j <= i; j++) {
            float w = (float)((i * 7 + j * 3) % 11) / 11.0f;
            *weight_at(&full, 0, i, j) = w;
            if (i < 5) *weight_at(&part, 0, i, j) = w;
        }
    metric_of(&full, "alpha");
    const float *a = keep(&full, measure(&full.trace, "alpha", 0.3f, 5, 0, 0, NULL));
    const float *b = metric_of(&part, "alpha");
    CHECK_BITS(a, b, 5 * sizeof *a);
}

static void check_proxies(void) {
    CASE("rows that do not sum to 1 have shares, raw weights and row sums that differ");
    scoped_fake f;
    fake_open(&f, 1, 1, 2, 1, "sigmoid");
    *weight_at(&f, 0, 0, 0) = 0.0001f;
    *weight_at(&f, 0, 1, 0) = 0.0003f;
    *weight_at(&f, 0, 1, 1) = 0.0001f;
    const float *alpha = metric_of(&f, "alpha");
    const float *raw_alpha = metric_of(&f, "alpha_raw");
    const float *mass = metric_of(&f, "row_mass_summary");
    CHECK_NEAR(alpha[0], (1.0 + 0.75) / 2,
               1e-4); /* the sink has the attention but contributes nothing */
    CHECK_NEAR(raw_alpha[0], 0.0002, 1e-9);
    CHECK_NEAR(mass[0], 0.00025, 1e-9);
    CHECK_NEAR(mass[1], 0.0001, 1e-9);
    CHECK_NEAR(mass[2], 0.0004, 1e-9);

    fake_close(&f);

    CASE("shares of signed weights use their magnitudes");
    fake_open(&f, 1, 1, 2, 1, "identity");
    *weight_at(&f, 0, 0, 0) = -2;
    *weight_at(&f, 0, 1, 0) = -3;
    *weight_at(&f, 0, 1, 1) = 1;
    alpha = metric_of(&f, "alpha");
    raw_alpha = metric_of(&f, "alpha_raw");
    CHECK_NEAR(alpha[0], 0.875, 1e-6);
    CHECK_NEAR(raw_alpha[0], -2.5, 1e-6);
    fake_close(&f);

    CASE("a row without mass has no entropy, and its share is 0, not NaN");
    fake_open(&f, 1, 1, 2, 1, "relu");
    const float *entropy = metric_of(&f, "entropy");
    alpha = metric_of(&f, "alpha");
    CHECK(isnan(entropy[1]));
    CHECK_NEAR(alpha[0], 0, 0);
}

/* Opens three tokens with these queries and keys of width 2. */
static void open_vectors(fake *f, const float q[6], const float k[6]) {
    fake_open(f, 1, 1, 3, 2, "softmax");
    memcpy(ss_floats(&f->trace, SS_FIELD_Q), q, 6 * sizeof *q);
    memcpy(ss_floats(&f->trace, SS_FIELD_K), k, 6 * sizeof *k);
}

static void check_geometry(void) {
    CASE("7. cos * norms = q.k, masked pairs are NaN, and an aligned first key gives the gap");
    scoped_fake f;
    open_vectors(&f, (float[6]){1, 0, 2, 0, 0, 3}, (float[6]){4, 0, 0, 5, 0, -1});
    const float *dot = metric_of(&f, "qk_dot");
    const float *cosine = metric_of(&f, "qk_cos");
    const float *norm = metric_of(&f, "qk_norm");
    const float *gap = metric_of(&f, "cos_gap");
    const float *single_token_gap = keep(&f, measure(&f.trace, "cos_gap", 0.3f, 1, 0, 0, NULL));
    for (int i = 0; i < 9; i++)
        if (i % 3 > i / 3)
            CHECK(isnan(dot[i]) && isnan(cosine[i]) && isnan(norm[i]));
        else
            CHECK_NEAR(cosine[i] * norm[i], dot[i], 1e-5);
    CHECK_NEAR(dot[7], 15, 1e-6);
    CHECK_NEAR(cosine[8], -1, 1e-6);
    CHECK_NEAR(*gap, (1 + 1 + 0) / 3.0 - (0 + 1 - 1) / 3.0, 1e-6);
    CHECK(isnan(*single_token_gap)); /* there is no other key */
}

static void check_no_direction(void) {
    CASE("a zero query or key has a cosine of NaN and a product of 0");
    scoped_fake f;
    open_vectors(&f, (float[6]){1, 0, 0, 0, 0, 3}, (float[6]){0, 0, 0, 5, 0, -1});
    const float *dot = metric_of(&f, "qk_dot");
    const float *cosine = metric_of(&f, "qk_cos");
    const float *norm = metric_of(&f, "qk_norm");
    for (int t = 0; t < 3; t++)
        for (int j = 0; j <= t; j++) {
            bool is_zero = t == 1 || j == 0; /* the vectors of query 1 and of key 0 are zero */
            CHECK(isnan(cosine[3 * t + j]) == is_zero);
            if (is_zero) CHECK_NEAR(dot[3 * t + j], 0, 0);
            if (is_zero) CHECK_NEAR(norm[3 * t + j], 0, 0);
        }
}

static void check_wide_gap(void) {
    CASE("the cosine gap is right for wide heads, and for fewer tokens after more");
    enum { T = 3, K = 300 };
    scoped_fake f;
    fake_open(&f, 1, 1, T, K, "softmax");
    for (int t = 0; t < T; t++) {
        ss_row(&f.trace, SS_FIELD_Q, 0, t)[K - 1] = 2;
        ss_row(&f.trace, SS_FIELD_K, 0, t)[t ? 0 : K - 1] = 3;
    }
    const float *gap = metric_of(&f, "cos_gap");
    const float *two_token_gap = keep(&f, measure(&f.trace, "cos_gap", 0.3f, 2, 0, 0, NULL));
    CHECK_NEAR(*gap, 1, 1e-6);
    CHECK_NEAR(*two_token_gap, 1, 1e-6);
    CASE("a gap of one token, and a ratio to vectors of length 0, are NaN");
    ss_row(&f.trace, SS_FIELD_V, 0, 0)[0] = 1;
    CHECK(isnan(*keep(&f, measure(&f.trace, "cos_gap", 0.3f, 1, 0, 0, NULL))));
    CHECK(isnan(*metric_of(&f, "value_ratio")));
}

static void check_bad_requests(void) {
    CASE("an impossible request is refused with its reason");
    scoped_fake f;
    fake_open(&f, 1, 2, 3, 1, "softmax");
    size_t dims[SS_RANK_MAX];
    ss_error err;
    int alpha = metric_index("alpha"), cosine = metric_index("qk_cos");
    ss_metric_args args = {0.3f, 4, 0, 0, NULL};
    CHECK_INT(ss_metric_shape(dims, &f.trace, alpha, &args, &err), -1);
    CHECK_INT((int)err.code, SS_BAD_REQUEST);
    int metrics;
    ss_metrics(&metrics);
    for (int i = 0; i < 2; i++) {
        int bad_metric = i ? metrics : -1;
        char text[64];
        CHECK_INT(ss_metric_shape(dims, &f.trace, bad_metric, &args, &err), -1);
        snprintf(text, sizeof text, "expected a metric from 0 to %d, found %d", metrics - 1,
                 bad_metric);
        CHECK_TEXT(err.text, text);
    }
    args = (ss_metric_args){0.3f, 3, 0, 2, NULL};
    CHECK_INT(ss_metric_shape(dims, &f.trace, cosine, &args, &err), -1);
    CHECK(strstr(err.text, "head below 2") != NULL);
    for (int head = -1; head <= 1; head++) {
        args = (ss_metric_args){0.3f, 3, 0, head, NULL};
        CHECK_INT(ss_metric_shape(dims, &f.trace, cosine, &args, &err), head < 0 ? -1 : 2);
    }
    for (int layer = -1; layer <= 1; layer++) {
        args = (ss_metric_args){0.3f, 3, layer, 1, NULL};
        CHECK_INT(ss_metric_shape(dims, &f.trace, cosine, &args, &err), layer ? -1 : 2);
        if (layer) CHECK(strstr(err.text, "layer below 1") != NULL);
    }
    for (int T = 0; T <= 4; T++) {
        args = (ss_metric_args){0.3f, T, 0, 0, NULL};
        CHECK_INT(ss_metric_shape(dims, &f.trace, alpha, &args, &err), T < 1 || T > 3 ? -1 : 3);
    }
    args = (ss_metric_args){0.3f, 3, 0, 0, NULL};
    CHECK_INT(ss_metric_shape(dims, &f.trace, -1, &args, &err), -1);
    args = (ss_metric_args){NAN, 3, 0, 0, NULL};
    CHECK_INT(ss_metric_shape(dims, &f.trace, metric_index("sink_ratio"), &args, &err), -1);
    CHECK_INT(ss_metric_shape(dims, &f.trace, 999, &args, &err), -1);
    f.trace.fields &= ~SS_BIT(SS_FIELD_ATT);
    CHECK_INT(ss_metric_shape(dims, &f.trace, alpha, &args, &err), -1);
    CHECK(strstr(err.text, "att") != NULL);
}

static void check_bad_bases(void) {
    CASE("two runs are compared only if they have the same model, enough tokens and the fields");
    scoped_fake f, short_run, other_run;
    fake_open(&f, 1, 2, 3, 1, "softmax");
    fake_open(&short_run, 1, 2, 2, 1, "softmax");
    fake_open(&other_run, 1, 2, 3, 1, "softmax");
    size_t dims[SS_RANK_MAX];
    ss_error err;
    int change = metric_index("hidden_change");
    ss_metric_args args = {0.3f, 3, 0, 0, NULL};
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), -1);
    CHECK(strstr(err.text, "another run of the same model") != NULL);
    args.base = &other_run.trace;
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), -1);
    CHECK(strstr(err.text, "another run of the same model") != NULL);
    other_run.trace.model = short_run.trace.model = &f.model;
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), 2);
    other_run.trace.fields &= ~SS_BIT(SS_FIELD_V);
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), 2);
    other_run.trace.fields &= ~SS_BIT(SS_FIELD_HIDDEN);
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), -1);
    CHECK(strstr(err.text, "did not record") != NULL);
    args.base = &short_run.trace;
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), -1);
    CHECK(strstr(err.text, "3 tokens or more to compare with, found 2") != NULL);
    args.T = 2;
    CHECK_INT(ss_metric_shape(dims, &f.trace, change, &args, &err), 2);
}

static void check_hits(void) {
    CASE("a hit is an earlier key with more than an even share that the cache still holds");
    scoped_fake base, evicted;
    fake_open(&base, 1, 3, 3, 1, "softmax");
    fake_open(&evicted, 1, 3, 3, 1, "softmax");
    evicted.trace.model = base.trace.model = &base.model;
    const float maps[3][9] = {{1, 0, 0, 0.9f, 0.1f, 0, 0.6f, 0.3f, 0.1f},
                              {-1, 0, 0, 0.2f, 0.8f, 0, 0, -0.5f, 0.25f},
                              {1, 0, 0, 0.5f, 0.5f, 0, 0.25f, 0.25f, 0.25f}};
    const float evicted_at[3][3] = {{2, NAN, NAN}, {1, NAN, NAN}, {1, 2, NAN}};
    const float shares[2] = {0.5f, 1};
    memcpy(ss_floats(&base.trace, SS_FIELD_ATT), maps, sizeof maps);
    memcpy(ss_floats(&evicted.trace, SS_FIELD_EVICTED), evicted_at, sizeof evicted_at);
    scoped float *out = measure_args(&evicted.trace, "cache_hits",
                                     (ss_metric_args){0.3f, 3, 0, 0, &base.trace}, NULL);
    for (int h = 0; h < 2; h++) CHECK_NEAR(out[h], shares[h], 0);
    CHECK(isnan(out[2]));
}

static const float *golden(const opened_file *file, const char *group, const char *name,
                           size_t *dims) {
    char key[64];
    snprintf(key, sizeof key, "%s.%s", group, name);
    const ss_entry *entry = ss_container_find(&file->container, key);
    if (!entry) exit(2);
    if (dims) memcpy(dims, entry->tensor.dims, sizeof entry->tensor.dims);
    size_t n =
        (entry->end - entry->begin) / sizeof(float); /* maps have more than tensor.dims holds */
    float *copy = malloc(n * sizeof *copy);
    if (!copy) exit(2);
    memcpy(copy, entry->tensor.data, n * sizeof *copy);
    return copy;
}

static void check_group(const opened_file *file, const char *maps_of, const char *group,
                        const char *operation, const char *metric, const char *name) {
    size_t dims[SS_RANK_MAX];
    const float *expected = golden(file, group, name, dims);
    const float *maps = golden(file, maps_of, "att", NULL);
    const float *metric1 = golden(file, group, "metric1", NULL);
    int N = (int)dims[0], L = (int)dims[1], H = (int)dims[2], T = (int)dims[3];
    size_t map_rows = (size_t)(L * H * T);
    float worst = 0, *sums = calloc((size_t)T, sizeof *sums);
    for (size_t s = 0; s < (size_t)N; s++) {
        scoped_fake f;
        fake_open(&f, L, H, T, 1, operation);
        memcpy(ss_floats(&f.trace, SS_FIELD_ATT), maps + s * map_rows * (size_t)T,
               map_rows * (size_t)T * sizeof *maps);
        const float *out = metric_of(&f, metric);
        for (size_t i = 0; i < map_rows; i++)
            worst = fmaxf(worst, fabsf(out[i] - expected[s * map_rows + i]));
        const char *sink = strcmp(metric, "alpha_raw") ? "sink_ratio" : "sink_ratio_raw";
        const float *ratio = metric_of(&f, sink);
        for (int k = 0; k < T; k++) sums[k] += ratio[k];
    }
    printf("  %-12s %-10s off by %.1e\n", group, name, (double)worst);
    CHECK(worst <= 2e-6f);
    if (!strcmp(name, "importance"))
        for (int k = 0; k < T; k++) CHECK_NEAR(100 * sums[k] / (float)N, metric1[k], 1e-3);
    free(sums);
    free((void *)(size_t)expected);
    free((void *)(size_t)maps);
    free((void *)(size_t)metric1);
}

static void check_random_maps(void) {
    CASE("10. metrics of random maps equal those of an independent implementation; 2. so do sums "
         "of alpha");
    scoped_file file = open_file("tests/golden/metrics", "golden.safetensors");
    check_group(&file, "stochastic", "stochastic", "softmax", "alpha", "importance");
    check_group(&file, "stochastic", "stochastic", "softmax", "row_mass", "row_mass");
    check_group(&file, "stochastic", "stochastic", "softmax", "entropy", "entropy");
    check_group(&file, "raw", "raw", "sigmoid", "alpha_raw", "importance");
    check_group(&file, "raw", "raw", "sigmoid", "row_mass", "row_mass");
    check_group(&file, "raw", "raw_share", "sigmoid", "alpha", "importance");
    check_group(&file, "signed", "signed", "identity", "alpha_raw", "importance");
    check_group(&file, "signed", "signed_share", "identity", "alpha", "importance");
}

/* Returns the matrix entropy of T rows of D numbers; `without_first` leaves out the first row. */
static float spectrum(const float *rows, int T, int D, bool without_first) {
    scoped_fake f;
    fake_open(&f, 1, 1, T, D, "softmax");
    memcpy(ss_floats(&f.trace, SS_FIELD_HIDDEN), rows, (size_t)(T * D) * sizeof *rows);
    /* The working memory is filled with NaN, as if an earlier measurement had left them there. */
    for (size_t i = 0; i < f.trace.spectrum_n; i++) f.trace.spectrum[i] = (double)NAN;
    const float *values = metric_of(&f, without_first ? "matrix_entropy_others" : "matrix_entropy");
    float entropy = values[0];
    return entropy;
}

/* Returns the matrix entropy of rows that point along `directions` axes in turn, with the first row
 * `first` times as long as the others; a reflection makes every product nonzero. */
static float entropy_along(int T, int D, int directions, float first, bool without_first) {
    scoped float *rows = calloc((size_t)(T * D), sizeof *rows);
    if (!rows) exit(2);
    for (int t = 0; t < T; t++) {
        float length = t ? 1.0f : first;
        for (int d = 0; d < D; d++)
            rows[t * D + d] = length * ((d == t % directions) - 2.0f / (float)D);
    }
    float entropy = spectrum(rows, T, D, without_first);
    return entropy;
}

/* Returns the error of the entropy of a matrix with the singular values 1, 1 - decrement,
 * 1 - 2 decrement, ..., to which two reflections are applied. */
static float spectrum_error(int T, int D, float decrement) {
    int n = T < D ? T : D;
    double total = 0, entropy = 0;
    scoped float *rows = malloc((size_t)(T * D) * sizeof *rows);
    if (!rows) exit(2);
    for (int i = 0; i < T; i++)
        for (int j = 0; j < D; j++) {
            double sum = 0; /* element of (I - 2/T) S (I - 2/D) */
            for (int k = 0; k < n; k++)
                sum += ((i == k) - 2.0 / T) * (1 - k * (double)decrement) * ((j == k) - 2.0 / D);
            rows[i * D + j] = (float)sum;
        }
    for (int k = 0; k < n; k++) total += pow(1 - k * (double)decrement, 2);
    for (int k = 0; k < n; k++) {
        double p = pow(1 - k * (double)decrement, 2) / total;
        entropy -= p > 0 ? p * log(p) : 0;
    }
    float error = spectrum(rows, T, D, false) - (float)(entropy / log(n));
    return error;
}

/* Returns the largest difference from the closed form over all pairs of rows with three numbers
 * from -1, 0 and 1. */
static float worst_of_pairs(void) {
    float worst = 0;
    for (int n = 0; n < 729; n++) {
        float rows[6];
        for (int i = 0, rest = n; i < 6; i++, rest /= 3) rows[i] = (float)(rest % 3 - 1);
        double a = 0, b = 0, c = 0;
        for (int i = 0; i < 3; i++) {
            a += (double)(rows[i] * rows[i]);
            b += (double)(rows[i] * rows[3 + i]);
            c += (double)(rows[3 + i] * rows[3 + i]);
        }
        if (a + c == 0) continue;
        double p = 0.5 + sqrt((a - c) * (a - c) / 4 + b * b) / (a + c);
        double entropy = p < 1 - 1e-12 ? -(p * log(p) + (1 - p) * log(1 - p)) / log(2) : 0;
        worst = fmaxf(worst, fabsf(spectrum(rows, 2, 3, false) - (float)entropy));
    }
    return worst;
}

static void check_matrix_entropy(void) {
    CASE("the entropy of two rows follows from the roots of a quadratic equation");
    CHECK_NEAR(worst_of_pairs(), 0, 1e-6);
    CASE("the entropy of known singular values is right with more rows than columns, and with "
         "fewer");
    CHECK_NEAR(spectrum_error(2, 3, 0.5f), 0, 1e-6);
    CHECK_NEAR(spectrum_error(3, 2, 0.5f), 0, 1e-6);
    CHECK_NEAR(spectrum_error(24, 40, 1.0f / 24), 0, 1e-6);
    CHECK_NEAR(spectrum_error(40, 24, 1.0f / 24), 0, 1e-6);
    CHECK_NEAR(spectrum_error(40, 24, 0.01f), 0, 1e-6);
    CHECK_NEAR(spectrum_error(60, 64, 1.0f / 60), 0, 1e-6);
    CASE("the entropy is 1 for orthogonal rows, 0 for equal rows, 1.153741943 nats for lengths 2, "
         "1, 1, 1");
    CHECK_NEAR(entropy_along(4, 6, 4, 1, false), 1, 1e-6);
    CHECK_NEAR(entropy_along(64, 6, 6, 1, false), 1, 1e-3); /* 64 is not a multiple of 6 */
    CHECK_NEAR(entropy_along(60, 6, 6, 1, false), 1, 1e-6);
    CHECK_NEAR(entropy_along(40, 300, 40, 1, false), 1, 1e-6);
    CHECK_NEAR(entropy_along(9, 5, 1, 1, false), 0, 1e-6);
    CHECK_NEAR(entropy_along(4, 6, 4, 2, false) * (float)log(4), 1.153741943, 1e-6);
    CHECK_NEAR(entropy_along(60, 6, 3, 1, false) * (float)log(6), log(3), 1e-6);
    CASE("one massive row lowers the entropy; without this row the entropy stays high");
    CHECK(entropy_along(64, 128, 64, 1000, false) < 1e-3f);
    CHECK_NEAR(entropy_along(64, 128, 64, 1000, true), 1, 1e-6);
    CASE("the entropy is NaN for one row, for zeros, and where a number or a square is not finite");
    float rows[8] = {0};
    CHECK(isnan(spectrum(rows, 2, 4, false)));
    rows[0] = 1;
    CHECK_NEAR(spectrum(rows, 2, 4, false), 0, 0);
    CHECK(isnan(spectrum(rows, 1, 8, false)) && isnan(spectrum(rows, 2, 4, true)));
    CHECK(isnan(spectrum(rows, 8, 1, false)) && isnan(spectrum(rows, 1, 8, true)));
    rows[5] = 1e30f;
    CHECK(isnan(spectrum(rows, 2, 4, false)));
    rows[5] = NAN;
    CHECK(isnan(spectrum(rows, 2, 4, false)) && isnan(spectrum(rows, 4, 2, false)));
}

static void check_stable_rank(void) {
    CASE("the stable rank is 1 for multiples of one row, n for n orthogonal rows of one length, "
         "and 5/4 for lengths 2 and 1");
    double work[256];
    const float multiples[6] = {3, 4, 6, 8, -3, -4}, lengths[4] = {2, 0, 0, 1}, zeros[4] = {0};
    float identity[35] = {0};
    for (size_t i = 0; i < 5; i++) identity[8 * i] = 2;
    CHECK_NEAR(ss_stable_rank(work, multiples, 3, 2), 1, 1e-6);
    CHECK_NEAR(ss_stable_rank(work, multiples, 1, 2), 1, 0);
    CHECK_NEAR(ss_stable_rank(work, multiples, 2, 1), 1, 0);
    CHECK_NEAR(ss_stable_rank(work, identity, 5, 7), 5, 1e-6);
    CHECK_NEAR(ss_stable_rank(work, lengths, 2, 2), 1.25, 1e-6);
    CASE("the stable rank is NaN without rows, for zeros, and where a square is not finite");
    CHECK(isnan(ss_stable_rank(work, zeros, 2, 2)) && isnan(ss_stable_rank(work, zeros, 0, 2)));
    CHECK(isnan(ss_stable_rank(work, (float[]){1e30f, 0, 0, 1}, 2, 2)));
}

static void check_gate_of_a_bias_key(void) {
    CASE("attention to a bias key does not count as attention to tokens");
    scoped_fake f;
    const ss_arch arch = {
        .L = 1, .H = 2, .G = 2, .D = 1, .K = 1, .U = 1, .V = 2, .bias_key = SS_OWNER_HEAD};
    fake_init(&f, &arch, 4, "softmax");
    for (int t = 0; t < 4; t++) {
        *ss_row(&f.trace, SS_FIELD_ATT_BIAS, 0, t) = 1;
        *ss_row(&f.trace, SS_FIELD_ATT_BIAS, 1, t) = 0.5f;
        *weight_at(&f, 1, t, 0) = 0.25f;
        *weight_at(&f, 1, t, t) += 0.25f;
    }
    const float *load = metric_of(&f, "head_load");
    CHECK_NEAR(load[0], 0, 0);
    CHECK_NEAR(load[1], 0.25, 0);
}

static void check_accuracy(void) {
    CASE("accuracy is the share of predicted tokens that are first choices, and NaN if none is "
         "predicted");
    scoped_fake f;
    fake_open(&f, 1, 1, 5, 1, "softmax");
    memcpy(ss_floats(&f.trace, SS_FIELD_RANK), (float[]){NAN, 0, 3, 0, 1}, 5 * sizeof(float));
    const float *accuracy = metric_of(&f, "accuracy");
    const float *first_accuracy = keep(&f, measure(&f.trace, "accuracy", 0.3f, 1, 0, 0, NULL));
    CHECK_NEAR(*accuracy, 0.5, 0);
    CHECK(isnan(*first_accuracy));
}

int main(void) {
    check_accuracy();
    check_gate_of_a_bias_key();
    check_matrix_entropy();
    check_stable_rank();
    check_all_on_first();
    check_all_on_self();
    check_strictly_greater();
    check_near_the_threshold();
    check_uniform_baseline();
    check_long_prefix();
    check_prefix_of_tokens();
    check_proxies();
    check_geometry();
    check_no_direction();
    check_wide_gap();
    check_bad_requests();
    check_bad_bases();
    check_hits();
    check_random_maps();
    return check_done();
}
