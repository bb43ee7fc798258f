/*
 * Training: derivatives against those of PyTorch's autograd (gradients.safetensors of the goldens)
 * and against finite differences; fifty steps against PyTorch's (training).
 */
#include "steps.h"
#include "tables.h"

#include <dirent.h>

/* A model with writable weights, and a second model of its shape for the sums of derivatives. */
typedef struct live_model {
    opened_file file, sums_file;
    ss_arena arena, sums_arena;
    ss_model model, sums;
} live_model;

static void open_live(ss_model *model, ss_arena *arena, opened_file *file, const ss_arch *arch) {
    ss_error err;
    size_t bytes;
    file->container.live = true;
    must(ss_model_size(&bytes, arch, &file->container, &err), &err, "live size");
    *arena = arena_of(bytes);
    must(ss_model_open(model, arch, &file->container, arena, &err), &err, "live");
}

static void clear_tensors(opened_file *file) {
    for (size_t i = 0; i < file->container.n; i++) {
        const ss_tensor *tensor = &file->container.entries[i].tensor;
        memset((void *)(size_t)tensor->data, 0, ss_tensor_count(tensor) * sizeof(float));
    }
}

static live_model *open_both(const char *folder) {
    live_model *live = calloc(1, sizeof *live);
    live->file = open_file(folder, "model.safetensors");
    live->sums_file = open_file(folder, "model.safetensors");
    ss_arch arch = arch_of(folder, &live->file);
    open_live(&live->model, &live->arena, &live->file, &arch);
    open_live(&live->sums, &live->sums_arena, &live->sums_file, &arch);
    clear_tensors(&live->sums_file);
    return live;
}

static void close_both(live_model **live) {
    close_file(&(*live)->file);
    close_file(&(*live)->sums_file);
    free((*live)->arena.block);
    free((*live)->sums_arena.block);
    free(*live);
}

#define scoped_live __attribute__((cleanup(close_both))) live_model

static const ss_tensor *find_tensor(const opened_file *file, const char *name) {
    const ss_entry *entry = ss_container_find(&file->container, name);
    if (!entry) exit(2);
    return &entry->tensor;
}

/* Returns the mean loss of tokens 1..T-1 and writes its derivative with respect to the logits
 * [T][V] to d. */
static double loss_of(float *d, const float *logits, const int32_t *tokens, int T, int V) {
    double loss = 0;
    for (int t = 0; t < T; t++, logits += V, d += V) {
        double top = -(double)INFINITY, sum = 0;
        for (int v = 0; v < V; v++) top = fmax(top, (double)logits[v]);
        for (int v = 0; v < V; v++) sum += exp((double)logits[v] - top);
        for (int v = 0; v < V; v++)
            d[v] = t + 1 < T ? (float)(exp((double)logits[v] - top) / sum / (T - 1)) : 0.0f;
        if (t + 1 == T) break;
        d[tokens[t + 1]] -= 1.0f / (float)(T - 1);
        loss -= ((double)logits[tokens[t + 1]] - top - log(sum)) / (T - 1);
    }
    return loss;
}

/* Number of sequences in a batch. All have the same text, so that sums are twice those of one
 * sequence. */
#define SEQUENCES 2

#define LAYERS_MAX 8

/* Returns the loss. With `ratios` it also adds the derivatives with respect to weights to
 * live->sums and writes ratios[2][L] of the log, for one sequence. */
static double backward(live_model *live, const int32_t *tokens, int T, float *ratios) {
    ss_error err;
    ss_run_desc desc = {&live->model, T, ss_backward_fields(&live->model.arch), NULL, 0, NULL, 0,
                        NULL,         0};
    opened_run runs[SEQUENCES];
    ss_trace traces[SEQUENCES];
    ss_arena measured = ss_arena_measure();
    ss_backward pass;
    ss_backward_lay_out(&pass, &live->model.arch, SEQUENCES, T, &measured);
    ss_arena arena = arena_of(measured.used);
    ss_backward_lay_out(&pass, &live->model.arch, SEQUENCES, T, &arena);
    pass.model = &live->model;
    pass.sums = &live->sums;
    double loss = 0;
    int V = live->model.arch.V;
    for (int s = 0; s < SEQUENCES; s++) {
        runs[s] = open_run(&desc);
        must(ss_run_extend(&runs[s].run, tokens, T, &err), &err, "run");
        traces[s] = runs[s].run.trace;
        loss = loss_of(pass.logits + (size_t)(s * T * V),
                       ss_recorded_rows(&traces[s], SS_FIELD_LOGITS, 0, -1), tokens, T, V);
    }
    if (ratios) ss_backward_run(&pass, traces, SEQUENCES);
    for (int i = 0; ratios && i < 2 * live->model.arch.L; i++)
        ratios[i] = pass.ratios[i] / SEQUENCES;
    for (int s = 0; s < SEQUENCES; s++) close_run(&runs[s]);
    free(arena.block);
    return loss;
}

