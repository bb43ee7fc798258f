#include "run.h"

#include "../math/pack.h"
#include "forward.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Counts in an edit come as floats, which hold whole numbers up to here. */
#define COUNT_MAX 16777216

static const struct {
    const char *name, *meaning;
} edit_kinds[SS_EDIT_N] = {
    [SS_EDIT_OPERATION] = {"operation",
                           "heads compute another attention operation than the model's"},
    [SS_EDIT_MASK] = {"mask", "queries see only the first and the most recent keys"},
};

const char *ss_edit_name(ss_edit_kind kind) {
    return edit_kinds[kind].name;
}

const char *ss_edit_meaning(ss_edit_kind kind) {
    return edit_kinds[kind].meaning;
}

/* ---- laying out -------------------------------------------------------------------------- */

/* One piece of floats: a * b * c of them. A product that does not fit leaves the arena full. */
static float *take(ss_arena *arena, size_t a, size_t b, size_t c) {
    size_t ab;
    if (!ss_mul_size(&ab, a, b) || !ss_mul_size(&ab, ab, c)) {
        arena->full = true;
        return NULL;
    }
    return ss_arena_take(arena, ab, sizeof(float));
}

static void lay_out_trace(ss_trace *trace, ss_arena *arena) {
    const ss_arch *arch = &trace->model->arch;
    size_t L = (size_t)arch->L, H = (size_t)arch->H, G = (size_t)arch->G, D = (size_t)arch->D;
    size_t K = (size_t)arch->K, V = (size_t)arch->V, C = (size_t)trace->capacity;
    uint32_t fields = trace->fields;
#define TAKE(field, a, b, c) (fields & SS_BIT(field) ? take(arena, a, b, c) : NULL)
    trace->choices = ss_arena_take(arena, L * H, sizeof *trace->choices);
    trace->tokens = ss_arena_take(arena, C, sizeof *trace->tokens);
    trace->hidden = TAKE(SS_FIELD_HIDDEN, L + 1, C, D);
    trace->q = TAKE(SS_FIELD_Q, L * H, C, K);
    trace->k = TAKE(SS_FIELD_K, L * G, C, K);
    trace->v = TAKE(SS_FIELD_V, L * G, C, K);
    trace->att = TAKE(SS_FIELD_ATT, L * H, C, C);
    trace->att_bias = TAKE(SS_FIELD_ATT_BIAS, L * H, C, 1);
    trace->gate = TAKE(SS_FIELD_GATE, L * H, C, 1);
    trace->att_out = TAKE(SS_FIELD_ATT_OUT, L, C, D);
    trace->mlp_out = TAKE(SS_FIELD_MLP_OUT, L, C, D);
    trace->router = TAKE(SS_FIELD_ROUTER, L, C, (size_t)arch->E);
    trace->logits = TAKE(SS_FIELD_LOGITS, C, V, 1);
    trace->next = TAKE(SS_FIELD_NEXT, V, 1, 1);
    trace->loss = TAKE(SS_FIELD_LOSS, C, 1, 1);
#undef TAKE
}

/* Rows of logits that are computed together: one where only the last are asked for. */
static size_t logit_rows(const ss_trace *trace, size_t n) {
    bool every = trace->fields & (SS_BIT(SS_FIELD_LOGITS) | SS_BIT(SS_FIELD_LOSS));
    return !every ? 1 : n < SS_LOGIT_ROWS ? n : SS_LOGIT_ROWS;
}

static void lay_out_experts(ss_scratch *scratch, const ss_arch *arch, size_t n, ss_arena *arena) {
    if (arch->E == 0) return;
    scratch->router = take(arena, n, (size_t)arch->E, 1);
    scratch->share = take(arena, n, 1, 1);
    scratch->gathered = take(arena, n, (size_t)arch->D, 1);
}

static void lay_out_angles(ss_scratch *scratch, const ss_arch *arch, size_t n, ss_arena *arena) {
    size_t pairs = (size_t)arch->rotary_width / 2;
    for (int i = 0; i < (arch->own_rotary ? 2 : 1); i++) {
        scratch->angles[i].cosine = take(arena, n, pairs, 1);
        scratch->angles[i].sine = take(arena, n, pairs, 1);
    }
}

