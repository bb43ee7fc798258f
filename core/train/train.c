#include "train.h"

#include "loss.h"

#include <math.h>
#include <string.h>

/* ---- laying out --------------------------------------------------------------------------- */

static float *take(ss_arena *arena, size_t n) {
    return ss_arena_take(arena, n, sizeof(float));
}

/* What is not a model or a run: in one order for measuring and taking. */
static void lay_out(ss_train *train, const ss_arch *arch, size_t n, size_t panels,
                    ss_arena *arena) {
    size_t T = (size_t)train->recipe->length, batch = (size_t)train->recipe->batch;
    train->mean = take(arena, n);
    train->square = take(arena, n);
    train->before = take(arena, n);
    train->losses = take(arena, T);
    train->panels = take(arena, panels);
    ss_tally_lay_out(&train->tally, arch, arena);
    train->batch = ss_arena_take(arena, batch, sizeof *train->batch);
    for (size_t i = 0; i < batch; i++) {
        ss_sequence s = {ss_arena_take(arena, T, 4), ss_arena_take(arena, T, 4), take(arena, T),
                         take(arena, T), ss_arena_take(arena, T, 1)};
        if (train->batch && !arena->full) train->batch[i] = s;
    }
    train->runs = ss_arena_take(arena, (size_t)train->part, sizeof *train->runs);
    train->traces = ss_arena_take(arena, (size_t)train->part, sizeof *train->traces);
    ss_backward_lay_out(&train->back, arch, train->part, train->T, arena);
}

static ss_train begun(const ss_train_desc *desc) {
    int T = (int)desc->recipe->length, batch = (int)desc->recipe->batch;
    int most = T < SS_PART_ROWS ? SS_PART_ROWS / T : 1;
    return (ss_train){.recipe = desc->recipe, .T = T, .part = batch < most ? batch : most};
}

static ss_run_desc run_desc(const ss_train *train, const ss_model *model) {
    return (ss_run_desc){
        .model = model, .capacity = train->T, .fields = ss_backward_fields(&model->arch)};
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* A model of that shape without weights, as the size of a run reads it. */
static ss_model shape_of(const ss_arch *arch) {
    size_t widest = larger((size_t)arch->H * (size_t)arch->K, (size_t)arch->F);
    return (ss_model){.arch = *arch, .widest = larger(widest, (size_t)arch->D)};
}

ss_status ss_train_size(size_t *bytes, const ss_train_desc *desc, ss_error *err) {
    const ss_arch *arch = desc->arch;
    ss_train train = begun(desc);
    ss_arena arena = ss_arena_measure();
    size_t parameters = 0, run = 0, numbers = 0, panels = 0;
    ss_status status = ss_backward_check(arch, err);
    if (status == SS_OK)
        status =
            ss_task_init(&train.task, desc->recipe, arch, desc->text, desc->text_n, &arena, err);
    if (status == SS_OK) status = ss_parameters_size(&parameters, &numbers, &panels, arch, err);
    ss_model shape = shape_of(arch);
    ss_run_desc of_run = run_desc(&train, &shape);
    if (status == SS_OK) status = ss_run_size(&run, &of_run, err);
    if (status != SS_OK) return status;
    lay_out(&train, arch, numbers, panels, &arena);
    ss_arena_take(&arena, 2, parameters);
    ss_arena_take(&arena, (size_t)train.part, run);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "train",
                       "a training of %lu numbers on %d sequences of %d does not fit this machine",
                       (unsigned long)numbers, train.part, train.T);
    *bytes = arena.used;
    return SS_OK;
}

static ss_status begin(ss_train *train, const ss_train_desc *desc, ss_arena *arena, ss_error *err) {
    ss_status status = ss_parameters_make(&train->weights, desc->arch, arena, err);
    if (status == SS_OK) status = ss_parameters_make(&train->gradients, desc->arch, arena, err);
    if (status != SS_OK) return status;
    const ss_arch *arch = &train->weights.model.arch;
    status = ss_task_init(&train->task, train->recipe, arch, desc->text, desc->text_n, arena, err);
    if (status != SS_OK) return status;
    lay_out(train, arch, train->weights.n, train->weights.panels, arena);
    status = ss_operation_own(&train->own, &train->weights.model, err);
    ss_run_desc of_run = run_desc(train, &train->weights.model);
    for (int s = 0; s < train->part && status == SS_OK && !arena->full; s++)
        status = ss_run_init(&train->runs[s], &of_run, arena, err);
    if (status == SS_OK && arena->full)
        status = ss_fail(err, SS_NO_MEMORY, "train", "expected more than %lu bytes",
                         (unsigned long)arena->bytes);
    return status;
}