static double norm_of_numbers(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Returns the largest relative error over the tensors' derivatives; derivatives of tiny size are
 * compared relative to those of the largest tensor. */
static double compare_derivatives(const char *folder, const live_model *live,
                                  const opened_file *golden) {
    double worst = 0, largest_norm = 0;
    const ss_container *sums = &live->sums_file.container;
    for (size_t i = 0; i < sums->n; i++) {
        const ss_tensor *expected = find_tensor(golden, sums->entries[i].name);
        largest_norm =
            fmax(largest_norm, norm_of_numbers(expected->data, ss_tensor_count(expected)));
    }
    for (size_t i = 0; i < sums->n; i++) {
        const ss_tensor *expected = find_tensor(golden, sums->entries[i].name);
        size_t n = ss_tensor_count(expected);
        const float *e = expected->data, *a = sums->entries[i].tensor.data;
        scoped float *differences = malloc(n * sizeof *differences);
        for (size_t j = 0; j < n; j++) differences[j] = a[j] / SEQUENCES - e[j];
        double error =
            norm_of_numbers(differences, n) / fmax(norm_of_numbers(e, n), 1e-3 * largest_norm);
        if (!(error <= 1e-4))
            printf("    %s %s: %.2g; python -m models.reference.goldens.write_gradients %s\n",
                   folder, sums->entries[i].name, error, strrchr(folder, '/') + 1);
        worst = isnan(error) ? error : fmax(worst, error);
    }
    return worst;
}

static void check_golden_gradients(void) {
    CASE("the derivatives with respect to all weights are those of autograd, for every operation "
         "and block");
    DIR *goldens = opendir("tests/golden");
    int cases = 0, n;
    double worst = 0;
    const ss_operation *operations = ss_operations(&n);
    bool has_gradients[64] = {false};
    CHECK(n <= 64);
    for (struct dirent *entry; (entry = readdir(goldens)) != NULL;) {
        char folder[300];
        snprintf(folder, sizeof folder, "tests/golden/%s", entry->d_name);
        if (!has_file(folder, "gradients.safetensors")) continue;
        scoped_file golden = open_file(folder, "gradients.safetensors");
        scoped_file text = open_file(folder, "golden.safetensors");
        const ss_tensor *tokens = find_tensor(&text, "tokens");
        scoped_live *live = open_both(folder);
        float ratios[2 * LAYERS_MAX];
        CHECK(live->model.arch.L <= LAYERS_MAX);
        double loss = backward(live, tokens->data, (int)tokens->dims[0], ratios);
        const ss_tensor *expected = find_tensor(&golden, "gradient_ratios");
        CHECK_INT((int)ss_tensor_count(expected), 2 * live->model.arch.L);
        for (size_t i = 0; i < ss_tensor_count(expected); i++) {
            float ratio = ((const float *)expected->data)[i];
            CHECK_NEAR(ratios[i] / ratio, 1, 1e-4);
        }
        CHECK_NEAR(loss, *(const float *)find_tensor(&golden, "loss")->data, 1e-4);
        double error = compare_derivatives(folder, live, &golden);
        CHECK(is_within(error, 1e-4));
        worst = fmax(worst, error);
        has_gradients[ss_operation_find(live->model.arch.attention.operation)] = true;
        cases++;
    }
    closedir(goldens);
    printf("    %d models, largest relative error of a tensor %.2g\n", cases, worst);
    CHECK(cases > 35);
    for (int i = 0; i < n; i++)
        check_has_golden(has_gradients[i] || !operations[i].back, operations[i].name,
                         "has gradients", "write_gradients ref-NAME");
}

static float *numbers(const opened_file *file, size_t i, size_t *n) {
    const ss_tensor *tensor = &file->container.entries[i].tensor;
    *n = ss_tensor_count(tensor);
    return (float *)(size_t)tensor->data;
}

static void move_weights(const live_model *live, float distance) {
    size_t n;
    for (size_t i = 0; i < live->file.container.n; i++) {
        float *w = numbers(&live->file, i, &n);
        const float *g = numbers(&live->sums_file, i, &n);
        for (size_t j = 0; j < n; j++) w[j] += distance * g[j];
    }
}

static void check_finite_differences(const char *folder, float embedding_scale) {
    CASE("a step along the gradient changes the loss by the squared norm of the gradient");
    scoped_file text = open_file(folder, "golden.safetensors");
    const ss_tensor *tokens = find_tensor(&text, "tokens");
    int T = (int)tokens->dims[0];
    scoped_live *live = open_both(folder);
    live->model.arch.embedding_scale = embedding_scale;
    float ratios[2 * LAYERS_MAX];
    backward(live, tokens->data, T, ratios);
    double square = 0;
    size_t n;
    for (size_t i = 0; i < live->sums_file.container.n; i++) {
        const float *g = numbers(&live->sums_file, i, &n);
        for (size_t j = 0; j < n; j++) square += (double)g[j] * (double)g[j];
    }
    float step = (float)(0.004 / sqrt(square));
    move_weights(live, step);
    double above = backward(live, tokens->data, T, NULL);
    move_weights(live, -2 * step);
    double below = backward(live, tokens->data, T, NULL);
    CHECK_NEAR((above - below) / (2 * (double)step) * SEQUENCES / square, 1, 1e-2);
}

typedef struct opened_train {
    ss_arch arch;
    ss_recipe recipe;
    ss_train_desc desc;
    ss_arena arena;
    ss_train train;
} opened_train;

static ss_bytes text_of(const char *text) {
    return (ss_bytes){(const unsigned char *)text, strlen(text)};
}

static const char *lab_config(const char *operation) {
    static char config[512];
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"num_attention_heads\":2,"
             "\"hidden_size\":16,\"intermediate_size\":24,\"vocab_size\":20,"
             "\"max_position_embeddings\":12,\"hidden_act\":\"gelu\",\"mlp_bias\":true,"
             "\"tie_word_embeddings\":false,\"sinkscope\":{\"positions\":\"learned\","
             "\"norm_kind\":\"layer\",\"feed_forward\":\"plain\",\"attention\":"
             "{\"operation\":\"%s\"}}}",
             operation);
    return config;
}

static ss_status try_train(opened_train *opened, const char *config, const char *recipe,
                           const int32_t *text, size_t text_n, ss_error *err) {
    memset(opened, 0, sizeof *opened);
    opened->desc = (ss_train_desc){
        .arch = &opened->arch, .recipe = &opened->recipe, .text = text, .text_n = text_n};
    ss_status status = ss_arch_read(&opened->arch, text_of(config), err);
    if (status == SS_OK) status = ss_recipe_read(&opened->recipe, text_of(recipe), err);
    size_t bytes;
    if (status == SS_OK) status = ss_train_size(&bytes, &opened->desc, err);
    if (status != SS_OK) return status;
    opened->arena = arena_of(bytes);
    return ss_train_init(&opened->train, &opened->desc, &opened->arena, err);
}

static opened_train *open_train(const char *config, const char *recipe) {
    opened_train *opened = malloc(sizeof *opened);
    ss_error err;
    must(try_train(opened, config, recipe, NULL, 0, &err), &err, "train");
    return opened;
}

static void close_train(opened_train **opened) {
    free((*opened)->arena.block);
    free(*opened);
}

#define scoped_train __attribute__((cleanup(close_train))) opened_train

static void check_golden_training(const char *folder) {
    CASE("fifty steps have PyTorch's losses and end with its weights");
    scoped_file golden = open_file(folder, "golden.safetensors");
    scoped_file first = open_file(folder, "model.safetensors");
    scoped_file last = open_file(folder, "trained.safetensors");
    const ss_tensor *text = find_tensor(&golden, "text"), *losses = find_tensor(&golden, "losses");
    scoped_train *opened = calloc(1, sizeof *opened);
    scoped_bytes recipe = read_file(folder, "recipe.json");
    ss_error err;
    opened->arch = arch_of(folder, &first);
    must(ss_recipe_read(&opened->recipe, recipe, &err), &err, "recipe");
    opened->desc = (ss_train_desc){&opened->arch, &opened->recipe, text->data, text->dims[0],
                                   &first.container};
    size_t bytes, n;
    must(ss_train_size(&bytes, &opened->desc, &err), &err, "size");
    opened->arena = arena_of(bytes);
    must(ss_train_init(&opened->train, &opened->desc, &opened->arena, &err), &err, "init");
    CHECK(opened->arena.used <= bytes);
    double worst = 0;
    for (size_t i = 0; i < losses->dims[0]; i++) {
        ss_log_entry entry = {0};
        must(train_step(&opened->train, &entry, &err), &err, "step");
        worst = fmax(worst, fabs(entry.loss - (double)((const float *)losses->data)[i]));
    }
    printf("    largest difference of a loss %.2g\n", worst);
    CHECK_NEAR(worst, 0, 1e-3);
    for (size_t i = 0; i < opened->train.weights.container.n; i++) {
        const ss_entry *entry = &opened->train.weights.container.entries[i];
        const float *e = find_tensor(&last, entry->name)->data, *a = entry->tensor.data;
        double difference = 0;
        n = ss_tensor_count(&entry->tensor);
        for (size_t j = 0; j < n; j++)
            difference = fmax(difference, fabs((double)a[j] - (double)e[j]));
        CHECK_NEAR(difference, 0, 2e-3);
    }
}

