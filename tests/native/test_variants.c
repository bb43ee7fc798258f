/*
 * Variants of the block: properties of every model of a kind. Numbers in names are the oracles of
 * section 6 of the specification; the models are those of tests/golden/var-*.
 */
#include "check.h"
#include "files.h"
#include "traces.h"

#include "run/pass.h" /* SS_CHUNK */

#include <limits.h>

#define T_MAX 8

static const int32_t prompt[T_MAX] = {3, 1, 4, 1, 5, 9, 2, 6};
static const int32_t repeated[T_MAX] = {7, 7, 7, 7, 7, 7, 7, 7};

static opened_model open_variant(const char *name) {
    char folder[64];
    snprintf(folder, sizeof folder, "tests/golden/var-%s", name);
    return open_model(folder);
}

static opened_run run_prompt(const opened_model *model, const ss_edit *edit) {
    return run_tokens(&model->model, prompt, T_MAX, edit, edit != NULL);
}

static void check_no_positions(void) {
    CASE("5. proposition 1: without positions attention to a repeated token is uniform, A = 1/t");
    scoped_model model = open_variant("none");
    scoped_run run = run_tokens(&model.model, repeated, T_MAX, NULL, 0);
    const ss_trace *trace = &run.run.trace;
    for (int l = 0; l < model.model.arch.L; l++)
        for (int h = 0; h < model.model.arch.H; h++)
            for (int t = 0; t < T_MAX; t++)
                for (int j = 0; j <= t; j++)
                    CHECK_NEAR(att_row(trace, l, h, t)[j], 1.0 / (t + 1), 1e-6);
    size_t D = (size_t)model.model.arch.D, last = (size_t)model.model.arch.L * T_MAX * D;
    for (size_t i = 0; i < T_MAX * D; i++)
        CHECK_NEAR(ss_floats(trace, SS_FIELD_HIDDEN)[last + i],
                   ss_floats(trace, SS_FIELD_HIDDEN)[last + i % D], 1e-5);
}

/* Returns the ALiBi bias of head h of six: the slopes of four heads, then two of those of eight
 * heads. */
static double alibi_bias(int h, int distance) {
    return -pow(2, (const double[]){-2, -4, -6, -8, -1, -3}[h]) * distance;
}

static double bucket_bias(int h, int distance) {
    (void)h;
    if (distance < 16) return distance;
    return fmin(31, 16 + floor(log(distance / 16.0) / log(8) * 16));
}

/* Checks that A_ti / A_tt = exp(bias_at(h, t - i)), with a bias key or without. */
static void check_distances_of(const char *name, int T, double (*bias_at)(int, int)) {
    scoped_model model = open_variant(name);
    model.model.arch.context = T;
    scoped int32_t *tokens = calloc((size_t)T, sizeof *tokens);
    scoped_run run = run_tokens(&model.model, tokens, T, NULL, 0);
    for (int h = 0; h < model.model.arch.H; h++)
        for (int t = 0; t < T; t++)
            for (int j = 0; j <= t; j++) {
                const float *row = att_row(&run.run.trace, 0, h, t);
                double ratio = log((double)row[j]) - log((double)row[t]);
                CHECK_NEAR(ratio, bias_at(h, t - j), 2e-4);
            }
}

static void check_distances(void) {
    CASE("5. propositions 2 and 3: the weight of a repeated token depends only on its distance");
    check_distances_of("alibi", 20, alibi_bias);
    check_distances_of("relative", 140, bucket_bias);
}

static void check_zero_bias_key(void) {
    CASE("4. a bias key of zeros without a value gives softmax1, and its weight completes each row "
         "to 1");
    scoped_model model = open_variant("bias-key");
    ss_arch *arch = &model.model.arch;
    for (int l = 0; l < arch->L; l++)
        for (int i = 0; i < arch->G * arch->K; i++)
            writable(model.model.layers[l].bias_keys)[i] = 0;
    scoped_run biased_run = run_prompt(&model, NULL);
    scoped float *mass = measure(&biased_run.run.trace, "row_mass", 0.3f, 0, 0, 0, NULL);
    size_t rows = (size_t)(arch->L * arch->H) * T_MAX, D = (size_t)arch->D;
    for (size_t i = 0; i < rows; i++)
        CHECK_NEAR(mass[i] + ss_floats(&biased_run.run.trace, SS_FIELD_ATT_BIAS)[i], 1, 1e-6);
    arch->bias_key = SS_OWNER_NONE;
    ss_edit edit = swap_to("softmax1", NAN);
    scoped_run softmax1_run = run_prompt(&model, &edit);
    for (size_t i = 0; i < rows * T_MAX; i++)
        CHECK_NEAR(ss_floats(&biased_run.run.trace, SS_FIELD_ATT)[i],
                   ss_floats(&softmax1_run.run.trace, SS_FIELD_ATT)[i], 1e-6);
    for (size_t i = 0; i < ((size_t)arch->L + 1) * T_MAX * D; i++)
        CHECK_NEAR(ss_floats(&biased_run.run.trace, SS_FIELD_HIDDEN)[i],
                   ss_floats(&softmax1_run.run.trace, SS_FIELD_HIDDEN)[i], 1e-5);
}

