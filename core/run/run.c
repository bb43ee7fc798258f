#include "run.h"

#include "../math/pack.h"
#include "../math/scalar.h"
#include "attention.h"
#include "begin.h"
#include "edits/evict.h"
#include "edits/hook.h"
#include "forward.h"
#include "maps.h"
#include "mixer.h"
#include "sample.h"
#include "statistics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns how many rows of logits the pass holds itself: as many as one product computes if losses
 * are recorded without logits, else one. */
static size_t logit_rows(const ss_trace *trace, size_t n) {
    bool needs_losses = trace->fields & SS_FIELDS_PREDICTED;
    if (!needs_losses || trace->fields & SS_BIT(SS_FIELD_LOGITS)) return 1;
    return ss_min_size(n, SS_LOGIT_ROWS);
}

static void lay_out_experts(ss_pass *pass, const ss_arch *arch, size_t n, ss_arena *arena) {
    if (arch->E == 0) return;
    pass->router = ss_arena_floats(arena, n, (size_t)arch->E);
    pass->shared_factors = ss_arena_floats(arena, n, 1);
    pass->expert_rows = ss_arena_floats(arena, n, (size_t)arch->D);
}

static void lay_out_angles(ss_angles angles[2], const ss_arch *arch, size_t n, ss_arena *arena) {
    for (int i = 0; i < (arch->has_window_rotary ? 2 : 1); i++) {
        size_t pairs = ss_arch_pairs(arch, i);
        angles[i].cosine = ss_arena_floats(arena, n, pairs);
        angles[i].sine = ss_arena_floats(arena, n, pairs);
    }
}

static void lay_out_scratch(ss_scratch *scratch, size_t rows, size_t slots, size_t keys,
                            const ss_arch *arch, ss_arena *arena) {
    size_t K = (size_t)arch->K, U = (size_t)arch->U;
    scratch->ranks = ss_arena_take(arena, slots, sizeof *scratch->ranks);
    scratch->visible = ss_arena_take(arena, slots, sizeof *scratch->visible);
    scratch->queries = ss_arena_floats(arena, rows, K);
    scratch->keys = ss_arena_floats(arena, keys, ss_max_size(K, U));
    scratch->scores = ss_arena_floats(arena, rows, keys);
    scratch->tiles = ss_arena_floats(arena, rows, ss_max_size(keys, K));
    scratch->key_panels = ss_arena_floats(arena, ss_panels_floats(keys, K), 1);
    scratch->value_panels = ss_arena_floats(arena, ss_panels_floats(U, keys), 1);
}

static void lay_out_attention(ss_pass *pass, const ss_arch *arch, size_t n, ss_arena *arena) {
    size_t rows = ss_min_size(n, SS_MAP_ROWS);
    size_t keys = (size_t)pass->trace->slots + ss_bias_keys(arch);
    if (arch->gate)
        pass->gates = ss_arena_floats(
            arena, n, (size_t)ss_arch_gated_heads(arch) * (size_t)ss_arch_gate_width(arch));
    for (size_t i = 0; i < ss_pool_workers(pass->pool); i++)
        lay_out_scratch(&pass->scratch[i], rows, (size_t)pass->trace->slots, keys, arch, arena);
}

static void lay_out_edits(ss_pass *pass, const ss_run_desc *desc, size_t C, ss_arena *arena) {
    const ss_arch *arch = &desc->model->arch;
    size_t heads = (size_t)arch->L * (size_t)arch->H, S = (size_t)pass->trace->slots;
    pass->edits = ss_arena_take(arena, (size_t)desc->edits_n, sizeof *pass->edits);
    pass->edit_numbers = ss_arena_take(arena, (size_t)desc->edits_n, sizeof *pass->edit_numbers);
    pass->edit_numbers_room = ss_arena_floats(arena, pass->edit_numbers_n, 1);
    pass->positions = ss_arena_take(arena, C, sizeof *pass->positions);
    if (!pass->has_eviction) return;
    pass->cache.score = ss_arena_floats(arena, heads, S);
    pass->cache.score_factor = ss_arena_floats(arena, heads, S);
    if (pass->moves_keys) {
        size_t rows = ss_min_size(C, SS_ROTARY_ROWS);
        lay_out_angles(pass->cache.rotary, arch, rows, arena);
        pass->cache.rotary_shifts = ss_arena_take(arena, rows, sizeof *pass->cache.rotary_shifts);
    }
    if (!(pass->trace->fields & SS_STREAMS)) return;
    size_t groups = (size_t)arch->L * (size_t)arch->G;
    pass->cache.filled_slots = ss_arena_take(arena, groups, sizeof *pass->cache.filled_slots);
    pass->cache.tokens = ss_arena_take(arena, groups * S, sizeof *pass->cache.tokens);
}