static void check_backcopy(void) {
    CASE("Bigram-Backcopy repeats the token before a trigger, and its best possible losses are "
         "entropies of the bigrams");
    scoped_train *opened = open_train(lab_config("softmax"),
                                      "{\"batch\":40,\"length\":12,\"triggers\":3,\"steps\":1}");
    ss_train *train = &opened->train;
    ss_log_entry entry = {0};
    ss_error err;
    must(measure_weights(train, &entry, &err), &err, "look");
    CHECK(isnan(entry.key_gradient) && isnan(entry.input_gradient) && isnan(entry.stream_gradient));
    int triggers_n = 0;
    double surprise = 0, optimum = 0;
    for (int i = 0; i < 40; i++) {
        if (i % 10 == 0) must(ss_train_part(train, i / 10, false, &err), &err, "part");
        const ss_sequence *s = &train->batch[i % 10];
        CHECK_INT(s->tokens[0], 0);
        CHECK_INT(s->kinds[0], SS_KIND_FIRST);
        for (int t = 1; t < 12; t++) {
            bool is_trigger = s->tokens[t] >= 1 && s->tokens[t] <= 3;
            CHECK_INT(s->tokens[t], s->targets[t - 1]);
            CHECK_INT(s->kinds[t], is_trigger ? SS_KIND_TRIGGER : SS_KIND_ELSEWHERE);
            if (is_trigger) CHECK_INT(s->targets[t], s->tokens[t - 1]);
            if (is_trigger) CHECK(s->tokens[t - 1] > 3 && s->optimum[t] == 0);
            triggers_n += is_trigger;
            if (is_trigger) continue;
            const double *row = train->task.bigrams + s->tokens[t] * 20;
            int next = s->targets[t];
            surprise -= log(row[next] - (next ? row[next - 1] : 0));
            optimum += (double)s->optimum[t];
        }
        CHECK_NEAR(s->optimum[0], log(16), 1e-6);
    }
    CHECK(triggers_n > 20);
    /* About 400 draws estimate the entropy, whose exact value is known. */
    CHECK_NEAR(surprise / optimum, 1, 0.15);
    CHECK_NEAR(entry.optimum_triggers, 0, 0);
}

static void check_conditional(void) {
    CASE("the conditional task asks for the mean of the plain tokens before a trigger");
    scoped_train *opened = open_train(
        lab_config("relu"), "{\"task\":\"conditional\",\"batch\":2,\"length\":8,\"triggers\":1,"
                            "\"steps\":1}");
    ss_sequence s = opened->train.batch[0];
    memcpy(s.tokens, (int32_t[]){0, 5, 7, 5, 1, 9, 1, 6}, 8 * sizeof *s.tokens);
    for (int t = 0; t < 8; t++)
        s.kinds[t] = t == 0             ? SS_KIND_FIRST
                     : s.tokens[t] == 1 ? SS_KIND_TRIGGER
                                        : SS_KIND_ELSEWHERE;
    float target[20];
    ss_task_write_target(target, &opened->train.task, &s, 6);
    for (int v = 0; v < 20; v++)
        CHECK_NEAR(target[v], v == 5 ? 0.5 : v == 7 || v == 9 ? 0.25 : 0, 1e-6);
    ss_task_write_target(target, &opened->train.task, &s, 5);
    for (int v = 0; v < 20; v++) CHECK_NEAR(target[v], 0, 0);
}

static void visit_sequences(ss_train *train, void (*visit)(const ss_sequence *s, void *context),
                            void *context) {
    int n = (int)train->recipe->batch;
    ss_error err;
    for (int part = 0; part < SS_PARTS; part++) {
        int first = n * part / SS_PARTS, end = n * (part + 1) / SS_PARTS;
        must(ss_train_part(train, part, false, &err), &err, "part");
        for (int i = first; i < end; i++) visit(&train->batch[i - first], context);
    }
}

typedef struct counts {
    int first, triggers, least_trigger, most_trigger, least_plain, most_plain, later, hidden, right;
    double weights;
} counts;

static void count_conditional(const ss_sequence *s, void *context) {
    counts *c = context;
    for (int t = 0; t < 12; t++) {
        int token = s->tokens[t];
        CHECK_INT(s->targets[t], -1);
        CHECK(s->weights[t] == 1 && s->optimum[t] == 0);
        CHECK_INT(s->kinds[t], t == 0       ? SS_KIND_FIRST
                               : token <= 3 ? SS_KIND_TRIGGER
                                            : SS_KIND_ELSEWHERE);
        c->first += t == 0 && token == 0;
        if (t == 0) continue;
        c->later++;
        if (token <= 3) {
            c->triggers++;
            c->least_trigger = token < c->least_trigger ? token : c->least_trigger;
            c->most_trigger = token > c->most_trigger ? token : c->most_trigger;
        } else {
            c->least_plain = token < c->least_plain ? token : c->least_plain;
            c->most_plain = token > c->most_plain ? token : c->most_plain;
        }
    }
}

static void check_conditional_draws(void) {
    CASE("the conditional task draws the stated share of triggers, and every trigger and plain "
         "token");
    scoped_train *opened = open_train(
        lab_config("relu"), "{\"task\":\"conditional\",\"batch\":200,\"length\":12,\"triggers\":3,"
                            "\"share\":0.25,\"steps\":1}");
    counts c = {.least_trigger = 20, .least_plain = 20};
    visit_sequences(&opened->train, count_conditional, &c);
    CHECK_INT(c.first, 200);
    CHECK_INT(c.least_trigger, 1);
    CHECK_INT(c.most_trigger, 3);
    CHECK_INT(c.least_plain, 4);
    CHECK_INT(c.most_plain, 19);
    /* Four standard deviations of 2200 draws are 0.037. */
    CHECK_NEAR((double)c.triggers / c.later, 0.25, 0.037);
}

/* Checks the tokens of a text that repeats 0, 1 .. 19, so that the next token is known, and notes
 * where its pieces begin. */