static void check_strong_bias_key(void) {
    CASE("a bias key with all attention: alpha_* is 1 and no token is a sink");
    scoped_model model = open_variant("bias-key");
    const ss_arch *arch = &model.model.arch;
    size_t K = (size_t)arch->K, G = (size_t)arch->G, C = T_MAX;
    opened_run run = run_prompt(&model, NULL);
    for (size_t g = 0; g < G; g++)
        for (size_t i = 0; i < K; i++)
            writable(model.model.layers[0].bias_keys)[g * K + i] =
                1e3f * ss_floats(&run.run.trace, SS_FIELD_Q)[g * 2 * C * K + i];
    close_run(&run);
    run = run_prompt(&model, NULL);
    for (int h = 0; h < arch->H; h += 2)
        CHECK_NEAR(ss_floats(&run.run.trace, SS_FIELD_ATT_BIAS)[(size_t)h * C], 1, 1e-6);
    scoped float *alpha = measure(&run.run.trace, "alpha_bias", 0.3f, 1, 0, 0, NULL);
    scoped float *sink = measure(&run.run.trace, "alpha", 0.3f, 1, 0, 0, NULL);
    CHECK_NEAR(alpha[0], 1, 1e-6);
    CHECK_NEAR(sink[0], 0, 1e-6);
    close_run(&run);
}

static void check_no_bias_key(void) {
    CASE("metrics of a missing bias key or gate are NaN, not errors");
    scoped_model model = open_variant("none");
    scoped_run run = run_prompt(&model, NULL);
    const char *names[] = {"alpha_bias", "sink_ratio_bias", "gate_mean"};
    for (int i = 0; i < 3; i++) {
        size_t count;
        scoped float *numbers = measure(&run.run.trace, names[i], 0.3f, 0, 0, 0, &count);
        for (size_t j = 0; j < count; j++) CHECK(isnan(numbers[j]));
    }
    ss_tensor view;
    ss_error err;
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, SS_FIELD_ATT_BIAS, -1, -1, &err),
              SS_BAD_REQUEST);
    CHECK(!strcmp(err.where, "att_bias") && strstr(err.text, "bias_key"));
}

static void check_value_biases(void) {
    CASE("9. a bias on head outputs does not change the maps of the layer");
    scoped_model model = open_variant("gate-element");
    check_value_bias(&model.model, model.model.layers[0].value_biases, 1, prompt, T_MAX);
}