static void lay_out_attention(ss_scratch *scratch, const ss_arch *arch, size_t n, size_t C,
                              ss_arena *arena) {
    size_t rows = n < SS_ATTENTION_ROWS ? n : SS_ATTENTION_ROWS, K = (size_t)arch->K;
    size_t keys = C + (arch->bias_key != SS_OWNER_NONE);
    if (arch->gate)
        scratch->gates =
            take(arena, n, (size_t)ss_arch_gated_heads(arch), (size_t)ss_arch_gate_width(arch));
    scratch->queries = take(arena, rows, K, 1);
    scratch->keys = take(arena, keys, K, 1);
    scratch->scores = take(arena, rows, keys, 1);
    scratch->tiles = take(arena, rows, keys > K ? keys : K, 1);
    scratch->key_panels = take(arena, ss_panels_floats(keys, K), 1, 1);
    scratch->value_panels = take(arena, ss_panels_floats(K, keys), 1, 1);
}

static void lay_out_scratch(ss_scratch *scratch, const ss_trace *trace, ss_arena *arena) {
    const ss_arch *arch = &trace->model->arch;
    size_t C = (size_t)trace->capacity, n = (size_t)ss_run_chunk(arch, trace->capacity);
    size_t D = (size_t)arch->D, K = (size_t)arch->K;
    size_t F = (size_t)(arch->F > arch->shared_F ? arch->F : arch->shared_F);
    scratch->x = take(arena, n, D, 1);
    scratch->y = take(arena, n, D, 1);
    scratch->attended = take(arena, n, D, 1);
    scratch->fed = take(arena, n, D, 1);
    scratch->heads = take(arena, n, (size_t)arch->H, K);
    scratch->gate = take(arena, n, F, 1);
    scratch->up = take(arena, n, F, 1);
    lay_out_experts(scratch, arch, n, arena);
    lay_out_attention(scratch, arch, n, C, arena);
    lay_out_angles(scratch, arch, n, arena);
    scratch->logits = take(arena, logit_rows(trace, n), (size_t)arch->V, 1);
    scratch->work = take(arena, ss_matrix_work(n, trace->model->widest), 1, 1);
}

static void lay_out(ss_run *run, const ss_run_desc *desc, ss_arena *arena) {
    *run = (ss_run){0};
    run->trace.model = desc->model;
    run->trace.capacity = desc->capacity;
    uint32_t fields = desc->fields | SS_FIELDS_ALWAYS;
    /* The loss of the first token of an extension needs the last logits of the one before, and
     * shares of attention need the bias key's. */
    if (fields & SS_BIT(SS_FIELD_LOSS)) fields |= SS_BIT(SS_FIELD_NEXT);
    if (fields & SS_BIT(SS_FIELD_ATT)) fields |= SS_BIT(SS_FIELD_ATT_BIAS);
    run->trace.fields = fields & ss_fields_of(&desc->model->arch);
    lay_out_trace(&run->trace, arena);
    lay_out_scratch(&run->scratch, &run->trace, arena);
}

static bool is_count(float number, float least) {
    return number >= least && number <= (float)COUNT_MAX && number == floorf(number);
}

static ss_status check_edit(const ss_edit *edit, int i, const ss_model *model, ss_error *err) {
    int operations;
    const ss_operation *table = ss_operations(&operations);
    const ss_arch *arch = &model->arch;
    if ((int)edit->kind < 0 || edit->kind >= SS_EDIT_N)
        return ss_fail(err, SS_BAD_REQUEST, "edits", "edit %d: expected a kind below %d, found %d",
                       i, SS_EDIT_N, (int)edit->kind);
    if (edit->operation < 0 || edit->operation >= operations)
        return ss_fail(err, SS_BAD_REQUEST, "edits",
                       "edit %d: expected an operation from 0 to %d, found %d", i, operations - 1,
                       edit->operation);
    if (edit->kind == SS_EDIT_OPERATION && !ss_operation_fits(&table[edit->operation], model))
        return ss_fail(err, SS_BAD_REQUEST, "edits",
                       "edit %d: expected a model with self_attn.kernel_in for %s", i,
                       table[edit->operation].name);
    if (edit->kind == SS_EDIT_MASK &&
        !(is_count(edit->parameters[0], 0) && is_count(edit->parameters[1], 1)))
        return ss_fail(err, SS_BAD_REQUEST, "edits",
                       "edit %d: expected 0 or more first keys and 1 or more recent ones", i);
    if (edit->layer < -1 || edit->layer >= arch->L || edit->head < -1 || edit->head >= arch->H)
        return ss_fail(err, SS_BAD_REQUEST, "edits",
                       "edit %d: expected a layer below %d and a head below %d, or -1", i, arch->L,
                       arch->H);
    return SS_OK;
}