static void count_text(const ss_sequence *s, void *context) {
    counts *c = context;
    CHECK_INT(s->tokens[0], 7);
    CHECK_INT(s->kinds[0], SS_KIND_FIRST);
    for (int t = 0; t < 12; t++) {
        CHECK(isnan(s->optimum[t]));
        if (t > 0) CHECK_INT(s->kinds[t], SS_KIND_ELSEWHERE);
        if (t > 0) CHECK_INT(s->tokens[t], s->targets[t - 1]);
        if (t > 0) CHECK_INT(s->targets[t], (s->tokens[t] + 1) % 20);
        c->weights += (double)s->weights[t];
    }
    int begin = s->targets[0];
    c->least_plain = begin < c->least_plain ? begin : c->least_plain;
    c->most_plain = begin > c->most_plain ? begin : c->most_plain;
}

/* Counts masked tokens, whose id is 19; the text repeats 0 .. 18. */
static void count_hidden(const ss_sequence *s, void *context) {
    counts *c = context;
    float weight = 0;
    CHECK_INT(s->tokens[0], 7);
    for (int t = 1; t < 12; t++) {
        bool is_hidden = s->tokens[t] == 19;
        c->later++;
        c->hidden += is_hidden;
        CHECK_INT(s->targets[t], is_hidden ? s->targets[t] : s->tokens[t]);
        CHECK(s->targets[t] >= 0 && s->targets[t] < 19);
        if (t > 1) CHECK_INT(s->targets[t], (s->targets[t - 1] + 1) % 19);
        CHECK(is_hidden ? s->weights[t] >= 1 && s->weights[t] <= 50 : s->weights[t] == 0);
        /* All masked tokens of a sequence have the same weight, since their probability is the
         * same. */
        if (is_hidden && weight > 0) CHECK(s->weights[t] == weight);
        if (is_hidden) weight = s->weights[t];
        c->weights += (double)s->weights[t];
    }
    CHECK(s->weights[0] == 0);
}

static void count_planted(const ss_sequence *s, void *context) {
    counts *c = context;
    int after_trigger = 0;
    for (int t = 1; t < 12; t++) {
        if (s->kinds[t] == SS_KIND_TRIGGER) after_trigger++;
        if (after_trigger) CHECK_INT(s->kinds[t], SS_KIND_TRIGGER);
        CHECK_INT(s->tokens[t], s->targets[t - 1]);
    }
    c->later++;
    c->hidden += after_trigger > 0;
    if (!after_trigger) return;
    int last = 12 - after_trigger;
    CHECK(last >= 3 && after_trigger >= 5);
    c->least_plain = last < c->least_plain ? last : c->least_plain;
    c->most_plain = last > c->most_plain ? last : c->most_plain;
    for (int t = last; t < 12; t++) {
        CHECK(s->targets[t] > 2 && s->targets[t] != 7);
        if (t >= last + 5) CHECK_INT(s->targets[t], s->targets[t - 5]);
    }
}

static opened_train *open_text(const char *mask, int period, int n, double planted) {
    static int32_t text[64];
    char config[640], recipe[160];
    const char *config_start = lab_config("softmax");
    for (int i = 0; i < n; i++) text[i] = i % period;
    snprintf(recipe, sizeof recipe,
             "{\"task\":\"text\",\"batch\":400,\"length\":12,\"first\":7,\"steps\":1,"
             "\"triggers\":2,\"planted\":%g}",
             planted);
    size_t end = strlen(config_start) - 2;
    snprintf(config, sizeof config, "%.*s%s}}", (int)end, config_start, mask);
    opened_train *opened = malloc(sizeof *opened);
    ss_error err;
    must(try_train(opened, config, recipe, text, (size_t)n, &err), &err, "text");
    return opened;
}

static void check_text_draws(void) {
    CASE("the text task draws every piece of the text, also the last, after the first token");
    counts c = {.least_plain = 20, .most_plain = -1};
    opened_train *opened = open_text("", 20, 16, 0); /* the pieces of text begin at 0 .. 4 */
    visit_sequences(&opened->train, count_text, &c);
    CHECK_INT(c.least_plain, 0);
    CHECK_INT(c.most_plain, 4);
    CHECK_NEAR(c.weights, 400 * 12, 0);
    CHECK_NEAR(opened->train.targets, 400 * 12, 0);
    close_train(&opened);

    CASE("the tokens of a prefix are not predicted: their losses have weight 0");
    c = (counts){.least_plain = 20, .most_plain = -1};
    opened = open_text(",\"mask\":{\"kind\":\"prefix\",\"prefix\":5}", 20, 16, 0);
    visit_sequences(&opened->train, count_text, &c);
    CHECK_NEAR(c.weights, 400 * (12 - 4), 0);
    CHECK_NEAR(opened->train.targets, 400 * (12 - 4), 0);
    close_train(&opened);

    CASE("masked diffusion hides half of all tokens on average, and the loss of a hidden token has "
         "weight 1/p");
    c = (counts){0};
    opened = open_text(",\"mask\":{\"kind\":\"bidirectional\"},\"mask_token\":19", 19, 16, 0);
    visit_sequences(&opened->train, count_hidden, &c);
    /* The mean of p is 0.5002; four standard deviations over 4400 tokens in 400 sequences are
     * 0.065. */
    CHECK_NEAR((double)c.hidden / c.later, 0.5, 0.065);
    /* The mean weight of a token is 1; the standard deviation of a sequence's mean is below 0.6. */
    CHECK_NEAR(c.weights / c.later, 1, 0.12);
    CHECK_NEAR(opened->train.targets, 400 * 11, 0);
    close_train(&opened);

    CASE("a planted trigger begins at any position of its share of the sequences, and a cycle of "
         "five tokens follows");
    c = (counts){.least_plain = 20, .most_plain = -1};
    opened = open_text("", 20, 16, 0.25);
    visit_sequences(&opened->train, count_planted, &c);
    /* Four standard deviations of 400 draws with p = 0.25 are 0.087. */
    CHECK_NEAR((double)c.hidden / c.later, 0.25, 0.087);
    /* The trigger begins at position 1 .. 4. */
    CHECK_INT(c.least_plain, 3);
    CHECK_INT(c.most_plain, 6);
    close_train(&opened);
}

static double norm_of(const float *x, int n) {
    return norm_of_numbers(x, (size_t)n);
}

/* Returns the norm of row 0 over the mean norm of the other rows. */
static double first_to_others(const float *rows, int T, int width) {
    double mean_norm = 0;
    for (int t = 1; t < T; t++) mean_norm += norm_of(rows + t * width, width) / (T - 1);
    return norm_of(rows, width) / mean_norm;
}

#define LOGGED_T 12
#define LOGGED_HEADS 6
#define LOGGED_SEQUENCES 4
#define LOGGED_V 20

static const char *logged_config =
    "{\"model_type\":\"llama\",\"num_hidden_layers\":3,\"num_attention_heads\":2,\"hidden_size\":"
    "16,"
    "\"intermediate_size\":24,\"vocab_size\":20,\"max_position_embeddings\":16,"
    "\"tie_word_embeddings\":false}";