static void check_bidirectional(void) {
    CASE("bidirectional: every row sums to 1 over all keys, and the sink scores sum to 1");
    scoped_model model = open_variant("bidirectional");
    scoped_run run = run_prompt(&model, NULL);
    const ss_trace *trace = &run.run.trace;
    CHECK(att_row(trace, 0, 0, 0)[T_MAX - 1] > 0);
    scoped float *mass = measure(trace, "row_mass", 0.3f, 0, 0, 0, NULL);
    scoped float *alpha = measure(trace, "alpha", 0.3f, 0, 0, 0, NULL);
    scoped float *uniform = measure(trace, "alpha_uniform", 0.3f, 0, 0, 0, NULL);
    double sum = 0;
    for (int t = 0; t < T_MAX; t++) {
        CHECK_NEAR(mass[t], 1, 1e-6);
        CHECK_NEAR(uniform[t], 1.0 / T_MAX, 1e-7);
        sum += (double)alpha[t];
    }
    CHECK_NEAR(sum, 1, 1e-6);

    CASE("bidirectional: no token is predicted, no loss is recorded, and the text cannot be "
         "extended");
    scoped float *loss = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
    CHECK(isnan(*loss) && isnan(ss_floats(trace, SS_FIELD_LOSS)[3]));
    ss_run_desc desc = {&model.model, T_MAX + 1, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    scoped_run longer_run = start_run(&desc, prompt, T_MAX);
    ss_error err;
    CHECK_INT((int)ss_run_extend(&longer_run.run, prompt, 1, &err), SS_UNSUPPORTED);
    CHECK(strstr(err.text, "bidirectional") != NULL);
    CHECK_INT(longer_run.run.trace.T, T_MAX);
    check_same(trace, &longer_run.run.trace, T_MAX);

    CASE("a mask edit makes a bidirectional model causal");
    ss_edit causal_mask = mask_to(0, T_MAX);
    scoped_run edited_run = run_prompt(&model, &causal_mask);
    model.model.arch.prefix = 0;
    scoped_run causal_run = run_prompt(&model, NULL);
    CHECK(have_same_rows(&causal_run.run.trace, &edited_run.run.trace, SS_FIELD_ATT, T_MAX));
    CHECK(att_row(&edited_run.run.trace, 0, 0, 0)[1] == 0);
}

static void check_texts_longer_than_a_chunk(void) {
    CASE("all keys after a query are in its chunk, however long the text");
    const int T = SS_CHUNK + 20;
    const int prefixes[] = {SS_EVERY_KEY, SS_CHUNK + 10};
    scoped_model model = open_variant("bidirectional");
    model.model.arch.context = T;
    scoped int32_t *tokens = calloc((size_t)T, sizeof *tokens);
    for (int t = 0; t < T; t++) tokens[t] = t * t % 20;
    for (int i = 0; i < 2; i++) {
        int prefix = model.model.arch.prefix = prefixes[i];
        scoped_run run = run_tokens(&model.model, tokens, T, NULL, 0);
        for (int t = 0; t < T; t += 5) {
            const float *row = att_row(&run.run.trace, 1, 3, t);
            int end = prefix > T ? T : t < prefix ? prefix : t + 1;
            double sum = 0;
            for (int j = 0; j < end; j++) sum += (double)row[j];
            CHECK_NEAR(sum, 1, 1e-5);
            CHECK(row[end - 1] > 0 && (end == T || row[end] == 0));
        }
    }
}

static void check_prefix(void) {
    CASE("prefix: the prefix must be run at once; later tokens give the same bits");
    scoped_model model = open_variant("prefix");
    scoped_run full_run = run_prompt(&model, NULL);
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    ss_error err;
    for (int first = 3; first <= 5; first++) {
        scoped_run stepped_run = start_run(&desc, prompt, first);
        ss_status status = ss_run_extend(&stepped_run.run, prompt + first, T_MAX - first, &err);
        CHECK_INT((int)status, first < 4 ? SS_UNSUPPORTED : SS_OK);
        if (status == SS_OK) check_same(&full_run.run.trace, &stepped_run.run.trace, T_MAX);
    }

    CASE("tokens of the prefix, which earlier queries saw, have no loss");
    const ss_trace *trace = &full_run.run.trace;
    CHECK(isnan(ss_floats(trace, SS_FIELD_LOSS)[3]) && !isnan(ss_floats(trace, SS_FIELD_LOSS)[4]));
    scoped float *loss = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
    double sum = 0;
    for (int t = 4; t < T_MAX; t++) sum += (double)ss_floats(trace, SS_FIELD_LOSS)[t];
    CHECK_NEAR(*loss, sum / (T_MAX - 4), 1e-6);
}

static void check_feature_maps(void) {
    CASE("a feature map whose tensors the model lacks is refused, as an edit and in the config");
    scoped_model model = open_variant("bias-key");
    ss_edit edit = swap_to("mlp_kernel", NAN);
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
    ss_error err;
    CHECK_INT((int)try_run(&desc, &err), SS_UNSUPPORTED);
    CHECK(strstr(err.text, "kernel_in") != NULL);
    strcpy(model.model.arch.attention.operation, "mlp_kernel");
    ss_choice choice;
    CHECK_INT((int)ss_operation_own(&choice, &model.model, &err), SS_BAD_TENSOR);
    CHECK(!strcmp(err.where, "self_attn.kernel_in"));

    CASE("a parameter that an operation lacks is refused, even if the operation has the largest "
         "number of parameters");
    ss_attention *attention = &model.model.arch.attention;
    attention->parameters_n = 1;
    strcpy(attention->parameters[0].name, "zeta");
    attention->parameters[0].value = 1.5f;
    strcpy(attention->operation, "softmax_clipped");
    CHECK_INT((int)ss_operation_own(&choice, &model.model, &err), SS_OK);
    CHECK_NEAR(choice.parameters[0], 1.5f, 0.0);
    CHECK_NEAR(choice.parameters[1], -0.03f, 0.0);
    strcpy(attention->parameters[0].name, "bias");
    for (int i = 0; i < 2; i++) {
        strcpy(attention->operation, i ? "softmax" : "softmax_clipped");
        CHECK_INT((int)ss_operation_own(&choice, &model.model, &err), SS_BAD_CONFIG);
        CHECK(!strcmp(err.where, "sinkscope.attention.parameters"));
    }
}

static ss_status open_tampered(const char *old_bytes, const char *new_bytes, ss_error *err) {
    scoped_bytes weights = read_file("tests/golden/var-int8", "model.safetensors");
    scoped_bytes config = read_file("tests/golden/var-int8", "config.json");
    size_t n = strlen(old_bytes);
    for (size_t i = 8; i + n < weights.n; i++)
        if (!memcmp(weights.data + i, old_bytes, n))
            memcpy((unsigned char *)(size_t)weights.data + i, new_bytes, n);
    ss_status status = try_open(config, weights, err);
    return status;
}

static void check_int8_weights(void) {
    CASE("I8: every weight is its integer times the scale of its row");
    scoped_model model = open_variant("int8");
    const char *name = "model.embed_tokens.weight", *scale = "model.embed_tokens.weight_scale";
    const ss_tensor *tensor = &ss_container_find(&model.weights.container, name)->tensor;
    const unsigned char *scales = ss_container_find(&model.weights.container, scale)->tensor.data;
    size_t D = tensor->dims[1];
    float vector[64], factor;
    for (size_t v = 0; v < tensor->dims[0]; v++) {
        ss_matrix_unpack_output(vector, &model.model.embedding.w, v);
        memcpy(&factor, scales + 4 * v, sizeof factor);
        for (size_t d = 0; d < D; d++)
            CHECK(vector[d] == (float)((const signed char *)tensor->data)[v * D + d] * factor);
    }

    CASE("a scale that is missing, of another type or shape, or not finite is refused by name");
    static const struct {
        const char *old_bytes, *new_bytes, *where;
    } table[] = {
        {"layers.1.mlp.up_proj.weight_scale", "layers.1.mlp.up_proj.weight_sc*le",
         "model.layers.1.mlp.up_proj.weight_scale"},
        {"embed_positions.weight_scale\":{\"dtype\":\"F32\"",
         "embed_positions.weight_scale\":{\"dtype\":\"I32\"", "model.embed_positions.weight_scale"},
        {"lm_head.weight_scale\":{\"dtype\":\"F32\",\"shape\":[20,1]",
         "lm_head.weight_scale\":{\"dtype\":\"F16\",\"shape\":[40,1]", "lm_head.weight_scale"},
    };
    ss_error err = {0};
    CHECK_INT((int)open_tampered("", "", &err), SS_OK);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK_INT((int)open_tampered(table[i].old_bytes, table[i].new_bytes, &err), SS_BAD_TENSOR);
        if (check_failed(!strcmp(err.where, table[i].where), __FILE__, __LINE__, "the place"))
            printf("    %s: %s\n", err.where, err.text);
    }
    /* The largest float overflows when it is multiplied by 127. */
    char old_bytes[5] = {0}, new_bytes[] = "\xff\xff\x7f\x7f";
    memcpy(old_bytes, &factor, 4);
    CHECK_INT((int)open_tampered(old_bytes, new_bytes, &err), SS_BAD_TENSOR);
    CHECK(!strcmp(err.where, scale));
}