ss_status ss_train_init(ss_train *train, const ss_train_desc *desc, ss_arena *arena,
                        ss_error *err) {
    ss_status status = ss_backward_check(desc->arch, err);
    if (status != SS_OK) return status;
    *train = begun(desc);
    status = begin(train, desc, arena, err);
    if (status == SS_OK) ss_parameters_draw(&train->weights, train->recipe);
    if (status == SS_OK && desc->begin)
        status = ss_parameters_copy(&train->weights, desc->begin, err);
    if (status != SS_OK) return status;
    /* What points at the weights points into the caller's struct from here on. */
    train->task.arch = &train->weights.model.arch;
    train->back.model = &train->weights.model;
    train->back.sums = &train->gradients.model;
    memset(train->mean, 0, train->weights.n * sizeof(float));
    memset(train->square, 0, train->weights.n * sizeof(float));
    return SS_OK;
}

/* ---- a step ------------------------------------------------------------------------------- */

/* The batch of the step; how many losses its mean is over. */
static double draw(ss_train *train) {
    int n;
    double told = 0;
    uint64_t batch = (uint64_t)train->recipe->batch, first = (uint64_t)train->step * batch;
    for (uint64_t i = 0; i < batch; i++)
        told +=
            ss_tasks(&n)[train->task.row].draw(&train->task, &train->batch[i], first + i, train->T);
    return told;
}

/* Begins a run anew: a run has copies of the sink logits. */
static void rewind_run(const ss_train *train, ss_run *run) {
    const ss_model *model = &train->weights.model;
    for (int i = 0; i < model->arch.L * model->arch.H; i++)
        run->trace.choices[i] =
            ss_operation_at(&train->own, model, i / model->arch.H, i % model->arch.H);
    run->trace.T = 0;
}

/* Runs sequence s of a part and puts the derivative by its logits in its place. */
static ss_status run_sequence(ss_train *train, int s, const ss_sequence *sequence, double told,
                              ss_error *err) {
    ss_run *run = &train->runs[s];
    size_t count = (size_t)train->T * (size_t)train->weights.model.arch.V;
    float *logits = train->back.logits + (size_t)s * count;
    rewind_run(train, run);
    ss_status status = ss_run_extend(run, sequence->tokens, train->T, err);
    if (status != SS_OK) return status;
    train->traces[s] = run->trace;
    memcpy(logits, ss_recorded(&run->trace, SS_FIELD_LOGITS, 0, -1), count * sizeof *logits);
    ss_loss_back(logits, train->losses, &train->task, sequence, (float)(1.0 / told), train->T);
    ss_tally_add(&train->tally, &run->trace, sequence, train->losses);
    return SS_OK;
}

/* The batch forwards, and backwards too where back says so. */
static ss_status go_through(ss_train *train, bool back, ss_log_entry *entry, ss_error *err) {
    int batch = (int)train->recipe->batch;
    double told = draw(train);
    ss_tally_begin(&train->tally);
    ss_arena panels = ss_arena_on(train->panels, train->weights.panels * sizeof(float));
    ss_model_keep_panels(&train->weights.model, &panels);
    memset(train->gradients.numbers, 0, train->gradients.n * sizeof(float));
    for (int i = 0; i < batch; i += train->part) {
        int n = batch - i < train->part ? batch - i : train->part;
        for (int s = 0; s < n; s++) {
            ss_status status = run_sequence(train, s, &train->batch[i + s], told, err);
            if (status != SS_OK) return status;
        }
        if (!back) continue;
        ss_backward_run(&train->back, train->traces, n);
        ss_tally_add_squares(&train->tally, train->back.squares);
    }
    *entry = ss_tally_end(&train->tally, told);
    entry->step = train->step;
    entry->learning_rate = ss_learning_rate(train->recipe, train->step);
    entry->gradient_norm = back ? ss_gradient_norm(&train->gradients) : (double)NAN;
    return SS_OK;
}

ss_status ss_train_look(ss_train *train, ss_log_entry *entry, ss_error *err) {
    return go_through(train, false, entry, err);
}

ss_status ss_train_step(ss_train *train, ss_log_entry *entry, ss_error *err) {
    ss_log_entry made;
    ss_status status = go_through(train, true, &made, err);
    if (status != SS_OK) return status;
    size_t bytes = train->weights.n * sizeof(float);
    if (!isfinite(made.loss) || !isfinite(made.gradient_norm)) {
        /* What the last update made of them is no good either. */
        if (!isfinite(made.loss) && train->step > 0)
            memcpy(train->weights.numbers, train->before, bytes);
        return ss_fail(err, SS_DIVERGED, "train",
                       "step %d: the %s is no longer a number; the weights of step %d are kept",
                       train->step, isfinite(made.loss) ? "gradient" : "loss",
                       train->step - (!isfinite(made.loss) && train->step > 0));
    }
    double clip = train->recipe->clip, scale = 1.0;
    if (clip > 0.0 && made.gradient_norm > clip) scale = clip / made.gradient_norm;
    memcpy(train->before, train->weights.numbers, bytes);
    ss_update(&train->weights, &train->gradients, train->mean, train->square, train->recipe,
              train->step, scale);
    train->step++;
    *entry = made;
    return SS_OK;
}

const int32_t *ss_train_sample(ss_train *train, uint32_t number) {
    int n;
    /* Steps count from the beginning. */
    ss_tasks(&n)[train->task.row].draw(&train->task, train->batch, UINT64_MAX - number, train->T);
    return train->batch->tokens;
}