static void check_log(void) {
    CASE("every column of the log equals the number of its meaning, computed from the traces");
    scoped_train *opened =
        open_train(logged_config, "{\"batch\":4,\"length\":12,\"triggers\":3,\"steps\":9,"
                                  "\"deviation\":0.4,\"embedding_deviation\":1,\"warm_up\":4,"
                                  "\"learning_rate\":0.02}");
    ss_train *train = &opened->train;
    double loss[3] = {0}, optimum[3] = {0}, first[3] = {0}, of_heads[LOGGED_HEADS] = {0};
    double value = 0, hidden = 0, squares[4] = {0}, ratios[2] = {0};
    int positions[3] = {0};
    ss_error err;
    for (int part = 0; part < LOGGED_SEQUENCES; part++) {
        must(ss_train_part(train, part, true, &err), &err, "part");
        ss_train_add(train, part == 0);
        const ss_trace *trace = &train->traces[0];
        const ss_sequence *s = &train->batch[0];
        const float *logits = ss_recorded_rows(trace, SS_FIELD_LOGITS, 0, -1);
        for (int t = 0; t < LOGGED_T; t++, logits += LOGGED_V) {
            double sum = 0;
            for (int v = 0; v < LOGGED_V; v++) sum += exp((double)logits[v]);
            loss[s->kinds[t]] += log(sum) - (double)logits[s->targets[t]];
            optimum[s->kinds[t]] += (double)s->optimum[t];
            positions[s->kinds[t]]++;
            squares[t > 0] += (double)train->back.squares[t];
            squares[2 + (t > 0)] += (double)train->back.squares[LOGGED_T + t];
        }
        for (int i = 0; i < LOGGED_HEADS; i++) {
            const float *att = ss_recorded_rows(trace, SS_FIELD_ATT, i / 2, i % 2);
            for (int t = 0; t < LOGGED_T; t++) {
                double weight = (double)att[t * LOGGED_T];
                first[s->kinds[t]] += weight / LOGGED_HEADS;
                of_heads[i] += s->kinds[t] == SS_KIND_ELSEWHERE ? weight : 0;
            }
            value +=
                first_to_others(ss_recorded_rows(trace, SS_FIELD_V, i / 2, i % 2), LOGGED_T, 8) /
                LOGGED_HEADS;
        }
        for (int i = 0; i < 2 * 3; i++) ratios[i / 3] += (double)train->back.ratios[i] / 3;
        double most = 0;
        for (int l = 1; l <= 3; l++)
            most = fmax(most, first_to_others(ss_recorded_rows(trace, SS_FIELD_HIDDEN, l, -1),
                                              LOGGED_T, 16));
        hidden += most;
    }
    ss_log_entry entry;
    must(ss_train_finish(train, false, &entry, &err), &err, "finish");
    double triggers = positions[SS_KIND_TRIGGER], plain = positions[SS_KIND_ELSEWHERE];
    double most = 0;
    for (int i = 0; i < LOGGED_HEADS; i++) most = fmax(most, of_heads[i]);
    CHECK(triggers > 0 && plain > 0);
    CHECK_NEAR(entry.step, 0, 0);
    CHECK_NEAR(entry.learning_rate, 0.02 / 4, 1e-12);
    CHECK_NEAR(entry.loss, (loss[0] + loss[1] + loss[2]) / (LOGGED_SEQUENCES * LOGGED_T), 1e-5);
    CHECK_NEAR(entry.loss_triggers, loss[SS_KIND_TRIGGER] / triggers, 1e-5);
    /* The loss of position 0 counts as one of a position without a trigger. */
    CHECK_NEAR(entry.loss_elsewhere,
               (loss[SS_KIND_FIRST] + loss[SS_KIND_ELSEWHERE]) / (plain + LOGGED_SEQUENCES), 1e-5);
    CHECK_NEAR(entry.optimum_triggers, optimum[SS_KIND_TRIGGER] / triggers, 1e-6);
    CHECK_NEAR(entry.optimum_elsewhere,
               (optimum[SS_KIND_FIRST] + optimum[SS_KIND_ELSEWHERE]) / (plain + LOGGED_SEQUENCES),
               1e-6);
    /* The attention of position 0 does not count, since it sees only itself. */
    CHECK_NEAR(entry.first_elsewhere, first[SS_KIND_ELSEWHERE] / plain, 1e-6);
    CHECK_NEAR(entry.first_triggers, first[SS_KIND_TRIGGER] / triggers, 1e-6);
    CHECK_NEAR(entry.first_most, most / plain, 1e-6);
    CHECK(entry.first_most > entry.first_elsewhere + 0.01);
    CHECK_NEAR(entry.value_ratio, value / LOGGED_SEQUENCES, 1e-5);
    CHECK_NEAR(entry.hidden_ratio, hidden / LOGGED_SEQUENCES, 1e-5);
    CHECK_NEAR(entry.key_gradient, sqrt(squares[0] / (squares[1] / (LOGGED_T - 1))), 1e-5);
    CHECK_NEAR(entry.value_gradient, sqrt(squares[2] / (squares[3] / (LOGGED_T - 1))), 1e-5);
    CHECK_NEAR(entry.input_gradient, ratios[0] / LOGGED_SEQUENCES, 1e-5);
    CHECK_NEAR(entry.stream_gradient, ratios[1] / LOGGED_SEQUENCES, 1e-5);
    CHECK(isnan(entry.gradient_norm));
}

