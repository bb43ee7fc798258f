#include "begin.h"

#include "edits/edit.h"
#include "edits/evict.h"
#include "mixer.h"

#include <limits.h>
#include <string.h>

static const ss_edit_kind *kind_of(const ss_pass *pass, int edit) {
    return &pass->edit_kinds[pass->edits[edit].kind];
}

static int idle_tokens_of(const ss_pass *pass, int i) {
    const ss_edit_kind *row = kind_of(pass, i);
    return row->idle_tokens ? row->idle_tokens(pass->edits[i].values) : 0;
}

static int idle_tokens(const ss_pass *pass) {
    int tokens_n = INT_MAX;
    for (int i = 0; i < pass->edits_n; i++) tokens_n = ss_min(tokens_n, idle_tokens_of(pass, i));
    return tokens_n;
}

/* Returns the number of first tokens whose recorded rows restore the state of every eviction: no
 * query among them evicted a key, and no later edit changed the weights that the eviction read. */
static int replayed_tokens(const ss_pass *pass) {
    int tokens_n = INT_MAX;
    for (int i = 0; i < pass->edits_n; i++) {
        if (ss_is_eviction(kind_of(pass, i))) tokens_n = ss_min(tokens_n, idle_tokens_of(pass, i));
        for (int j = i + 1; j < pass->edits_n; j++)
            if (!ss_edits_continue(kind_of(pass, i), kind_of(pass, j)))
                tokens_n = ss_min(tokens_n, idle_tokens_of(pass, j));
    }
    return tokens_n;
}

static void replay_evictions(ss_pass *pass, const ss_trace *source, int p) {
    for (int i = 0; i < pass->edits_n; i++)
        if (ss_is_eviction(kind_of(pass, i)))
            ss_evict_replay(pass, pass->edits[i].values, source, p);
}

/* Returns the needed fields that the other run has not recorded. A run without edits need not have
 * recorded the fields of edits: no key was evicted and nothing was rounded. */
static uint32_t missing_fields(const ss_trace *trace, const ss_trace *source, uint32_t needed) {
    uint32_t edit_fields =
        SS_BIT(SS_FIELD_EVICTED) | SS_BIT(SS_FIELD_ROUNDED) | SS_BIT(SS_FIELD_WEIGHT_ROUNDED);
    /* A run that computes its maps on demand has no stored map to copy. */
    uint32_t stored_fields = source->fields & ~source->summed_fields &
                             ~(source->computed_fields & ~trace->computed_fields);
    return needed & ~stored_fields & ~(source->edited ? 0 : edit_fields);
}

static uint32_t fields_of_layers(void) {
    uint32_t fields = 0;
    for (int field = 0; field < SS_FIELD_N; field++)
        if (*ss_fields()[field].shape[0] == 'L') fields |= SS_BIT(field);
    return fields;
}

/* Returns true if mixers' states in `source` are not those after the first T tokens. */
static bool has_other_states(const ss_pass *pass, const ss_pass *source, int T) {
    return pass->trace->model->arch.mixer.kind && source->mixing.tokens != T;
}

/* Returns the number of first tokens that this run copies completely. At least one token remains,
 * so that the pass computes the logits after the last token. */
static int shared_tokens(const ss_pass *pass, const ss_trace *source) {
    uint32_t needed = pass->trace->fields & ~SS_BIT(SS_FIELD_NEXT);
    if (pass->has_eviction) needed |= SS_BIT(SS_FIELD_ATT);
    const ss_arch *arch = &pass->trace->model->arch;
    /* A run keeps the mixers' states only after its last token, so a run with mixers cannot
     * share a part of the tokens. */
    bool can_share = !source->edited && !arch->prefix && !arch->mixer.kind && !pass->joint_tokens;
    if (!can_share || missing_fields(pass->trace, source, needed)) return 0;
    return ss_min(source->T - 1, idle_tokens(pass));
}

/* Returns the number of first layers that no edit touches; -1 if an edit touches the embedding. */
static int shared_layers(const ss_pass *pass, const ss_trace *source) {
    int layers_n = pass->trace->model->arch.blocks;
    uint32_t needed = (pass->trace->fields & fields_of_layers()) | SS_BIT(SS_FIELD_HIDDEN);
    if (source->edited || missing_fields(pass->trace, source, needed)) return -1;
    if (has_other_states(pass, source->pass, source->T)) return -1;
    for (int i = 0; i < pass->edits_n; i++)
        layers_n = ss_min(layers_n, ss_edit_first_layer(kind_of(pass, i), pass->edits[i].values));
    return layers_n;
}