static size_t widest_ffn(const ss_arch *arch) {
    int widest = arch->F > arch->shared_F ? arch->F : arch->shared_F;
    return (size_t)(widest > arch->dense_F ? widest : arch->dense_F);
}

static void lay_out_rows(ss_pass *pass, ss_arena *arena) {
    const ss_arch *arch = &pass->trace->model->arch;
    size_t n = (size_t)pass->chunk, D = (size_t)arch->D, K = (size_t)arch->K, U = (size_t)arch->U;
    size_t F = widest_ffn(arch);
    int latent = arch->q_latent > arch->kv_latent ? arch->q_latent : arch->kv_latent;
    size_t text_rows = pass->by_layer ? (size_t)pass->trace->capacity : n;
    pass->x = pass->stream = ss_arena_floats(arena, text_rows, D);
    pass->y = ss_arena_floats(arena, n, D);
    pass->attn_out = ss_arena_floats(arena, n, D);
    pass->ffn_out = ss_arena_floats(arena, n, D);
    pass->latent = ss_arena_floats(arena, n, (size_t)latent);
    pass->kv = ss_arena_floats(arena, n, (size_t)arch->G * ss_max_size(K, U));
    pass->q = ss_arena_floats(arena, n, (size_t)arch->H * K);
    pass->head_out = K == U ? pass->q : ss_arena_floats(arena, n, (size_t)arch->H * U);
    pass->gate = ss_arena_floats(arena, n, F);
    pass->up = ss_arena_floats(arena, n, F);
    lay_out_experts(pass, arch, n, arena);
    lay_out_attention(pass, arch, n, arena);
    ss_mix_lay_out(pass, n, arena);
    lay_out_angles(pass->text_angles, arch, text_rows, arena);
    pass->logits = ss_arena_floats(arena, logit_rows(pass->trace, n), (size_t)arch->V);
    size_t workers = ss_pool_workers(pass->pool);
    pass->work = ss_arena_floats(arena, ss_matrix_work(n, pass->trace->model->widest, workers), 1);
}

static int chunk_of(const ss_arch *arch, int capacity, int joint_tokens) {
    int joint_rows = arch->prefix > joint_tokens ? arch->prefix : joint_tokens;
    int rows = joint_rows > SS_CHUNK ? joint_rows : SS_CHUNK;
    return rows < capacity ? rows : capacity;
}

/* Reads from the edits what pass and trace must provide for them. The resolved edit is on the
 * stack, because the arena may only be measuring. */
static ss_status read_edits(ss_trace *trace, ss_pass *pass, const ss_run_desc *desc,
                            ss_error *err) {
    pass->edit_kinds = ss_edits(NULL);
    for (int i = 0; i < desc->edits_n; i++) {
        ss_edit edit;
        ss_status status = ss_edit_resolve(&edit, desc->edits, i, desc->model, desc->capacity, err);
        if (status != SS_OK) return status;
        const ss_edit_kind *row = &pass->edit_kinds[edit.kind];
        pass->hook_points |= row->hook_points;
        int joint_tokens = row->joint_tokens ? row->joint_tokens(edit.values) : 0;
        if (joint_tokens > pass->joint_tokens) pass->joint_tokens = joint_tokens;
        if (row->kept_numbers)
            pass->edit_numbers_n += row->kept_numbers(edit.values, &desc->model->arch);
        if (ss_is_eviction(row)) {
            pass->has_eviction = true;
            pass->key_bound = ss_eviction_key_bound(edit.values, &desc->model->arch);
            pass->moves_keys |= ss_evict_moves_keys(edit.values);
            pass->is_endless |= ss_evict_is_endless(edit.values, &desc->model->arch);
        }
        if (!(trace->fields & SS_STREAMS)) trace->fields |= row->fields;
        trace->edited = true;
    }
    return SS_OK;
}