static void check_learning_rates(void) {
    CASE("the learning rate rises over the warm-up, stays, and falls to a tenth");
    ss_recipe recipe = {.learning_rate = 2, .warm_up = 4, .steps = 20, .fall = 0.5};
    const struct {
        int step;
        double rate;
    } cases[] = {{0, 0.5},   {2, 1.5},  {3, 2},     {4, 2},    {10, 2},
                 {11, 1.82}, {15, 1.1}, {19, 0.38}, {20, 0.2}, {30, 0.2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_NEAR(ss_learning_rate(&recipe, cases[i].step), cases[i].rate, 1e-12);
    recipe.fall = 0;
    CHECK_NEAR(ss_learning_rate(&recipe, 19), 2, 1e-12);
}

/* Implements splitmix64 as printed by Steele, Lea and Flood (2014). */
static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform_of_bits(uint64_t bits) {
    return (double)(bits >> 11) / 9007199254740992.0;
}

/* Checks that the initial weights of matrices whose names contain `word` are normal numbers with
 * this deviation; returns the number of matrices. */
static int check_deviation(const char *config, const char *recipe, const char *word,
                           double deviation) {
    scoped_train *opened = open_train(config, recipe);
    int checked = 0;
    for (size_t i = 0; i < opened->train.weights.container.n; i++) {
        const ss_entry *entry = &opened->train.weights.container.entries[i];
        if (entry->tensor.rank < 2 || !strstr(entry->name, word)) continue;
        uint64_t state = 7, stream = splitmix(&state);
        for (const char *sign = entry->name; *sign; sign++) {
            state = (stream ^ (uint64_t)(unsigned char)*sign) - 0x9e3779b97f4a7c15u;
            stream = splitmix(&state);
        }
        state = stream - 0x9e3779b97f4a7c15u;
        state = splitmix(&state);
        const float *numbers = (const float *)entry->tensor.data;
        for (int n = 0; n < 3; n++) {
            double size = sqrt(-2.0 * log(1.0 - uniform_of_bits(splitmix(&state))));
            double normal = size * cos(6.283185307179586 * uniform_of_bits(splitmix(&state)));
            CHECK_NEAR(numbers[n], deviation * normal, 1e-6);
        }
        checked++;
    }
    return checked;
}

static void check_first_numbers(void) {
    CASE("the initial weights of a matrix are normal numbers of splitmix64, by seed and name only");
    const char *recipe = "{\"length\":12,\"batch\":1,\"seed\":7,\"deviation\":0.5,"
                         "\"embedding_deviation\":0.25,\"position_deviation\":0.125}";
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "_proj", 0.5), 6);
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "lm_head", 0.5), 1);
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "embed_tokens", 0.25), 1);
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "embed_positions", 0.125), 1);

    CASE("without a deviation in the recipe, the deviation depends on a matrix's inputs, also in "
         "GPT-2's layout");
    const char *gpt2 = "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":2,\"n_embd\":16,"
                       "\"n_positions\":12,\"vocab_size\":20}";
    recipe = "{\"length\":12,\"batch\":1,\"seed\":7,\"deviation\":0,"
             "\"embedding_deviation\":0.25,\"position_deviation\":0.125}";
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "up_proj", 1 / sqrt(3.0 * 16)), 1);
    CHECK_INT(check_deviation(lab_config("softmax"), recipe, "down_proj", 1 / sqrt(3.0 * 24)), 1);
    CHECK_INT(check_deviation(gpt2, recipe, "c_attn", 1 / sqrt(3.0 * 16)), 1);
    CHECK_INT(check_deviation(gpt2, recipe, "c_fc", 1 / sqrt(3.0 * 16)), 1);
    CHECK_INT(check_deviation(gpt2, recipe, "mlp.c_proj", 1 / sqrt(3.0 * 64)), 1);
    CHECK_INT(check_deviation(gpt2, recipe, "wte", 0.25), 1);
    CHECK_INT(check_deviation(gpt2, recipe, "wpe", 0.125), 1);

    CASE("a matrix that has a name of GPT-2's and lies as [out][in] has its own inputs");
    const char *nanogpt = "{\"model_type\":\"nanogpt\",\"n_layer\":1,\"n_head\":2,\"n_embd\":16,"
                          "\"block_size\":12,\"vocab_size\":20}";
    CHECK_INT(check_deviation(nanogpt, recipe, "c_attn", 1 / sqrt(3.0 * 16)), 1);
    CHECK_INT(check_deviation(nanogpt, recipe, "c_fc", 1 / sqrt(3.0 * 16)), 1);
    CHECK_INT(check_deviation(nanogpt, recipe, "mlp.c_proj", 1 / sqrt(3.0 * 64)), 1);
}

static void count_equal(const ss_sequence *s, void *context) {
    const int32_t(*samples)[12] = context;
    for (int i = 0; i < 3; i++) CHECK(memcmp(s->tokens, samples[i], sizeof samples[i]) != 0);
}

static void check_samples_of_the_task(void) {
    CASE("a sample depends only on its number, and no step trains on it");
    scoped_train *opened =
        open_train(lab_config("softmax"), "{\"length\":12,\"batch\":16,\"steps\":2}");
    ss_train *train = &opened->train;
    int32_t samples[3][12];
    for (uint32_t i = 0; i < 3; i++)
        memcpy(samples[i], ss_train_sample(train, i), sizeof samples[i]);
    for (int i = 0; i < 3; i++)
        CHECK(memcmp(samples[i], samples[(i + 1) % 3], sizeof samples[i]) != 0);
    for (int step = 0; step < 2; step++) {
        visit_sequences(train, count_equal, samples);
        ss_log_entry entry;
        ss_error err;
        must(train_step(train, &entry, &err), &err, "step");
        for (uint32_t i = 0; i < 3; i++)
            CHECK_BITS(ss_train_sample(train, i), samples[i], sizeof samples[i]);
    }
}

static void check_parts_of_batches(void) {
    CASE("the gradient does not depend on how many sequences pass through the model together");
    const char *recipe = "{\"batch\":400,\"length\":12,\"triggers\":3,\"steps\":1}";
    scoped_train *whole_train = open_train(lab_config("softmax"), recipe);
    scoped_train *split_train = open_train(lab_config("softmax"), recipe);
    ss_log_entry a, b;
    ss_error err;
    CHECK_INT(whole_train->train.joint_sequences, SS_JOINT_ROWS / 12);
    split_train->train.joint_sequences = 7;
    must(train_step(&whole_train->train, &a, &err), &err, "step");
    must(train_step(&split_train->train, &b, &err), &err, "step");
    CHECK_NEAR(a.loss, b.loss, 1e-12);
    CHECK_NEAR(a.gradient_norm, b.gradient_norm, 1e-6);
    CHECK_NEAR(a.key_gradient, b.key_gradient, 1e-5);
}

static void check_shared_parts(const char *batch) {
    CASE("two workers that share each step give the bits of one worker");
    char recipe[128];
    snprintf(recipe, sizeof recipe, "{\"batch\":%s,\"length\":12,\"triggers\":3}", batch);
    scoped_train *single_train = open_train(lab_config("softmax"), recipe);
    opened_train *shared_trains[] = {open_train(lab_config("softmax"), recipe),
                                     open_train(lab_config("softmax"), recipe)};
    ss_log_entry expected, entry;
    ss_error err;
    size_t n = single_train->train.weights.n * sizeof(float),
           bytes = single_train->train.part_bytes;
    for (int step = 0; step < 3; step++) {
        must(train_step(&single_train->train, &expected, &err), &err, "step");
        for (int part = 0; part < SS_PARTS; part++) {
            ss_train *worker = &shared_trains[part % 2]->train,
                     *other_worker = &shared_trains[1 - part % 2]->train;
            must(ss_train_part(worker, part, true, &err), &err, "part");
            memcpy(other_worker->part, worker->part, bytes);
            ss_train_add(worker, part == 0);
            ss_train_add(other_worker, part == 0);
        }
        for (int i = 0; i < 2; i++) {
            must(ss_train_finish(&shared_trains[i]->train, true, &entry, &err), &err, "finish");
            CHECK_BITS(&entry, &expected, sizeof entry);
            CHECK_BITS(shared_trains[i]->train.weights.numbers, single_train->train.weights.numbers,
                       n);
        }
    }
    close_train(&shared_trains[0]);
    close_train(&shared_trains[1]);
}

