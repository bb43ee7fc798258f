/*
 * Goldens: what Hugging Face transformers and the independent PyTorch reference computed must come
 * out of the core. Every tensor of tests/golden/<case>/golden.safetensors whose name is a trace
 * field, or "metric." before that of a metric, is compared, element by element: logits and losses
 * within 1e-4, the others within 1e-5 of 1 or the tensor's largest magnitude.
 */
#include "check.h"
#include "files.h"

#include <math.h>

static const char *const cases[] = {
    "hf-gpt2-plain",
    "hf-gpt2-prefixed",
    "hf-llama-bf16",
    "hf-llama-gqa",
    "hf-llama-tied",
    "hf-llama-bias",
    "ref-softmax",
    "ref-sigmoid",
    "ref-softmax1",
    "ref-sigmoid_log_n",
    "ref-sigmoid_norm",
    "ref-sink_logit",
    "ref-relu",
    "ref-elu1",
    "ref-identity",
    "ref-softmax_scaled",
    "ref-softmax_p",
    "ref-softpick",
    "ref-softmax_clipped",
    "ref-gpt2-sigmoid",
    "hf-gpt_neox",
    "hf-gpt_neox-serial",
    "hf-gpt_neo",
    "hf-opt",
    "hf-opt-bare",
    "hf-mistral",
    "hf-qwen2",
    "hf-qwen2-window",
    "hf-qwen3",
    "hf-gemma3",
    "hf-gemma3-types",
    "hf-gpt_oss",
    "hf-mixtral",
    "hf-qwen2_moe",
    "hf-qwen2_moe-norm",
    "hf-llama-linear",
    "hf-llama-llama3",
    "gguf-llama-gqa-f32",
    "gguf-llama-bias-bf16",
    "gguf-llama-linear-f16",
    "gguf-llama3-f16",
    "gguf-gpt2-plain-f16",
    "gguf-gpt_neox-q8_0",
    "gguf-gpt_neox-serial-f16",
    "gguf-qwen2-bf16",
    "gguf-qwen3-bf16",
    "gguf-gemma3-bf16",
    "gguf-narrow-q8_0",
    "gguf-narrow-q4_0",
    "gguf-narrow-q4_1",
    "gguf-narrow-q5_0",
    "gguf-narrow-q5_1",
    "gguf-wide-q4_k",
    "gguf-wide-q5_k",
    "gguf-wide-q6_k",
    "torch-gpt2-plain",
    "torch-llama-tied",
    "torch-llama-nested",
    "torch-gpt_neox",
    "var-bias-key",
    "var-bias-key-value",
    "var-bias-key-window",
    "var-gate-element",
    "var-gate-head",
    "var-gate-value",
    "var-gate-value-head",
    "var-alibi",
    "var-relative",
    "var-sinusoid",
    "var-learned",
    "var-none",
    "var-geglu",
    "var-prefix",
    "var-prefix-bias-key",
    "var-bidirectional",
    "var-bidirectional-bias-key",
    "var-elu1_norm",
    "var-identity_norm",
    "var-elu1_kernel",
    "var-elu1_kernel_norm",
    "var-mlp_kernel",
    "var-mlp_kernel_norm",
    "var-experts",
    "var-int8",
};

/* The tensor of that name, or NULL. */
static const ss_tensor *golden(const opened_file *file, const char *name) {
    const ss_entry *entry = ss_container_find(&file->container, name);
    return entry ? &entry->tensor : NULL;
}

static float number_at(const ss_tensor *tensor, size_t i) {
    float value;
    memcpy(&value, (const char *)tensor->data + 4 * i, sizeof value);
    return value;
}

static float tolerance_of(const char *field, const ss_tensor *expected) {
    if (!strcmp(field, "logits") || !strcmp(field, "loss")) return 1e-4f;
    float largest = 1.0f;
    for (size_t i = 0; i < ss_tensor_count(expected); i++)
        largest = fmaxf(largest, fabsf(number_at(expected, i)));
    return 1e-5f * largest;
}

/* Largest difference between the recorded field, row-major, and the golden. */
static float difference(const ss_tensor *view, const ss_tensor *expected) {
    size_t index[SS_RANK_MAX] = {0}, n = ss_tensor_count(expected);
    float worst = 0.0f;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0, rest = i;
        for (int d = view->rank; d-- > 0; rest /= view->dims[d]) {
            index[d] = rest % view->dims[d];
            at += index[d] * view->strides[d];
        }
        float actual = ((const float *)view->data)[at];
        float gap = fabsf(actual - number_at(expected, i));
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    return worst;
}

/* The golden's loss begins with token 1; ours has a NaN for token 0. */
static ss_tensor field_like(const ss_trace *trace, int field) {
    ss_tensor view;
    ss_error err;
    must(ss_trace_view(&view, trace, field, -1, -1, &err), &err, "field");
    if (field == SS_FIELD_LOSS) {
        view.data = (const float *)view.data + 1;
        view.dims[0]--;
    }
    return view;
}

static int compare(const ss_trace *trace, const opened_file *file) {
    int compared = 0;
    for (int field = 1; field < SS_FIELD_N; field++) {
        const char *name = ss_fields()[field].name;
        const ss_tensor *expected = golden(file, name);
        if (!expected) continue;
        ss_tensor view = field_like(trace, field);
        CHECK_INT(view.rank, expected->rank);
        CHECK(!memcmp(view.dims, expected->dims, sizeof view.dims));
        float gap = difference(&view, expected), allowed = tolerance_of(name, expected);
        printf("  %-8s off by %.1e of %.1e\n", name, (double)gap, (double)allowed);
        CHECK(gap <= allowed);
        compared++;
    }
    return compared;
}