static void check_description(void) {
    CASE("the description names the parts of a variant");
    char text[SS_DESCRIBE_BYTES];
    ss_error err;
    opened_model model = open_variant("bidirectional");
    must(ss_describe_model(text, sizeof text, &model.model, &err), &err, "describe");
    const char *phrases[] = {"\"mask\":{\"kind\":\"bidirectional\"}",
                             "\"mask_token\":1",
                             "\"gate\":\"output_head\"",
                             "\"bias_key\":null",
                             "\"norm_place\":\"pre\"",
                             "\"heads\":\"joined\""};
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        CHECK(strstr(text, phrases[i]) != NULL);
    close_model(&model);
    model = open_variant("bias-key-window");
    must(ss_describe_model(text, sizeof text, &model.model, &err), &err, "describe");
    CHECK(strstr(text, "\"mask\":{\"kind\":\"window\",\"window\":4}") != NULL);
    CHECK(strstr(text, "\"windows\":[4,4]") != NULL);
    CHECK(strstr(text, "\"bias_key\":\"shared\",\"bias_key_value\":\"shared\"") != NULL);
    close_model(&model);
}

int main(void) {
    check_no_positions();
    check_distances();
    check_zero_bias_key();
    check_strong_bias_key();
    check_no_bias_key();
    check_value_biases();
    check_bidirectional();
    check_texts_longer_than_a_chunk();
    check_prefix();
    check_feature_maps();
    check_int8_weights();
    check_description();
    return check_done();
}
