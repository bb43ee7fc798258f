#include "train.h"

#include "../math/kernels.h"

#include <math.h>
#include <string.h>

static int part_size_max(const ss_recipe *recipe) {
    return ((int)recipe->batch + SS_PARTS - 1) / SS_PARTS;
}

static int first_sequence(const ss_train *train, int part) {
    return (int)train->recipe->batch * part / SS_PARTS;
}

/* Takes all memory except that of models and runs. ss_train_size and ss_train_init both call this
 * function, so that they agree. */
static void lay_out(ss_train *train, const ss_arch *arch, size_t n, size_t panels,
                    ss_arena *arena) {
    size_t T = (size_t)train->recipe->length, sequences_max = (size_t)part_size_max(train->recipe);
    train->mean = ss_arena_floats(arena, n, 1);
    train->square = ss_arena_floats(arena, n, 1);
    train->previous = ss_arena_floats(arena, n, 1);
    train->losses = ss_arena_floats(arena, T, 1);
    train->panels = ss_arena_floats(arena, panels, 1);
    ss_tally_lay_out(&train->tally, arch, train->T, arena);
    train->part_bytes = ss_tally_doubles(&train->tally) * sizeof(double) + n * sizeof(float);
    train->part = ss_arena_take(arena, train->part_bytes, 1);
    train->totals = ss_arena_take(arena, train->part_bytes, 1);
    train->batch = ss_arena_take(arena, sequences_max, sizeof *train->batch);
    for (size_t i = 0; i < sequences_max; i++) {
        ss_sequence s = {ss_arena_take(arena, T, 4), ss_arena_take(arena, T, 4),
                         ss_arena_floats(arena, T, 1), ss_arena_floats(arena, T, 1),
                         ss_arena_take(arena, T, 1)};
        if (train->batch && !arena->full) train->batch[i] = s;
    }
    train->runs = ss_arena_take(arena, (size_t)train->joint_sequences, sizeof *train->runs);
    train->traces = ss_arena_take(arena, (size_t)train->joint_sequences, sizeof *train->traces);
    ss_backward_lay_out(&train->back, arch, train->joint_sequences, train->T, arena);
}

static ss_train new_train(const ss_train_desc *desc) {
    int T = (int)desc->recipe->length, part_size = part_size_max(desc->recipe);
    int joint_max = T < SS_JOINT_ROWS ? SS_JOINT_ROWS / T : 1;
    return (ss_train){.recipe = desc->recipe,
                      .T = T,
                      .joint_sequences = part_size < joint_max ? part_size : joint_max};
}

static ss_run_desc run_desc(const ss_train *train, const ss_model *model) {
    return (ss_run_desc){.model = model,
                         .capacity = train->T,
                         .fields = ss_backward_fields(&model->arch),
                         .map_bytes = SIZE_MAX};
}

/* Returns a model without weights, from which ss_run_size computes the size of a run. */
static ss_model weightless_model(const ss_arch *arch) {
    size_t widest = ss_max_size((size_t)arch->H * (size_t)arch->K, (size_t)arch->F);
    return (ss_model){.arch = *arch, .widest = ss_max_size(widest, (size_t)arch->D)};
}

ss_status ss_train_size(size_t *bytes, const ss_train_desc *desc, ss_error *err) {
    const ss_arch *arch = desc->arch;
    ss_train train = new_train(desc);
    ss_arena arena = ss_arena_measure();
    size_t parameters = 0, run = 0, numbers = 0, panels = 0;
    ss_status status = ss_backward_check(arch, err);
    if (status == SS_OK)
        status =
            ss_task_init(&train.task, desc->recipe, arch, desc->text, desc->text_n, &arena, err);
    if (status == SS_OK) status = ss_parameters_size(&parameters, &numbers, &panels, arch, err);
    ss_model shape = weightless_model(arch);
    ss_run_desc run_setup = run_desc(&train, &shape);
    if (status == SS_OK) status = ss_run_size(&run, &run_setup, err);
    if (status != SS_OK) return status;
    lay_out(&train, arch, numbers, panels, &arena);
    ss_arena_take(&arena, 2, parameters);
    ss_arena_take(&arena, (size_t)train.joint_sequences, run);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "train",
                       "%lu numbers on %d sequences of %d do not fit this machine",
                       (unsigned long)numbers, train.joint_sequences, train.T);
    *bytes = arena.used;
    return SS_OK;
}