static ss_status refuse_capacity(const ss_run_desc *desc, ss_error *err) {
    return ss_fail(err, SS_TOO_LONG, "capacity",
                   "expected room for 1 to %d tokens (the model's context), found %d",
                   desc->model->arch.context, desc->capacity);
}

static ss_status check_streams(const ss_run_desc *desc, const ss_pass *pass, ss_error *err) {
    uint32_t other_fields = desc->fields & ~(SS_FIELDS_STREAMED | SS_STREAMS);
    for (int field = 0; field < SS_FIELD_N; field++)
        if (other_fields & SS_BIT(field))
            return ss_fail(err, SS_BAD_REQUEST, ss_fields()[field].name,
                           "expected tokens, loss, rank or next of a run that streams");
    if (!pass->key_bound)
        return ss_fail(err, SS_BAD_REQUEST, "streams",
                       "expected an eviction in every head that decides query by query");
    if (pass->joint_tokens || desc->from)
        return ss_fail(err, SS_UNSUPPORTED, "streams", "expected a run that %s",
                       desc->from ? "begins from its tokens"
                                  : "reads token by token, and an edit looks at many");
    return SS_OK;
}

static void choose_slots(ss_trace *trace, ss_pass *pass) {
    if (pass->chunk > SS_LOGIT_ROWS) pass->chunk = SS_LOGIT_ROWS;
    if (pass->key_bound < trace->capacity - pass->chunk)
        trace->slots = pass->key_bound + pass->chunk;
}

/* Decides which maps are stored. Maps beyond the budget are computed on demand from stored queries;
 * a measuring run stores neither maps nor queries, keys and values. */
static void choose_maps(ss_trace *trace, const ss_pass *pass, const ss_run_desc *desc) {
    uint32_t maps = trace->fields & SS_FIELDS_MAPS;
    size_t T = (size_t)trace->capacity, budget = desc->map_bytes ? desc->map_bytes : SS_MAP_BYTES;
    size_t bytes = (size_t)ss_heads(trace) * sizeof(float);
    if (maps == SS_FIELDS_MAPS) bytes *= 2;
    bool is_within_budget =
        ss_mul_size(&bytes, bytes, T) && ss_mul_size(&bytes, bytes, T) && bytes <= budget;
    if (pass->by_layer) {
        trace->computed_fields = maps;
        trace->summed_fields = trace->fields & (maps | SS_BIT(SS_FIELD_Q) | SS_FIELDS_NORMS);
        trace->spectral = desc->fields & SS_SPECTRA && trace->fields & SS_BIT(SS_FIELD_HIDDEN);
        return;
    }
    if (!maps || is_within_budget) return;
    trace->computed_fields = maps;
    trace->fields |= SS_BIT(SS_FIELD_Q);
}

static ss_status lay_out(ss_trace *trace, ss_pass *pass, const ss_run_desc *desc, ss_arena *arena,
                         ss_error *err) {
    const ss_arch *arch = &desc->model->arch;
    bool streams = desc->fields & SS_STREAMS;
    uint32_t fields = desc->fields | (streams ? SS_BIT(SS_FIELD_TOKENS) : SS_FIELDS_ALWAYS);
    /* The loss and rank of the first token of an extension need the last logits of the previous
     * one, and shares of attention need the bias key's weight. */
    if (fields & SS_FIELDS_PREDICTED) fields |= SS_BIT(SS_FIELD_NEXT);
    if (fields & SS_BIT(SS_FIELD_ATT)) fields |= SS_BIT(SS_FIELD_ATT_BIAS);
    *trace = (ss_trace){.model = desc->model,
                        .pool = desc->pool,
                        .capacity = desc->capacity,
                        .slots = desc->capacity,
                        .fields = fields & (ss_fields_of(arch) | SS_STREAMS)};
    *pass = (ss_pass){.pool = desc->pool,
                      .trace = trace,
                      .edits_n = desc->edits_n,
                      .by_layer = desc->fields & SS_MEASURES && !streams};
    ss_status status = read_edits(trace, pass, desc, err);
    if (status != SS_OK) return status;
    if (desc->capacity > arch->context && !pass->is_endless) return refuse_capacity(desc, err);
    if (streams) status = check_streams(desc, pass, err);
    if (status != SS_OK) return status;
    pass->chunk = chunk_of(arch, desc->capacity, pass->joint_tokens);
    if (streams) choose_slots(trace, pass);
    choose_maps(trace, pass, desc);
    ss_trace_lay_out(trace, arena);
    lay_out_edits(pass, desc, (size_t)desc->capacity, arena);
    if (desc->from)
        pass->source_stream = ss_arena_floats(arena, (size_t)desc->from->T, (size_t)arch->D);
    lay_out_rows(pass, arena);
    return SS_OK;
}