static void copy_tokens(ss_pass *pass, const ss_trace *source, int p) {
    ss_trace *trace = pass->trace;
    pass->copied_tokens = p;
    if (p == 0) return;
    ss_trace_take_below(trace, source, trace->model->arch.blocks, p);
    ss_record(trace, SS_FIELD_LOSS, 0, 0, p + 1, ss_floats(source, SS_FIELD_LOSS), 1);
    ss_record(trace, SS_FIELD_RANK, 0, 0, p + 1, ss_floats(source, SS_FIELD_RANK), 1);
    ss_record(trace, SS_FIELD_LOGITS, 0, 0, p, ss_floats(source, SS_FIELD_LOGITS),
              (size_t)trace->model->arch.V);
    replay_evictions(pass, source, p);
}

static void copy_layers(ss_pass *pass, const ss_trace *source, int layer) {
    size_t D = (size_t)pass->trace->model->arch.D;
    memcpy(pass->source_stream, ss_row(source, SS_FIELD_HIDDEN, layer, 0),
           (size_t)source->T * D * sizeof *pass->source_stream);
    ss_trace_take_below(pass->trace, source, layer, source->T);
    ss_mix_copy_below(pass, source->pass, layer);
    pass->first_layer = pass->layer = layer;
}

ss_status ss_begin_from(ss_pass *pass, const ss_run_desc *desc, ss_error *err) {
    const ss_trace *source = desc->from;
    int layer = desc->layer;
    memcpy(ss_tokens(pass->trace), ss_tokens(source), (size_t)source->T * sizeof(int32_t));
    pass->source_T = source->T;
    pass->has_fixed_layer = layer != SS_BY_EDITS;
    for (int l = 0; l <= pass->trace->model->arch.blocks; l++)
        ss_trace_clear_rounded(pass->trace, l, 0, source->T, 0);
    if (layer == SS_BY_EDITS) {
        copy_tokens(pass, source, shared_tokens(pass, source));
        layer = shared_layers(pass, source);
    }
    uint32_t layer_fields = layer > 0 ? pass->trace->fields & fields_of_layers() : 0;
    uint32_t missing = missing_fields(pass->trace, source, layer_fields | SS_BIT(SS_FIELD_HIDDEN));
    for (int field = 0; field < SS_FIELD_N && layer >= 0; field++)
        if (missing & SS_BIT(field))
            return ss_fail(err, SS_BAD_REQUEST, "from", "expected a run that has recorded %s",
                           ss_fields()[field].name);
    if (layer >= 0)
        copy_layers(pass, source, layer);
    else
        pass->source_stream = NULL;
    return SS_OK;
}

void ss_begin_all_layers(ss_pass *pass) {
    if (!pass->source_T || pass->has_fixed_layer) return;
    pass->source_T = pass->copied_tokens = pass->first_layer = pass->layer = 0;
    pass->source_stream = NULL;
}

int ss_count_kept_tokens(const ss_pass *pass, const int32_t *tokens, int n) {
    const ss_trace *trace = pass->trace;
    int equal_tokens = 0, T = ss_min(trace->T, n), prefix = trace->model->arch.prefix;
    while (equal_tokens < T && ss_tokens(trace)[equal_tokens] == tokens[equal_tokens])
        equal_tokens++;
    /* The logits after the last kept token are those at the end of the run, or are recomputed from
     * the residual stream. */
    bool has_logits = equal_tokens < n && equal_tokens == trace->T && equal_tokens == pass->total;
    bool has_hidden = trace->fields & SS_BIT(SS_FIELD_HIDDEN);
    int kept_tokens =
        ss_min(has_logits || has_hidden ? equal_tokens : equal_tokens - 1, replayed_tokens(pass));
    /* Tokens that an edit or a prefix needs together must stay in one chunk. */
    int joint_tokens = prefix > pass->joint_tokens ? prefix : pass->joint_tokens;
    bool forgets_maps =
        trace->summed_fields || (pass->has_eviction && !(trace->fields & SS_BIT(SS_FIELD_ATT)));
    bool lacks_states = has_other_states(pass, pass, kept_tokens);
    return kept_tokens < joint_tokens || kept_tokens < 0 || forgets_maps || lacks_states
               ? 0
               : kept_tokens;
}

void ss_run_rewind(ss_pass *pass, int n) {
    ss_begin_all_layers(pass);
    pass->trace->T = n;
    pass->layer = 0;
    ss_evict_reset(pass);
    if (n == 0) ss_mix_clear(pass);
    if (n > 0) replay_evictions(pass, pass->trace, n);
}