static ss_status begin_training(ss_train *train, const ss_train_desc *desc, ss_arena *arena,
                                ss_error *err) {
    ss_status status = ss_parameters_make(&train->weights, desc->arch, arena, err);
    if (status == SS_OK) status = ss_parameters_make(&train->gradients, desc->arch, arena, err);
    if (status != SS_OK) return status;
    const ss_arch *arch = &train->weights.model.arch;
    status = ss_task_init(&train->task, train->recipe, arch, desc->text, desc->text_n, arena, err);
    if (status != SS_OK) return status;
    lay_out(train, arch, train->weights.n, train->weights.panels, arena);
    status = ss_operation_own(&train->choice, &train->weights.model, err);
    ss_run_desc run_setup = run_desc(train, &train->weights.model);
    for (int s = 0; s < train->joint_sequences && status == SS_OK && !arena->full; s++)
        status = ss_run_init(&train->runs[s], &run_setup, arena, err);
    if (status == SS_OK && arena->full)
        status = ss_fail(err, SS_NO_MEMORY, "train", "expected more than %lu bytes",
                         (unsigned long)arena->bytes);
    return status;
}

ss_status ss_train_init(ss_train *train, const ss_train_desc *desc, ss_arena *arena,
                        ss_error *err) {
    ss_status status = ss_backward_check(desc->arch, err);
    if (status != SS_OK) return status;
    *train = new_train(desc);
    status = begin_training(train, desc, arena, err);
    if (status == SS_OK) ss_parameters_draw(&train->weights, train->recipe);
    if (status == SS_OK && desc->begin)
        status = ss_parameters_copy(&train->weights, desc->begin, err);
    if (status != SS_OK) return status;
    /* The weights have moved into the caller's struct, so pointers to them are set again. */
    train->task.arch = &train->weights.model.arch;
    train->back.model = &train->weights.model;
    train->back.sums = &train->gradients.model;
    train->back.first_value = (float)train->recipe->first_value_gradient;
    memset(train->mean, 0, train->weights.n * sizeof(float));
    memset(train->square, 0, train->weights.n * sizeof(float));
    return SS_OK;
}

/* Draws sequences [begin, end) of the step's batch, at least one. Sets train->targets, the number
 * of losses of the whole batch: every sequence has the same number. */
static void draw_batch(ss_train *train, int begin, int end) {
    double batch = train->recipe->batch;
    uint64_t first_number = (uint64_t)train->step * (uint64_t)batch;
    for (int i = begin; i < end || i == begin; i++)
        train->targets =
            batch * ss_tasks(NULL)[train->task.row].draw(&train->task, &train->batch[i - begin],
                                                         first_number + (uint64_t)i, train->T);
}

/* Restarts a run and copies the sink logits of the model again, since an update changes them. */
static void rewind_run(const ss_train *train, ss_run *run) {
    const ss_model *model = &train->weights.model;
    for (int i = 0; i < model->arch.L * model->arch.H; i++)
        run->trace.choices[i] =
            ss_operation_at(&train->choice, model, i / model->arch.H, i % model->arch.H);
    run->trace.T = 0;
}

static ss_status run_sequence(ss_train *train, int s, const ss_sequence *sequence, ss_error *err) {
    ss_run *run = &train->runs[s];
    size_t count = (size_t)train->T * (size_t)train->weights.model.arch.V;
    float *logits = train->back.logits + (size_t)s * count;
    rewind_run(train, run);
    ss_status status = ss_run_extend(run, sequence->tokens, train->T, err);
    if (status != SS_OK) return status;
    train->traces[s] = run->trace;
    memcpy(logits, ss_recorded_rows(&run->trace, SS_FIELD_LOGITS, 0, -1), count * sizeof *logits);
    ss_loss_back(logits, train->losses, &train->task, sequence, (float)(1.0 / train->targets),
                 train->T);
    ss_tally_add(&train->tally, &run->trace, sequence, train->losses);
    return SS_OK;
}

static void pack_weights(ss_train *train) {
    ss_arena panels = ss_arena_on(train->panels, train->weights.panels * sizeof(float));
    if (!train->packed) ss_model_keep_panels(&train->weights.model, &panels);
    train->packed = true;
}

static float *gradient_of(const ss_train *train, double *part) {
    return (float *)(void *)(part + ss_tally_doubles(&train->tally));
}

ss_status ss_train_part(ss_train *train, int part, bool with_gradients, ss_error *err) {
    int begin = first_sequence(train, part), end = first_sequence(train, part + 1);
    size_t bytes = train->gradients.n * sizeof(float);
    draw_batch(train, begin, end);
    pack_weights(train);
    ss_tally_begin(&train->tally, train->part);
    memset(train->gradients.numbers, 0, bytes);
    for (int i = begin; i < end; i += train->joint_sequences) {
        int n = end - i < train->joint_sequences ? end - i : train->joint_sequences;
        for (int s = 0; s < n; s++) {
            ss_status status = run_sequence(train, s, &train->batch[i - begin + s], err);
            if (status != SS_OK) return status;
        }
        if (!with_gradients) continue;
        ss_backward_run(&train->back, train->traces, n);
        ss_tally_add_gradients(&train->tally, train->back.squares, train->back.ratios, n);
    }
    memcpy(gradient_of(train, train->part), train->gradients.numbers, bytes);
    return SS_OK;
}