/* Returns the bytes of the state of `from`, which the caller frees. */
static unsigned char *state_of(const ss_train *from) {
    unsigned char *state = malloc(ss_train_state_bytes(from));
    ss_train_state(from, state);
    return state;
}

static void check_resume(const char *recipe, int steps_before) {
    CASE("a resumed training run gives the bits of an uninterrupted one");
    scoped_train *reference = open_train(lab_config("softmax"), recipe);
    scoped_train *resumed_train = open_train(lab_config("softmax"), recipe);
    ss_log_entry expected, entry;
    ss_error err;
    for (int i = 0; i < steps_before; i++)
        must(train_step(&reference->train, &expected, &err), &err, "step");
    unsigned char *state = state_of(&reference->train);
    size_t n = ss_train_state_bytes(&reference->train);
    /* A step before the resume must not change the result. */
    must(train_step(&resumed_train->train, &entry, &err), &err, "astray");
    must(ss_train_resume(&resumed_train->train, (ss_bytes){state, n}, &err), &err, "resume");
    CHECK_INT(resumed_train->train.step, steps_before);
    unsigned char *resumed_state = state_of(&resumed_train->train);
    CHECK_BITS(resumed_state, state, n);
    for (int i = 0; i < 3; i++) {
        must(train_step(&reference->train, &expected, &err), &err, "step");
        must(train_step(&resumed_train->train, &entry, &err), &err, "step");
        CHECK_BITS(&entry, &expected, sizeof entry);
    }
    CHECK_BITS(resumed_train->train.weights.numbers, reference->train.weights.numbers,
               reference->train.weights.n * sizeof(float));
    free(state);
    free(resumed_state);
}

static void check_broken_states(void) {
    CASE("an invalid state is refused with its place and leaves the training run unchanged");
    scoped_train *opened = open_train(lab_config("softmax"), "{\"length\":12,\"batch\":1}");
    ss_train *train = &opened->train;
    size_t n = ss_train_state_bytes(train), numbers = train->weights.n;
    unsigned char *valid_state = state_of(train), *broken_state = malloc(n + 4);
    float values[] = {NAN, INFINITY, -1.0f};
    ss_error err;
    for (int i = 0; i < 8; i++) {
        size_t bytes = i == 0 ? n - 4 : i == 1 ? n + 4 : i == 2 ? 0 : n;
        memcpy(broken_state, valid_state, n);
        if (i == 3) broken_state[0] ^= 1;
        if (i == 4) broken_state[7] |= 0x80; /* the number of steps */
        if (i == 5) broken_state[8] ^= 1;    /* the number of weights */
        if (i == 6) memcpy(broken_state + 12, &values[0], 4);
        if (i == 7) memcpy(broken_state + 12 + 8 * numbers, &values[2], 4);
        CHECK_INT((int)ss_train_resume(train, (ss_bytes){broken_state, bytes}, &err), SS_BAD_FILE);
        CHECK(strstr(err.text, "expected") != NULL);
        unsigned char *current_state = state_of(train);
        CHECK_BITS(current_state, valid_state, n);
        free(current_state);
    }
    /* A number that is not finite is refused at the end of each of the three arrays; a negative
     * weight is valid. */
    for (size_t i = 1; i <= 3; i++) {
        memcpy(broken_state, valid_state, n);
        size_t offset = 12 + 4 * (i * numbers - 1);
        memcpy(broken_state + offset, &values[1], 4);
        CHECK_INT((int)ss_train_resume(train, (ss_bytes){broken_state, n}, &err), SS_BAD_FILE);
        CHECK(!strcmp(err.where, ss_where_byte(offset).text));
    }
    memcpy(broken_state, valid_state, n);
    memcpy(broken_state + 12, &values[2], 4);
    must(ss_train_resume(train, (ss_bytes){broken_state, n}, &err), &err, "negative");
    free(valid_state);
    free(broken_state);
}

static void check_resumed_divergence(void) {
    CASE("training that diverges in the first step after a resume keeps the weights of the state");
    scoped_train *opened =
        open_train(lab_config("identity"), "{\"batch\":4,\"length\":12,\"learning_rate\":1e25,"
                                           "\"optimizer\":\"sgd\"}");
    ss_train *train = &opened->train;
    ss_log_entry entry = {0};
    ss_error err;
    must(train_step(train, &entry, &err), &err, "step");
    unsigned char *state = state_of(train);
    size_t n = ss_train_state_bytes(train);
    ss_status status = ss_train_resume(train, (ss_bytes){state, n}, &err);
    /* If the weights are no longer finite, the state itself is refused. */
    if (status == SS_OK) status = train_step(train, &entry, &err);
    CHECK(status == SS_DIVERGED || status == SS_BAD_FILE);
    if (status == SS_DIVERGED)
        CHECK_BITS(train->weights.numbers, state + 12, train->weights.n * sizeof(float));
    free(state);
}

static void check_initial_weights(void) {
    CASE("a missing tensor of the initial weights, or one of another shape, is refused by name");
    scoped_train *opened = open_train(lab_config("softmax"), "{\"length\":12,\"batch\":1}");
    opened_file file = {.bytes = opened->train.weights.file};
    ss_error err;
    must(open_bytes(&file, &err), &err, "first");
    static const char *const names[] = {"model.norm.weight", "self_attn.q_proj.weight",
                                        "self_attn.q_proj.weight", "self_attn.q_proj.weight"};
    static const ss_dtype types[] = {SS_I8, SS_I8, SS_I32, SS_U8};
    for (int i = 0; i < 4; i++) {
        ss_container changed = file.container;
        scoped ss_entry *entries = malloc(changed.n * sizeof *entries);
        memcpy(entries, changed.entries, changed.n * sizeof *entries);
        changed.entries = entries;
        for (size_t e = 0; e < changed.n; e++)
            if (strstr(entries[e].name, names[i]) && i == 0)
                memmove(entries + e, entries + e + 1, (--changed.n - e) * sizeof *entries);
            else if (strstr(entries[e].name, names[i]))
                entries[e].tensor.type = types[i]; /* I8 without a tensor of scales */
        CHECK_INT((int)ss_parameters_copy(&opened->train.weights, &changed, &err), SS_BAD_TENSOR);
        CHECK(strstr(err.where, names[i]) != NULL);
    }
    free(file.arena.block);
}