static ss_status check_source(const ss_run_desc *desc, ss_error *err) {
    const ss_trace *source = desc->from;
    if (source->model != desc->model || source->T < 1 || source->T > desc->capacity)
        return ss_fail(err, SS_BAD_REQUEST, "from",
                       "expected a run of the same model, of 1 to %d tokens, found %d",
                       desc->capacity, source->T);
    if (desc->fields & SS_MEASURES)
        return ss_fail(err, SS_UNSUPPORTED, "from",
                       "expected a run that keeps its maps and queries, "
                       "since this one begins with another's");
    if (desc->layer < SS_BY_EDITS || desc->layer > desc->model->arch.blocks)
        return ss_fail(err, SS_BAD_REQUEST, "layer", "expected a layer from 0 to %d, found %d",
                       desc->model->arch.blocks, desc->layer);
    return SS_OK;
}

static ss_status check_desc(const ss_run_desc *desc, ss_error *err) {
    if (desc->capacity < 1 || desc->capacity > SS_TOKENS_MAX) return refuse_capacity(desc, err);
    if (desc->fields & ~(SS_FIELDS_ALL | SS_STREAMS | SS_MEASURES | SS_SPECTRA))
        return ss_fail(err, SS_BAD_REQUEST, "fields", "expected bits of the trace table only");
    return desc->from ? check_source(desc, err) : SS_OK;
}

ss_status ss_run_size(size_t *bytes, const ss_run_desc *desc, ss_error *err) {
    ss_status status = check_desc(desc, err);
    if (status != SS_OK) return status;
    ss_arena arena = ss_arena_measure();
    ss_trace trace;
    ss_pass pass;
    ss_arena_take(&arena, 1, sizeof pass);
    status = lay_out(&trace, &pass, desc, &arena, err);
    if (status != SS_OK) return status;
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "capacity",
                       "a run of %d tokens does not fit this machine's memory", desc->capacity);
    *bytes = arena.used;
    return SS_OK;
}

/* In models whose layers differ in their number of key/value heads: writes NaN to the rows of heads
 * that a layer lacks. */
static void mark_missing_heads(const ss_trace *trace) {
    const ss_arch *arch = &trace->model->arch;
    static const ss_field_id fields[] = {SS_FIELD_K, SS_FIELD_V};
    for (int i = 0; i < 2; i++)
        for (int row = 0; row < arch->L * arch->G; row++) {
            float *rows = ss_row(trace, fields[i], row, 0);
            size_t n = trace->capacities[fields[i]] * trace->widths[fields[i]];
            if (row % arch->G < ss_arch_sizes(arch, row / arch->G).G) continue;
            for (size_t j = 0; j < n; j++) rows[j] = NAN;
        }
}

static void reset_edits(ss_pass *pass, const ss_choice *model_choice) {
    ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    for (int i = 0; i < arch->L * arch->H; i++)
        trace->choices[i] = ss_operation_at(model_choice, trace->model, i / arch->H, i % arch->H);
    for (int t = 0; t < trace->capacity; t++) pass->positions[t] = t;
    ss_evict_reset(pass);
    ss_mix_clear(pass);
    size_t rows = ss_min_size((size_t)trace->capacity, SS_ROTARY_ROWS);
    if (pass->moves_keys)
        memset(pass->cache.rotary_shifts, 0, rows * sizeof *pass->cache.rotary_shifts);
    if (!trace->summed_fields && !pass->cache.filled_slots) mark_missing_heads(trace);
    float *errors = ss_floats(trace, SS_FIELD_WEIGHT_ROUNDED);
    if (errors) memset(errors, 0, (size_t)arch->L * 2 * sizeof *errors);
}