/* Metrics of the whole run. */
static int compare_metrics(const ss_trace *trace, const opened_file *file) {
    int n, compared = 0;
    const ss_metric *rows = ss_metrics(&n);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "metric.%s", rows[i].name);
        const ss_tensor *expected = golden(file, name);
        if (!expected) continue;
        size_t count;
        float *found = measure(trace, rows[i].name, SS_EPS_STANDARD, 0, 0, 0, &count), worst = 0;
        CHECK_INT(count, ss_tensor_count(expected));
        for (size_t j = 0; j < count; j++) {
            bool undefined = isnan(found[j]) && isnan(number_at(expected, j));
            float gap = undefined ? 0.0f : fabsf(found[j] - number_at(expected, j));
            worst = gap > worst || isnan(gap) ? gap : worst;
        }
        printf("  %-8s off by %.1e\n", rows[i].name, (double)worst);
        CHECK(worst <= tolerance_of(name, expected));
        free(found);
        compared++;
    }
    return compared;
}

static int32_t *golden_tokens(const opened_file *file, int *T) {
    const ss_tensor *tensor = golden(file, "tokens");
    *T = (int)ss_tensor_count(tensor);
    int32_t *tokens = malloc((size_t)*T * sizeof *tokens);
    if (!tokens) exit(2);
    memcpy(tokens, tensor->data, (size_t)*T * sizeof *tokens);
    return tokens;
}

static void check_case(const char *name, const char *model_folder, int least) {
    char folder[256];
    snprintf(folder, sizeof folder, "tests/golden/%s", name);
    CASE(name);
    opened_file file = open_file(folder, "golden.safetensors");
    opened_model model = open_model(model_folder ? model_folder : folder);
    int T;
    int32_t *tokens = golden_tokens(&file, &T);
    opened_run run = run_tokens(&model.model, tokens, T, NULL, 0);
    CHECK(compare(&run.run.trace, &file) >= least);
    if (!strncmp(name, "var-", 4)) CHECK(compare_metrics(&run.run.trace, &file) >= 3);
    free(tokens);
    close_run(&run);
    close_model(&model);
    close_file(&file);
}

/* Sink_1..Sink_10, every alpha_1 and the mean loss of 100 held-out sequences of 64 tokens. */
static void check_sink100(const char *twin, const char *model_folder) {
    char key[64];
    CASE(twin);
    opened_file file = open_file("tests/golden/sink100", "golden.safetensors");
    opened_model model = open_model(model_folder);
    int total;
    int32_t *tokens = golden_tokens(&file, &total);
    snprintf(key, sizeof key, "%s.alpha_1", twin);
    const ss_tensor *alpha_1 = golden(&file, key);
    snprintf(key, sizeof key, "%s.sink", twin);
    const ss_tensor *sink = golden(&file, key);
    snprintf(key, sizeof key, "%s.loss", twin);
    float expected_loss = number_at(golden(&file, key), 0);
    int T = 64, sequences = total / T, heads = model.model.arch.L * model.model.arch.H;
    double sums[10] = {0}, loss = 0;
    float worst = 0;
    for (int s = 0; s < sequences; s++) {
        opened_run run = run_tokens(&model.model, tokens + s * T, T, NULL, 0);
        const ss_trace *trace = &run.run.trace;
        float *ratio = measure(trace, "sink_ratio", 0.3f, 0, 0, 0, NULL);
        float *alpha = measure(trace, "alpha", 0.3f, 0, 0, 0, NULL);
        float *mean = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
        for (int k = 0; k < 10; k++) sums[k] += (double)ratio[k];
        loss += (double)*mean;
        for (int i = 0; i < heads; i++)
            worst = fmaxf(worst, fabsf(alpha[(size_t)i * (size_t)T] -
                                       number_at(alpha_1, (size_t)(s * heads + i))));
        free(ratio);
        free(alpha);
        free(mean);
        close_run(&run);
    }
    printf("  Sink_1^0.3 = %.2f %% over %d sequences of %d tokens, BOS first; loss %.4f; "
           "alpha_1 off by %.1e\n",
           100 * sums[0] / sequences, sequences, T, loss / sequences, (double)worst);
    CHECK(worst <= 1e-5f);
    for (size_t k = 0; k < 10; k++)
        CHECK_NEAR(100 * sums[k] / sequences, (double)number_at(sink, k), 0.01);
    CHECK_NEAR(loss / sequences, (double)expected_loss, 1e-4);
    free(tokens);
    close_model(&model);
    close_file(&file);
}

/* Transformers gives less than the reference, and queries that see later tokens predict nothing. */
static int least_fields(const char *name) {
    if (!strncmp(name, "ref-", 4)) return 9;
    return strncmp(name, "var-", 4) ? 4 : 8;
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(cases[i], NULL, least_fields(cases[i]));
    check_case("twin-softmax", "models/zoo/softmax", 9);
    check_case("twin-sigmoid", "models/zoo/sigmoid", 9);
    check_sink100("softmax", "models/zoo/softmax");
    check_sink100("sigmoid", "models/zoo/sigmoid");
    return check_done();
}
