#include "describe.h"

#include "../model/families/family.h"
#include "../model/families/variant.h"
#include "../run/run.h"
#include "../train/train.h"
#include "writer.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#ifdef SS_NO_DOC
#define write_doc(...) ((void)0)
#else
#define write_doc ss_write_text
#endif

static void write_texts(ss_writer *writer, const char *key, const char *const *texts, int max) {
    ss_write_begin(writer, key, '[');
    for (int i = 0; i < max && texts[i]; i++) ss_write_text(writer, NULL, texts[i]);
    ss_write_end(writer, ']');
}

static void write_bits(ss_writer *writer, const char *key, int bits, const char *const *names) {
    ss_write_begin(writer, key, '[');
    for (int i = 0; names[i]; i++)
        if (bits & 1 << i) ss_write_text(writer, NULL, names[i]);
    ss_write_end(writer, ']');
}

static void write_parameters(ss_writer *writer, const ss_operation *operation) {
    ss_write_begin(writer, "parameters", '[');
    for (int p = 0; p < SS_PARAMETERS_MAX && operation->parameters[p].name; p++) {
        const ss_parameter *parameter = &operation->parameters[p];
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", parameter->name);
        ss_write_decimal(writer, "default", parameter->default_value);
        ss_write_decimal(writer, "min", parameter->low);
        ss_write_decimal(writer, "max", parameter->high);
        ss_write_bool(writer, "per_head", parameter->per_head);
        write_doc(writer, "meaning", parameter->meaning);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_operations(ss_writer *writer) {
    int n;
    const ss_operation *operations = ss_operations(&n);
    ss_write_begin(writer, "operations", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", operations[i].name);
        ss_write_text(writer, "label", operations[i].label);
        write_doc(writer, "formula", operations[i].formula);
        ss_write_bool(writer, "normalizes", operations[i].normalizes);
        ss_write_text(writer, "proxy", ss_proxy_name(operations[i].proxy));
        ss_write_text(writer, "features", ss_feature_name(operations[i].feature));
#ifndef SS_NO_TRAINER
        ss_write_bool(writer, "trainable", operations[i].back != NULL);
#endif
        write_parameters(writer, &operations[i]);
        write_doc(writer, "source", operations[i].source);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_field_names(ss_writer *writer, uint32_t fields) {
    ss_write_begin(writer, "fields", '[');
    for (int i = 0; i < SS_FIELD_N; i++)
        if (fields & SS_BIT(i)) ss_write_text(writer, NULL, ss_fields()[i].name);
    ss_write_end(writer, ']');
}

static void write_metrics(ss_writer *writer) {
    static const char *const arguments[] = {"eps", "tokens", "layer", "head", "base", NULL};
    int n;
    const ss_metric *metrics = ss_metrics(&n);
    ss_write_begin(writer, "metrics", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", metrics[i].name);
        ss_write_text(writer, "label", metrics[i].label);
        write_doc(writer, "question", metrics[i].question);
        ss_write_text(writer, "unit", metrics[i].unit);
        write_texts(writer, "shape", metrics[i].shape, SS_RANK_MAX);
        ss_write_begin(writer, "range", '[');
        ss_write_decimal(writer, NULL, metrics[i].low);
        ss_write_decimal(writer, NULL, metrics[i].high);
        ss_write_end(writer, ']');
        write_bits(writer, "arguments", metrics[i].args, arguments);
        write_field_names(writer, metrics[i].fields);
        ss_write_bool(writer, "accumulated", metrics[i].statistics != 0);
        ss_write_bool(writer, "spectral", (metrics[i].statistics & SS_STATISTIC_SPECTRA) != 0);
        ss_write_bool(writer, "averaged", metrics[i].averaged);
        ss_write_bool(writer, "summary", metrics[i].summary);
        ss_write_text(writer, "topic", metrics[i].topic);
        write_doc(writer, "source", metrics[i].source);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_fields(ss_writer *writer) {
    ss_write_begin(writer, "fields", '[');
    for (int i = 0; i < SS_FIELD_N; i++) {
        const ss_field *field = &ss_fields()[i];
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", field->name);
        write_doc(writer, "meaning", field->meaning);
        ss_write_text(writer, "unit", field->unit);
        write_texts(writer, "shape", field->shape, SS_RANK_MAX);
        ss_write_text(writer, "type", field->type == SS_I32 ? "i32" : "f32");
        ss_write_text(writer, "needs", field->needs);
        ss_write_bool(writer, "always", (SS_FIELDS_ALWAYS & SS_BIT(i)) != 0);
        ss_write_bool(writer, "standard", (field->flags & SS_FIELD_STANDARD) != 0);
        ss_write_bool(writer, "averaged", (field->flags & SS_FIELD_AVERAGED) != 0);
        ss_write_bool(writer, "streamed", (SS_FIELDS_STREAMED & SS_BIT(i)) != 0);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_edit_parameter(ss_writer *writer, const ss_edit_parameter *parameter) {
    static const char *const types[] = {"number", "integer", "index", "choice", "operation"};
    ss_write_begin(writer, NULL, '{');
    ss_write_text(writer, "name", parameter->name);
    ss_write_text(writer, "type", types[parameter->type]);
    ss_write_bool(writer, "required", parameter->required);
    if (parameter->choices && !isnan(parameter->default_value))
        ss_write_text(writer, "default", parameter->choices[(int)parameter->default_value]);
    else
        ss_write_decimal(writer, "default", parameter->default_value);
    if (parameter->type <= SS_EDIT_INTEGER) {
        ss_write_decimal(writer, "min", parameter->low);
        ss_write_decimal(writer, "max", parameter->high);
    }
    if (parameter->below) ss_write_text(writer, "below", parameter->below);
    if (parameter->choices) {
        const char *const *labels = parameter->labels ? parameter->labels : parameter->choices;
        write_texts(writer, "choices", parameter->choices, INT_MAX);
        write_texts(writer, "labels", labels, INT_MAX);
    }
    write_doc(writer, "meaning", parameter->meaning);
    ss_write_end(writer, '}');
}

static void write_edits(ss_writer *writer) {
    static const char *const needs[] = {"causal", "positions", NULL};
    int n;
    const ss_edit_kind *edits = ss_edits(&n);
    ss_write_begin(writer, "edits", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", edits[i].name);
        write_doc(writer, "meaning", edits[i].meaning);
        ss_write_text(writer, "label", edits[i].label);
        ss_write_bool(writer, "counterfactual", edits[i].counterfactual);
        ss_write_bool(writer, "waits", edits[i].idle_tokens != NULL);
        write_bits(writer, "needs", edits[i].needs, needs);
        write_field_names(writer, edits[i].fields);
        ss_write_begin(writer, "parameters", '[');
        for (int p = 0; p < SS_EDIT_PARAMETERS && edits[i].parameters[p].name; p++)
            write_edit_parameter(writer, &edits[i].parameters[p]);
        ss_write_end(writer, ']');
        write_doc(writer, "source", edits[i].source);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_defaults(ss_writer *writer) {
    ss_write_begin(writer, "defaults", '{');
    ss_write_decimal(writer, "eps", SS_EPS_STANDARD);
    ss_write_number(writer, "tokens", SS_T_STANDARD);
    ss_write_number(writer, "keys", SS_KEYS_STANDARD);
    ss_write_end(writer, '}');
}

static void write_limits(ss_writer *writer) {
    ss_write_begin(writer, "limits", '{');
    ss_write_number(writer, "tokens", SS_TOKENS_MAX);
    ss_write_number(writer, "threads", SS_WORKERS_MAX);
    ss_write_number(writer, "edit_values", SS_EDIT_VALUES);
    ss_write_end(writer, '}');
    ss_write_begin(writer, "flags", '{');
    ss_write_number(writer, "streaming", SS_STREAMS);
    ss_write_number(writer, "measuring", SS_MEASURES);
    ss_write_number(writer, "spectral", SS_SPECTRA);
    ss_write_end(writer, '}');
}

static void write_status(ss_writer *writer) {
    ss_write_begin(writer, "status", '[');
    for (int i = 0; i < SS_STATUS_N; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_number(writer, "code", i);
        ss_write_text(writer, "name", ss_status_name((ss_status)i));
        write_doc(writer, "meaning", ss_status_meaning((ss_status)i));
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_letters(ss_writer *writer) {
    static const char *const letters[][2] = {
        {"L", "layers"},      {"H", "query heads"},        {"G", "key/value heads"},
        {"T", "tokens"},      {"D", "model width"},        {"K", "head width"},
        {"U", "value width"}, {"F", "feed-forward width"}, {"V", "vocabulary"},
        {"E", "experts"},
    };
    ss_write_begin(writer, "letters", '{');
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        ss_write_text(writer, letters[i][0], letters[i][1]);
    ss_write_end(writer, '}');
}

#ifdef SS_NO_TRAINER
static void write_training(ss_writer *writer) {
    (void)writer;
}
#else
static void write_settings(ss_writer *writer) {
    int n;
    const ss_setting *settings = ss_settings(&n);
    ss_write_begin(writer, "settings", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", settings[i].name);
        ss_write_text(writer, "meaning", settings[i].meaning);
        ss_write_bool(writer, "whole", settings[i].is_integer);
        if (settings[i].word) {
            ss_write_begin(writer, "words", '[');
            for (int w = 0; w <= (int)settings[i].high; w++)
                ss_write_text(writer, NULL, settings[i].word(w));
            ss_write_end(writer, ']');
            ss_write_text(writer, "default", settings[i].word((int)settings[i].default_value));
        } else {
            ss_write_number(writer, "default", settings[i].default_value);
            ss_write_number(writer, "min", settings[i].low);
            ss_write_number(writer, "max", settings[i].high);
        }
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

#ifdef SS_NO_DOC
#define write_model_settings(writer) ((void)0)
#else
static void write_words(ss_writer *writer, const char *name, const char *none,
                        const char *const *words, int n) {
    ss_write_begin(writer, NULL, '{');
    ss_write_text(writer, "name", name);
    ss_write_begin(writer, "words", '[');
    if (none) ss_write_text(writer, NULL, none);
    for (int i = 0; i < n; i++)
        if (words[i]) ss_write_text(writer, NULL, words[i]);
    ss_write_end(writer, ']');
    ss_write_end(writer, '}');
}

/* Writes what the model of a training may be: the words whose parts have derivatives, and sizes. */
static void write_model_settings(ss_writer *writer) {
    static const char *const places[] = {"pre", "post"};
    static const char *const activations[] = {"gelu_new", "gelu", "relu", "silu"};
    static const struct {
        const char *name;
        int high;
    } sizes[] = {
        {"layers", SS_LAYERS_MAX}, {"heads", SS_HEADS_MAX},           {"width", SS_WIDTH_MAX},
        {"inner", SS_FFN_MAX},     {"vocabulary", SS_VOCABULARY_MAX}, {"context", SS_CONTEXT_MAX},
    };
    int n, trainable = 0;
    const ss_operation *operations = ss_operations(&n);
    const char *names[64];
    for (int i = 0; i < n && trainable < 64; i++)
        if (operations[i].back && operations[i].feature != SS_FEATURE_MLP)
            names[trainable++] = operations[i].name;
    ss_write_begin(writer, "model", '[');
    write_words(writer, "operation", NULL, names, trainable);
    write_words(writer, "positions", NULL, ss_positions_words, SS_POSITIONS_N);
    write_words(writer, "norm", NULL, ss_norm_words, SS_NORM_N);
    write_words(writer, "norm_place", NULL, places, 2);
    write_words(writer, "feed_forward", NULL, ss_ffn_words, SS_FFN_NONE);
    write_words(writer, "activation", NULL, activations, 4);
    write_words(writer, "bias_key", "none", ss_owner_words, SS_OWNER_N);
    write_words(writer, "gate", "none", ss_gate_words, SS_GATE_N);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", sizes[i].name);
        ss_write_bool(writer, "whole", true);
        ss_write_number(writer, "min", 1);
        ss_write_number(writer, "max", sizes[i].high);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}
#endif

static void write_training(ss_writer *writer) {
    int n;
    ss_write_begin(writer, "training", '{');
    write_settings(writer);
    write_model_settings(writer);
    ss_write_number(writer, "parts", SS_PARTS);
    const ss_task_row *tasks = ss_tasks(&n);
    ss_write_begin(writer, "tasks", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", tasks[i].name);
        ss_write_text(writer, "meaning", tasks[i].meaning);
        ss_write_text(writer, "source", tasks[i].source);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
    const ss_log_column *columns = ss_log_columns(&n);
    ss_write_begin(writer, "log", '[');
    for (int i = 0; i < n; i++) {
        ss_write_begin(writer, NULL, '{');
        ss_write_text(writer, "name", columns[i].name);
        ss_write_text(writer, "meaning", columns[i].meaning);
        ss_write_text(writer, "unit", columns[i].unit);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
    ss_write_end(writer, '}');
}
#endif

static ss_status finish(ss_writer *writer, ss_error *err) {
    ss_write_end(writer, '}');
    return ss_write_finish(writer)
               ? SS_OK
               : ss_fail(err, SS_NO_MEMORY, "describe", "the text needs more than %lu bytes",
                         (unsigned long)writer->bytes);
}

static void write_families(ss_writer *writer) {
    ss_write_begin(writer, "families", '[');
    for (size_t i = 0; ss_family_name(i); i++) ss_write_text(writer, NULL, ss_family_name(i));
    ss_write_end(writer, ']');
}

ss_status ss_describe(char *out, size_t bytes, int abi, ss_error *err) {
    ss_writer writer = {.out = out, .bytes = bytes};
    ss_write_begin(&writer, NULL, '{');
    ss_write_text(&writer, "version", SS_VERSION);
    ss_write_number(&writer, "abi", abi);
    write_families(&writer);
    write_operations(&writer);
    write_metrics(&writer);
    write_fields(&writer);
    write_edits(&writer);
    write_training(&writer);
    write_defaults(&writer);
    write_limits(&writer);
    write_status(&writer);
    write_letters(&writer);
    return finish(&writer, err);
}

static void write_attention(ss_writer *writer, const ss_attention *attention) {
    ss_write_begin(writer, "attention", '{');
    ss_write_text(writer, "operation", attention->operation);
    ss_write_begin(writer, "parameters", '{');
    for (int i = 0; i < attention->parameters_n; i++)
        ss_write_number(writer, attention->parameters[i].name,
                        (double)attention->parameters[i].value);
    ss_write_end(writer, '}');
    ss_write_end(writer, '}');
}

static void write_rotary(ss_writer *writer, const char *key, const ss_rotary *rotary) {
    ss_write_begin(writer, key, '{');
    ss_write_number(writer, "theta", rotary->base);
    ss_write_text(writer, "scaling", ss_rope_scaling_name(rotary->scaling));
    if (rotary->scaling != SS_ROPE_PLAIN) ss_write_number(writer, "factor", rotary->factor);
    ss_write_end(writer, '}');
}

static void write_number_or_null(ss_writer *writer, const char *key, bool is_present,
                                 double number) {
    ss_write_number(writer, key, is_present ? number : (double)NAN);
}

static void write_windows(ss_writer *writer, const ss_arch *arch) {
    ss_write_begin(writer, "windows", '[');
    for (int l = 0; l < arch->L; l++) {
        int window = ss_arch_window(arch, l);
        write_number_or_null(writer, NULL, window > 0, window);
    }
    ss_write_end(writer, ']');
}

static void write_mask(ss_writer *writer, const ss_arch *arch) {
    const char *kind = ss_mask_name(arch);
    ss_write_begin(writer, "mask", '{');
    ss_write_text(writer, "kind", kind);
    if (!strcmp(kind, "window")) ss_write_number(writer, "window", arch->window);
    if (!strcmp(kind, "prefix")) ss_write_number(writer, "prefix", arch->prefix);
    ss_write_end(writer, '}');
    write_number_or_null(writer, "mask_token", arch->mask_token >= 0, arch->mask_token);
}

static void write_additions(ss_writer *writer, const ss_arch *arch) {
    ss_write_text(writer, "bias_key", ss_owner_name(arch->bias_key));
    ss_write_text(writer, "bias_key_value", ss_owner_name(arch->bias_key_value));
    ss_write_text(writer, "value_bias", ss_owner_name(arch->value_bias));
    ss_write_text(writer, "gate", ss_gate_name(arch->gate));
    ss_write_text(writer, "heads", arch->added_heads ? "added" : "joined");
}

static void write_cap(ss_writer *writer, const char *key, float cap) {
    write_number_or_null(writer, key, cap > 0.0f, (double)cap);
}

static void write_factor(ss_writer *writer, const char *key, float factor) {
    if (factor < 1.0f || factor > 1.0f) ss_write_number(writer, key, (double)factor);
}

static void write_attention_layers(ss_writer *writer, const ss_arch *arch) {
    if (arch->blocks == arch->L) return;
    ss_write_number(writer, "blocks", arch->blocks);
    ss_write_begin(writer, "layers", '[');
    for (int a = 0; a < arch->L; a++) ss_write_number(writer, NULL, arch->layers[a]);
    ss_write_end(writer, ']');
}

static void write_layers(ss_writer *writer, const char *key, const bool *marks, int L) {
    bool is_any_marked = false;
    for (int l = 0; l < L; l++) is_any_marked |= marks[l];
    if (!is_any_marked) return;
    ss_write_begin(writer, key, '[');
    for (int l = 0; l < L; l++)
        if (marks[l]) ss_write_number(writer, NULL, l);
    ss_write_end(writer, ']');
}

static void write_sizes(ss_writer *writer, const ss_arch *arch) {
    if (!arch->sizes[0].K) return;
    ss_write_begin(writer, "sizes", '[');
    for (int a = 0; a < arch->L; a++) {
        ss_sizes sizes = ss_arch_sizes(arch, a);
        ss_write_begin(writer, NULL, '{');
        ss_write_number(writer, "G", sizes.G);
        ss_write_number(writer, "K", sizes.K);
        ss_write_number(writer, "U", sizes.U);
        ss_write_end(writer, '}');
    }
    ss_write_end(writer, ']');
}

static void write_size(ss_writer *writer, const char *key, int size) {
    if (size) ss_write_number(writer, key, size);
}

static void write_features(ss_writer *writer, const ss_arch *arch) {
    ss_write_text(writer, "positions", ss_positions_name(arch->positions));
    if (arch->positions == SS_POSITIONS_ROTARY) {
        ss_write_number(writer, "rotary_width", arch->rotary_width);
        write_rotary(writer, "rotary", &arch->rotary);
        if (arch->has_window_rotary) write_rotary(writer, "window_rotary", &arch->window_rotary);
        write_layers(writer, "unrotated", arch->unrotated, arch->L);
    }
    write_mask(writer, arch);
    write_windows(writer, arch);
    write_additions(writer, arch);
    ss_write_text(writer, "norm", ss_norm_name(arch->norm));
    ss_write_text(writer, "norm_place",
                  arch->post_norm     ? "post"
                  : arch->branch_only ? "branch"
                                      : "pre");
    ss_write_bool(writer, "branch_norms", arch->branch_norms);
    ss_write_text(writer, "qk_norm", ss_qk_norm_name(arch->qk_norm));
    ss_write_bool(writer, "parallel", arch->parallel);
    ss_write_text(writer, "feed_forward", ss_ffn_name(arch->ffn));
    write_sizes(writer, arch);
    if (arch->value_norm) ss_write_bool(writer, "value_norm", true);
    if (arch->keys_as_values) ss_write_bool(writer, "keys_as_values", true);
    if (arch->window_sinks) write_layers(writer, "sink_layers", arch->windowed, arch->L);
    write_size(writer, "q_latent", arch->q_latent);
    write_size(writer, "kv_latent", arch->kv_latent);
    write_size(writer, "shared_F", arch->shared_F);
    write_size(writer, "dense_F", arch->dense_F);
    write_layers(writer, "dense_layers", arch->dense, arch->L);
    ss_write_bool(writer, "dense", arch->E == 0 && arch->ffn != SS_FFN_NONE);
    ss_write_bool(writer, "gated", arch->E == 0 && arch->ffn == SS_FFN_GATED);
    ss_write_text(writer, "activation", ss_activation_name(arch->activation));
    ss_write_number(writer, "score_scale", (double)arch->score_scale);
    write_cap(writer, "score_cap", arch->score_cap);
    write_cap(writer, "logit_cap", arch->logit_cap);
    if (arch->qkv_clip > 0.0f) ss_write_number(writer, "qkv_clip", (double)arch->qkv_clip);
    write_factor(writer, "branch_scale", arch->branch_scale);
    write_factor(writer, "logit_scale", arch->logit_scale);
    ss_write_number(writer, "embedding_scale", (double)arch->embedding_scale);
    ss_write_number(writer, "embedding_width", arch->embedding_width);
    ss_write_bool(writer, "embedding_norm", arch->embedding_norm);
    ss_write_bool(writer, "tied", arch->tied);
}

ss_status ss_describe_model(char *out, size_t bytes, const ss_model *model, ss_error *err) {
    const ss_arch *arch = &model->arch;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"L", arch->L},
                   {"H", arch->H},
                   {"G", arch->G},
                   {"D", arch->D},
                   {"K", arch->K},
                   {"U", arch->U},
                   {"F", arch->F},
                   {"V", arch->V},
                   {"E", arch->E},
                   {"chosen", arch->top_k},
                   {"context", arch->context},
                   {"parameters", (double)model->parameters}};
    ss_writer writer = {.out = out, .bytes = bytes};
    ss_write_begin(&writer, NULL, '{');
    ss_write_text(&writer, "family", arch->family);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ss_write_number(&writer, numbers[i].name, numbers[i].value);
    write_attention_layers(&writer, arch);
    write_features(&writer, arch);
    ss_write_bool(&writer, "head", !model->headless);
    write_attention(&writer, &arch->attention);
    return finish(&writer, err);
}