static ss_status resolve_edits(ss_pass *pass, const ss_run_desc *desc, ss_error *err) {
    ss_edit *edits = pass->edits;
    float *numbers = pass->edit_numbers_room;
    ss_status status = SS_OK;
    for (int i = 0; i < desc->edits_n && status == SS_OK; i++)
        status = ss_edit_resolve(&edits[i], desc->edits, i, desc->model, desc->capacity, err);
    for (int i = 0; i < desc->edits_n && status == SS_OK; i++) {
        const ss_edit_kind *row = &pass->edit_kinds[edits[i].kind];
        pass->edit_numbers[i] = numbers;
        if (row->kept_numbers) numbers += row->kept_numbers(edits[i].values, &desc->model->arch);
        if (row->check)
            status = row->check(pass, edits[i].values, ss_edit_where(i, row->name).text, err);
        if (status == SS_OK && (row->hook_points & SS_AT_START))
            row->apply(&(ss_hook){.pass = pass, .point = SS_AT_START}, edits[i].values);
    }
    return status;
}

ss_status ss_run_init(ss_run *run, const ss_run_desc *desc, ss_arena *arena, ss_error *err) {
    ss_choice model_choice;
    ss_trace trace;
    ss_pass new_pass, *pass = ss_arena_take(arena, 1, sizeof *pass);
    ss_status status = check_desc(desc, err);
    if (status == SS_OK) status = ss_operation_own(&model_choice, desc->model, err);
    if (status == SS_OK) status = lay_out(&trace, &new_pass, desc, arena, err);
    if (status != SS_OK) return status;
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "run", "a run of %d tokens needs more than %lu bytes",
                       desc->capacity, (unsigned long)arena->bytes);
    *pass = new_pass;
    trace.pass = pass;
    ss_statistics_clear(&trace);
    reset_edits(pass, &model_choice);
    status = resolve_edits(pass, desc, err);
    if (status == SS_OK && desc->from) status = ss_begin_from(pass, desc, err);
    if (status == SS_OK) *run = (ss_run){trace, pass};
    return status;
}

/* Links the pass to its trace, as the caller may have copied the ss_run, and returns it. */
static ss_pass *enter_run(ss_run *run) {
    run->pass->trace = &run->trace;
    return run->pass;
}

/* Checks that the first n tokens of the run include the whole prompt of each edit that has one,
 * because such an edit needs the rows of its prompt in one chunk. */
static ss_status check_prompts(const ss_pass *pass, int n, ss_error *err) {
    for (int i = 0; i < pass->edits_n; i++) {
        const ss_edit_kind *row = &pass->edit_kinds[pass->edits[i].kind];
        int joint_tokens = row->joint_tokens ? row->joint_tokens(pass->edits[i].values) : 0;
        if (joint_tokens == INT_MAX || joint_tokens <= n) continue;
        return ss_fail(err, SS_UNSUPPORTED, ss_edit_where(i, "prompt").text,
                       "expected the %d tokens of the prompt at once, found %d", joint_tokens, n);
    }
    return SS_OK;
}

static ss_status check_tokens(const ss_run *run, int T, const int32_t *tokens, int n,
                              ss_error *err) {
    const ss_trace *trace = &run->trace;
    const ss_pass *pass = run->pass;
    if (n < 0 || n > trace->capacity - T)
        return ss_fail(err, SS_TOO_LONG, "tokens",
                       "expected at most %d more tokens (%d of %d are used), found %d",
                       trace->capacity - T, T, trace->capacity, n);
    bool needs_all = pass->joint_tokens == INT_MAX, needs_prefix = T < trace->model->arch.prefix;
    if (n > 0 && T > 0 && (pass->by_layer || needs_all || needs_prefix)) {
        const char *reason[] = {"the mask is", ss_mask_name(&trace->model->arch)};
        if (needs_all) reason[0] = "an edit looks at", reason[1] = "all";
        if (pass->by_layer) reason[0] = "a run that measures", reason[1] = "keeps no keys";
        return ss_fail(err, SS_UNSUPPORTED, "tokens",
                       "expected all tokens at once, since %s %s, but %d are there already",
                       reason[0], reason[1], T);
    }
    ss_status status = n > 0 && T == 0 ? check_prompts(pass, n, err) : SS_OK;
    if (status != SS_OK) return status;
    int V = trace->model->arch.V;
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= V) {
            char where[32];
            snprintf(where, sizeof where, "token %d", T + i);
            return ss_fail(err, SS_BAD_TOKEN, where, "expected an id from 0 to %d, found %ld",
                           V - 1, (long)tokens[i]);
        }
    return SS_OK;
}