static ss_status check_desc(const ss_run_desc *desc, ss_error *err) {
    const ss_arch *arch = &desc->model->arch;
    if (desc->capacity < 1 || desc->capacity > arch->context)
        return ss_fail(err, SS_TOO_LONG, "capacity",
                       "expected room for 1 to %d tokens (the model's context), found %d",
                       arch->context, desc->capacity);
    if (desc->fields & ~SS_FIELDS_ALL)
        return ss_fail(err, SS_BAD_REQUEST, "fields", "expected bits of the trace table only");
    for (int i = 0; i < desc->edits_n; i++) {
        ss_status status = check_edit(&desc->edits[i], i, desc->model, err);
        if (status != SS_OK) return status;
    }
    return SS_OK;
}

ss_status ss_run_size(size_t *bytes, const ss_run_desc *desc, ss_error *err) {
    ss_status status = check_desc(desc, err);
    if (status != SS_OK) return status;
    ss_arena arena = ss_arena_measure();
    ss_run run;
    lay_out(&run, desc, &arena);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "capacity",
                       "a run of %d tokens does not fit this machine's memory", desc->capacity);
    *bytes = arena.used;
    return SS_OK;
}

static void apply(ss_choice *choice, const ss_edit *edit) {
    if (edit->kind == SS_EDIT_MASK) {
        choice->mask = (ss_mask){(int)edit->parameters[0], (int)edit->parameters[1], 0};
        return;
    }
    int n;
    choice->operation = &ss_operations(&n)[edit->operation];
    for (int p = 0; p < SS_PARAMETERS_MAX; p++)
        choice->parameters[p] = isnan(edit->parameters[p])
                                    ? choice->operation->parameters[p].standard
                                    : edit->parameters[p];
}

static void apply_edits(ss_trace *trace, const ss_choice *own, const ss_run_desc *desc) {
    const ss_arch *arch = &trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++) {
            ss_choice *choice = &trace->choices[l * arch->H + h];
            *choice = ss_operation_at(own, trace->model, l, h);
            for (int i = 0; i < desc->edits_n; i++) {
                const ss_edit *edit = &desc->edits[i];
                if ((edit->layer < 0 || edit->layer == l) && (edit->head < 0 || edit->head == h)) {
                    apply(choice, edit);
                    trace->edited = true;
                }
            }
        }
}

ss_status ss_run_init(ss_run *run, const ss_run_desc *desc, ss_arena *arena, ss_error *err) {
    ss_choice own;
    ss_status status = check_desc(desc, err);
    if (status == SS_OK) status = ss_operation_own(&own, desc->model, err);
    if (status != SS_OK) return status;
    ss_run made;
    lay_out(&made, desc, arena);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "run", "a run of %d tokens needs more than %lu bytes",
                       desc->capacity, (unsigned long)arena->bytes);
    apply_edits(&made.trace, &own, desc);
    *run = made;
    return SS_OK;
}

static ss_status check_tokens(const ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    const ss_trace *trace = &run->trace;
    if (n < 0 || n > trace->capacity - trace->T)
        return ss_fail(err, SS_TOO_LONG, "tokens",
                       "expected at most %d more tokens (%d of %d are used), found %d",
                       trace->capacity - trace->T, trace->T, trace->capacity, n);
    if (n > 0 && trace->T > 0 && trace->T < trace->model->arch.prefix)
        return ss_fail(
            err, SS_UNSUPPORTED, "tokens",
            "expected all tokens at once, since the mask is %s, but %d are there already",
            ss_mask_name(&trace->model->arch), trace->T);
    int V = trace->model->arch.V;
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= V) {
            char where[32];
            snprintf(where, sizeof where, "token %d", trace->T + i);
            return ss_fail(err, SS_BAD_TOKEN, where, "expected an id from 0 to %d, found %ld",
                           V - 1, (long)tokens[i]);
        }
    return SS_OK;
}

ss_status ss_run_begin(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_status status = check_tokens(run, tokens, n, err);
    if (status != SS_OK || n == 0) return status;
    ss_trace *trace = &run->trace;
    SS_ASSERT(run->pass.layer == 0);
    memcpy(trace->tokens + trace->T, tokens, (size_t)n * sizeof *tokens);
    run->pass = (ss_pass){.total = trace->T + n};
    ss_forward_begin(run);
    return SS_OK;
}

bool ss_run_step(ss_run *run) {
    return ss_forward_step(run);
}

ss_status ss_run_extend(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_status status = ss_run_begin(run, tokens, n, err);
    while (status == SS_OK && ss_run_step(run)) continue;
    return status;
}

int ss_run_sample(const ss_run *run, float temperature, int top_k, uint32_t random) {
    const ss_trace *trace = &run->trace;
    if (!trace->next || trace->T < 1) return -1;
    return ss_sample(trace->next, trace->model->arch.V, temperature, top_k, random,
                     run->scratch.logits);
}