void ss_train_add(ss_train *train, bool is_first) {
    if (is_first) {
        memcpy(train->totals, train->part, train->part_bytes);
        return;
    }
    for (size_t i = 0; i < ss_tally_doubles(&train->tally); i++) train->totals[i] += train->part[i];
    ss_add(gradient_of(train, train->totals), gradient_of(train, train->part), train->gradients.n);
}

static ss_log_entry entry_of(ss_train *train) {
    ss_tally_set_sums(&train->tally, train->totals);
    ss_log_entry entry = ss_tally_end(&train->tally, train->targets);
    entry.step = train->step;
    entry.learning_rate = ss_learning_rate(train->recipe, train->step);
    entry.gradient_norm = (double)NAN;
    return entry;
}

ss_status ss_train_finish(ss_train *train, bool update, ss_log_entry *entry, ss_error *err) {
    ss_log_entry new_entry = entry_of(train);
    if (!update) {
        *entry = new_entry;
        return SS_OK;
    }
    size_t bytes = train->weights.n * sizeof(float);
    memcpy(train->gradients.numbers, gradient_of(train, train->totals), bytes);
    new_entry.gradient_norm = ss_gradient_norm(&train->gradients);
    train->packed = false;
    if (!isfinite(new_entry.loss) || !isfinite(new_entry.gradient_norm)) {
        /* If the loss is not finite, the last update caused that and is undone. */
        if (!isfinite(new_entry.loss) && train->step > 0)
            memcpy(train->weights.numbers, train->previous, bytes);
        return ss_fail(err, SS_DIVERGED, "train",
                       "step %d: the %s is not finite; the weights of step %d are kept",
                       train->step, isfinite(new_entry.loss) ? "gradient" : "loss",
                       train->step - (!isfinite(new_entry.loss) && train->step > 0));
    }
    double clip = train->recipe->clip, scale = 1.0;
    if (clip > 0.0 && new_entry.gradient_norm > clip) scale = clip / new_entry.gradient_norm;
    memcpy(train->previous, train->weights.numbers, bytes);
    ss_update(&train->weights, &train->gradients, train->mean, train->square, train->recipe,
              train->step, scale);
    train->step++;
    *entry = new_entry;
    return SS_OK;
}

#define STATE_HEADER 12 /* bytes of "SSTS", the steps and the number of weights */

size_t ss_train_state_bytes(const ss_train *train) {
    return STATE_HEADER + 3 * train->weights.n * sizeof(float);
}

void ss_train_state(const ss_train *train, unsigned char *out) {
    size_t bytes = train->weights.n * sizeof(float);
    uint32_t header[2] = {(uint32_t)train->step, (uint32_t)train->weights.n};
    memcpy(out, "SSTS", 4);
    memcpy(out + 4, header, sizeof header);
    memcpy(out + STATE_HEADER, train->weights.numbers, bytes);
    memcpy(out + STATE_HEADER + bytes, train->mean, bytes);
    memcpy(out + STATE_HEADER + 2 * bytes, train->square, bytes);
}

ss_status ss_train_resume(ss_train *train, ss_bytes state, ss_error *err) {
    size_t n = train->weights.n, bytes = n * sizeof(float);
    if (state.n != ss_train_state_bytes(train))
        return ss_fail(err, SS_BAD_FILE, "state", "expected %lu bytes for %lu weights, found %lu",
                       (unsigned long)ss_train_state_bytes(train), (unsigned long)n,
                       (unsigned long)state.n);
    uint32_t header[2];
    memcpy(header, state.data + 4, sizeof header);
    if (memcmp(state.data, "SSTS", 4) != 0 || header[0] > INT32_MAX || header[1] != n)
        return ss_fail(err, SS_BAD_FILE, "state: byte 0",
                       "expected the state of a training of %lu weights, found other bytes",
                       (unsigned long)n);
    const unsigned char *numbers = state.data + STATE_HEADER;
    for (size_t i = 0; i < 3 * n; i++) {
        float number;
        memcpy(&number, numbers + i * sizeof number, sizeof number);
        if (isfinite(number) && (i < 2 * n || number >= 0.0f)) continue;
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(STATE_HEADER + i * sizeof number).text,
                       "expected a finite number%s, found %g", i < 2 * n ? "" : " of 0 or more",
                       (double)number);
    }
    memcpy(train->weights.numbers, numbers, bytes);
    memcpy(train->previous, numbers, bytes);
    memcpy(train->mean, numbers + bytes, bytes);
    memcpy(train->square, numbers + 2 * bytes, bytes);
    train->step = (int)header[0];
    train->packed = false;
    return SS_OK;
}

const int32_t *ss_train_sample(ss_train *train, uint32_t number) {
    /* Steps draw the sequences numbered from 0 up, samples those from the largest number down, so
     * that a sample is never a sequence of a step. */
    ss_tasks(NULL)[train->task.row].draw(&train->task, train->batch, UINT64_MAX - number, train->T);
    return train->batch->tokens;
}