static void check_divergence(void) {
    CASE("training that diverges ends with its step and finite weights");
    scoped_train *opened =
        open_train(lab_config("identity"),
                   "{\"batch\":4,\"length\":12,\"triggers\":3,\"steps\":50,\"learning_rate\":1e25,"
                   "\"optimizer\":\"sgd\"}");
    ss_log_entry entry = {0};
    ss_error err;
    ss_status status = SS_OK;
    while (status == SS_OK && opened->train.step < 50)
        status = train_step(&opened->train, &entry, &err);
    CHECK_INT((int)status, SS_DIVERGED);
    CHECK(strstr(err.text, "step") != NULL);
    for (size_t i = 0; i < opened->train.weights.n; i++)
        CHECK(isfinite(opened->train.weights.numbers[i]));
    must(measure_weights(&opened->train, &entry, &err), &err, "look");
    CHECK(isfinite(entry.loss));
}

static void check_refusals(void) {
    CASE("an untrainable model or recipe is refused with a place and the expected value");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "recipes")) {
        scoped_train *opened = malloc(sizeof *opened);
        ss_error err = {0};
        const cJSON *model = cJSON_GetArrayItem(row, 0);
        char *config = cJSON_IsNull(model) ? NULL : cJSON_PrintUnformatted(model);
        char *recipe = cJSON_PrintUnformatted(cJSON_GetArrayItem(row, 1));
        ss_status status =
            try_train(opened, config ? config : lab_config("softmax"), recipe, NULL, 0, &err);
        check_refusal(row, 2, status, &err);
        cJSON_free(recipe);
        cJSON_free(config);
    }
}

static void check_text_refusals(void) {
    CASE("a token outside the vocabulary, and a task that the model's mask does not allow, are "
         "refused");
    static const struct {
        const char *mask, *task, *where, *text;
        int32_t last;
        ss_status status;
    } cases[] = {
        {"", "text", "", "", 19, SS_OK},
        {"", "text", "text", "token 15: expected an id below 20, found 20", 20, SS_BAD_TOKEN},
        {"", "text", "text", "token 15: expected an id below 20, found -1", -1, SS_BAD_TOKEN},
        {",\"mask\":{\"kind\":\"bidirectional\"},\"mask_token\":19", "text", "", "", 0, SS_OK},
        {",\"mask\":{\"kind\":\"bidirectional\"}", "text", "sinkscope.mask_token", "bidirectional",
         0, SS_BAD_CONFIG},
        {",\"mask\":{\"kind\":\"prefix\",\"prefix\":3}", "backcopy", "task",
         "no later key for backcopy", 0, SS_UNSUPPORTED},
        {",\"mask\":{\"kind\":\"window\",\"window\":3}", "backcopy", "", "", 0, SS_OK},
    };
    const char *config_start = lab_config("softmax");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t text[16] = {0};
        char config[640], recipe[64];
        text[15] = cases[i].last;
        snprintf(config, sizeof config, "%.*s%s}}", (int)strlen(config_start) - 2, config_start,
                 cases[i].mask);
        snprintf(recipe, sizeof recipe, "{\"task\":\"%s\",\"length\":12}", cases[i].task);
        scoped_train *opened = malloc(sizeof *opened);
        ss_error err = {0};
        CHECK_INT((int)try_train(opened, config, recipe, text, 16, &err), (int)cases[i].status);
        CHECK(!strcmp(err.where, cases[i].where) && strstr(err.text, cases[i].text));
    }
}

static void check_headers(void) {
    CASE("the numbers of a file begin at a multiple of 64 bytes, with as few spaces as possible");
    bool is_met[SS_ARENA_ALIGN] = {false};
    for (int layers = 1; layers <= 8; layers++)
        for (int i = 0; i < 32; i++) {
            /* Another digit in a size makes the header a few characters longer. */
            char config[300];
            snprintf(config, sizeof config,
                     "{\"model_type\":\"llama\",\"num_hidden_layers\":%d,\"num_attention_heads\":1,"
                     "\"hidden_size\":%d,\"intermediate_size\":%d,\"vocab_size\":%d,"
                     "\"max_position_embeddings\":4,\"tie_word_embeddings\":%s}",
                     layers, i & 1 ? 16 : 8,
                     i & 2   ? 100
                     : i & 4 ? 10
                             : 9,
                     i & 8 ? 100 : 12, i & 16 ? "true" : "false");
            scoped_train *opened = open_train(config, "{\"length\":4,\"batch\":1,\"triggers\":2}");
            ss_bytes file = opened->train.weights.file;
            uint64_t header = 0;
            CHECK(ss_read_u64(&header, file, 0));
            size_t used = (size_t)header;
            while (used && file.data[8 + used - 1] == ' ') used--;
            CHECK_INT((int)((8 + header) % SS_ARENA_ALIGN), 0);
            CHECK(header - used < SS_ARENA_ALIGN);
            is_met[(8 + used) % SS_ARENA_ALIGN] = true;
        }
    CHECK(is_met[0] && is_met[1] && is_met[SS_ARENA_ALIGN - 1]);
}

static void check_memory(void) {
    CASE("memory that is one piece too small is refused, and nothing is written beyond it");
    scoped_train *opened = open_train(lab_config("softmax"), "{\"length\":12,\"batch\":4}");
    ss_error err;
    size_t used = opened->arena.used;
    ss_arena small = arena_of(used - SS_ARENA_ALIGN);
    scoped ss_train *train = malloc(sizeof *train);
    CHECK_INT((int)ss_train_init(train, &opened->desc, &small, &err), SS_NO_MEMORY);
    free(small.block);
}

int main(void) {
    open_tables("train.json");
    check_golden_gradients();
    check_finite_differences("tests/golden/ref-softmax", 1);
    check_finite_differences("tests/golden/ref-sigmoid", 1);
    check_finite_differences("tests/golden/var-gate-element", 1);
    check_finite_differences("tests/golden/ref-softmax", 5);
    check_finite_differences("tests/golden/var-learned", 5);
    check_golden_training("tests/golden/training/adamw");
    check_golden_training("tests/golden/training/sgd");
    check_golden_training("tests/golden/training/onward");
    check_golden_training("tests/golden/training/value-gradient");
    check_golden_training("tests/golden/training/planted");
    check_backcopy();
    check_conditional();
    check_conditional_draws();
    check_text_draws();
    check_log();
    check_learning_rates();
    check_first_numbers();
    check_samples_of_the_task();
    check_parts_of_batches();
    check_shared_parts("9");
    check_shared_parts("3");
    check_initial_weights();
    check_resume("{\"batch\":4,\"length\":12,\"warm_up\":3,\"steps\":8,\"fall\":0.5}", 4);
    check_resume("{\"batch\":5,\"length\":12,\"optimizer\":\"sgd\",\"learning_rate\":0.1}", 0);
    check_broken_states();
    check_resumed_divergence();
    check_divergence();
    check_refusals();
    check_text_refusals();
    check_headers();
    check_memory();
    close_tables("train.json");
    return check_done();
}