static ss_status check_source_tokens(const ss_run *run, const int32_t *tokens, int n,
                                     ss_error *err) {
    const ss_trace *trace = &run->trace;
    int expected = run->pass->source_T;
    if (trace->T > 0 || n != expected)
        return ss_fail(err, SS_UNSUPPORTED, "tokens",
                       "expected the %d tokens of the run that this one begins from, found %d",
                       expected, trace->T + n);
    for (int i = 0; i < n; i++)
        if (tokens[i] != ss_tokens(trace)[i])
            return ss_fail(err, SS_BAD_REQUEST, "tokens",
                           "expected the tokens of the run that this one begins from, found %ld "
                           "for %ld at %d",
                           (long)tokens[i], (long)ss_tokens(trace)[i], i);
    return SS_OK;
}

static void append_tokens(ss_pass *pass, const int32_t *tokens, int n, int recorded_n) {
    ss_trace *trace = pass->trace;
    ss_statistics_rewind(trace, trace->T);
    memcpy(ss_tokens(trace) + trace->T, tokens, (size_t)n * sizeof *tokens);
    pass->total = trace->T + n;
    pass->t0 = trace->T;
    if (n > 0 && recorded_n <= trace->T) ss_forward_begin(pass);
}

ss_status ss_run_begin(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_pass *pass = enter_run(run);
    ss_status status = check_tokens(run, pass->trace->T, tokens, n, err);
    if (status == SS_OK && n > 0 && pass->trace->T > 0) ss_begin_all_layers(pass);
    if (status == SS_OK && n > 0 && pass->source_T)
        status = check_source_tokens(run, tokens, n, err);
    if (status != SS_OK || n == 0) return status;
    SS_ASSERT(pass->layer == pass->first_layer);
    int copied_tokens = pass->trace->T == 0 ? pass->copied_tokens : 0;
    pass->trace->T += copied_tokens;
    append_tokens(pass, tokens + copied_tokens, n - copied_tokens,
                  copied_tokens ? pass->trace->T + 1 : 0);
    return SS_OK;
}

ss_status ss_run_begin_update(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_pass *pass = enter_run(run);
    int kept_tokens = ss_count_kept_tokens(pass, tokens, n), T = run->trace.T;
    bool has_loss =
        kept_tokens < ss_min(n, T) && ss_tokens(&run->trace)[kept_tokens] == tokens[kept_tokens];
    bool is_complete = kept_tokens == T && kept_tokens == pass->total;
    ss_status status = check_tokens(run, kept_tokens, tokens + kept_tokens, n - kept_tokens, err);
    if (status == SS_OK && pass->has_fixed_layer) status = check_source_tokens(run, tokens, n, err);
    if (status != SS_OK) return status;
    ss_run_rewind(pass, kept_tokens);
    if (kept_tokens > 0 && !has_loss && !is_complete) ss_forward_next(pass);
    append_tokens(pass, tokens + kept_tokens, n - kept_tokens,
                  kept_tokens > 0 && has_loss ? kept_tokens + 1 : 0);
    return SS_OK;
}

int ss_run_step(ss_run *run) {
    return ss_forward_step(enter_run(run));
}

ss_status ss_run_extend(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_status status = ss_run_begin(run, tokens, n, err);
    while (status == SS_OK && ss_run_step(run) > 0) continue;
    return status;
}

ss_status ss_run_update(ss_run *run, const int32_t *tokens, int n, ss_error *err) {
    ss_status status = ss_run_begin_update(run, tokens, n, err);
    while (status == SS_OK && ss_run_step(run) > 0) continue;
    return status;
}

int ss_run_sample(const ss_run *run, float temperature, int top_k, uint32_t random) {
    const ss_trace *trace = &run->trace;
    const float *next = ss_floats(trace, SS_FIELD_NEXT);
    if (!next || trace->T < 1) return -1;
    return ss_sample(next, trace->model->arch.V, temperature, top_k, random, run->pass->logits);
}
