#include "describe.h"

#include "../run/run.h"
#include "../train/train.h"

#include <cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SS_INT8
#include "../math/int8.h"
#define KERNELS ss_int8_kernels
#elif defined(__wasm_simd128__)
#define KERNELS "simd"
#else
#define KERNELS "base"
#endif

static void add_text(cJSON *object, const char *key, const char *text) {
    cJSON_AddStringToObject(object, key, text);
}

static void add_text_or_null(cJSON *object, const char *key, const char *text) {
    cJSON_AddItemToObject(object, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

/* A float as it was written: 0.3f is 0.3, not the double that it widens to. */
static double decimal(float number) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.7g", (double)number);
    return strtod(digits, NULL);
}

/* Infinite bounds become null. */
static cJSON *number_or_null(float number) {
    return isfinite(number) ? cJSON_CreateNumber(decimal(number)) : cJSON_CreateNull();
}

/* A new object at the end of the list. */
static cJSON *add_row(cJSON *list) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToArray(list, row);
    return row;
}

static void add_texts(cJSON *row, const char *key, const char *const *texts, int most) {
    cJSON *list = cJSON_AddArrayToObject(row, key);
    for (int i = 0; i < most && texts[i]; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
}

static void add_parameters(cJSON *row, const ss_operation *operation) {
    cJSON *list = cJSON_AddArrayToObject(row, "parameters");
    for (int p = 0; p < SS_PARAMETERS_MAX && operation->parameters[p].name; p++) {
        const ss_parameter *parameter = &operation->parameters[p];
        cJSON *item = add_row(list);
        add_text(item, "name", parameter->name);
        cJSON_AddNumberToObject(item, "default", decimal(parameter->standard));
        cJSON_AddNumberToObject(item, "min", decimal(parameter->low));
        cJSON_AddNumberToObject(item, "max", decimal(parameter->high));
        cJSON_AddBoolToObject(item, "per_head", parameter->per_head);
        add_text(item, "meaning", parameter->meaning);
    }
}

static void add_operations(cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, "operations");
    int n;
    const ss_operation *operations = ss_operations(&n);
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", operations[i].name);
        add_text(row, "label", operations[i].label);
        add_text(row, "formula", operations[i].formula);
        cJSON_AddBoolToObject(row, "normalises", operations[i].normalises);
        add_text(row, "proxy", ss_proxy_name(operations[i].proxy));
        add_text(row, "features", ss_feature_name(operations[i].feature));
#ifndef SS_NO_TRAINER
        cJSON_AddBoolToObject(row, "trainable", operations[i].back != NULL);
#endif
        add_parameters(row, &operations[i]);
        add_text(row, "source", operations[i].source);
    }
}

static void add_arguments(cJSON *row, int args) {
    static const char *const names[] = {"eps", "tokens", "layer", "head", "base"};
    cJSON *list = cJSON_AddArrayToObject(row, "arguments");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (args & 1 << i) cJSON_AddItemToArray(list, cJSON_CreateString(names[i]));
}

static void add_needs(cJSON *row, uint32_t fields) {
    cJSON *list = cJSON_AddArrayToObject(row, "fields");
    for (int i = 0; i < SS_FIELD_N; i++)
        if (fields & SS_BIT(i)) cJSON_AddItemToArray(list, cJSON_CreateString(ss_fields()[i].name));
}

static void add_metrics(cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, "metrics");
    int n;
    const ss_metric *metrics = ss_metrics(&n);
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", metrics[i].name);
        add_text(row, "label", metrics[i].label);
        add_text(row, "question", metrics[i].question);
        add_text(row, "unit", metrics[i].unit);
        add_texts(row, "shape", metrics[i].shape, SS_RANK_MAX);
        cJSON *range = cJSON_AddArrayToObject(row, "range");
        cJSON_AddItemToArray(range, number_or_null(metrics[i].low));
        cJSON_AddItemToArray(range, number_or_null(metrics[i].high));
        add_arguments(row, metrics[i].args);
        add_needs(row, metrics[i].fields);
        cJSON_AddBoolToObject(row, "averaged", metrics[i].averaged);
        cJSON_AddBoolToObject(row, "summary", metrics[i].summary);
        add_text(row, "topic", metrics[i].topic);
        add_text(row, "source", metrics[i].source);
    }
}

static void add_fields(cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, "fields");
    for (int i = 0; i < SS_FIELD_N; i++) {
        const ss_field *field = &ss_fields()[i];
        cJSON *row = add_row(list);
        add_text(row, "name", field->name);
        add_text(row, "meaning", field->meaning);
        add_text(row, "unit", field->unit);
        add_texts(row, "shape", field->shape, SS_RANK_MAX);
        add_text(row, "type", field->type == SS_I32 ? "i32" : "f32");
        add_text_or_null(row, "needs", field->needs);
        cJSON_AddBoolToObject(row, "always", (SS_FIELDS_ALWAYS & SS_BIT(i)) != 0);
        cJSON_AddBoolToObject(row, "standard", (field->when & SS_FIELD_STANDARD) != 0);
        cJSON_AddBoolToObject(row, "averaged", (field->when & SS_FIELD_AVERAGED) != 0);
        cJSON_AddBoolToObject(row, "streamed", (SS_FIELDS_STREAMED & SS_BIT(i)) != 0);
    }
}

/* A default: a word of a choice, a number, or null. */
static void add_standard(cJSON *item, const ss_edit_parameter *parameter) {
    if (isnan(parameter->standard))
        cJSON_AddNullToObject(item, "default");
    else if (parameter->choices)
        add_text(item, "default", parameter->choices[(int)parameter->standard]);
    else
        cJSON_AddNumberToObject(item, "default", decimal(parameter->standard));
}

static void add_edit_parameter(cJSON *list, const ss_edit_parameter *parameter) {
    static const char *const types[] = {"number", "integer", "index", "choice", "operation"};
    cJSON *item = add_row(list);
    add_text(item, "name", parameter->name);
    add_text(item, "type", types[parameter->type]);
    cJSON_AddBoolToObject(item, "required", parameter->required);
    add_standard(item, parameter);
    if (parameter->type <= SS_EDIT_INTEGER) {
        cJSON_AddNumberToObject(item, "min", decimal(parameter->low));
        cJSON_AddNumberToObject(item, "max", decimal(parameter->high));
    }
    if (parameter->below) add_text(item, "below", parameter->below);
    if (parameter->choices) {
        const char *const *labels = parameter->labels ? parameter->labels : parameter->choices;
        add_texts(item, "choices", parameter->choices, INT_MAX);
        add_texts(item, "labels", labels, INT_MAX);
    }
    add_text(item, "meaning", parameter->meaning);
}

static void add_edit_needs(cJSON *row, int needs) {
    static const char *const names[] = {"causal", "positions"};
    cJSON *list = cJSON_AddArrayToObject(row, "needs");
    for (int i = 0; i < 2; i++)
        if (needs & 1 << i) cJSON_AddItemToArray(list, cJSON_CreateString(names[i]));
}

static void add_edits(cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, "edits");
    int n;
    const ss_edit_kind *edits = ss_edits(&n);
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", edits[i].name);
        add_text(row, "meaning", edits[i].meaning);
        add_text(row, "label", edits[i].label);
        cJSON_AddBoolToObject(row, "counterfactual", edits[i].counterfactual);
        cJSON_AddBoolToObject(row, "waits", edits[i].idle != NULL);
        add_edit_needs(row, edits[i].needs);
        add_needs(row, edits[i].fields);
        cJSON *parameters = cJSON_AddArrayToObject(row, "parameters");
        for (int p = 0; p < SS_EDIT_PARAMETERS && edits[i].parameters[p].name; p++)
            add_edit_parameter(parameters, &edits[i].parameters[p]);
        add_text(row, "source", edits[i].source);
    }
}

/* What is asked where nothing else is. */
static void add_defaults(cJSON *root) {
    cJSON *object = cJSON_AddObjectToObject(root, "defaults");
    cJSON_AddNumberToObject(object, "eps", decimal(SS_EPS_STANDARD));
    cJSON_AddNumberToObject(object, "tokens", SS_T_STANDARD);
    cJSON_AddNumberToObject(object, "keys", SS_KEYS_STANDARD);
}

static void add_status(cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, "status");
    for (int i = 0; i < SS_STATUS_N; i++) {
        cJSON *row = add_row(list);
        cJSON_AddNumberToObject(row, "code", i);
        add_text(row, "name", ss_status_name((ss_status)i));
        add_text(row, "meaning", ss_status_meaning((ss_status)i));
    }
}

static void add_letters(cJSON *root) {
    static const char *const letters[][2] = {
        {"L", "layers"},
        {"H", "query heads"},
        {"G", "key/value heads"},
        {"T", "tokens"},
        {"D", "model width"},
        {"K", "head width"},
        {"F", "feed-forward width"},
        {"V", "vocabulary"},
        {"E", "experts"},
    };
    cJSON *object = cJSON_AddObjectToObject(root, "letters");
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        add_text(object, letters[i][0], letters[i][1]);
}

#ifdef SS_NO_TRAINER
static void add_training(cJSON *root) {
    (void)root;
}
#else
static void add_settings(cJSON *object) {
    int n;
    const ss_setting *settings = ss_settings(&n);
    cJSON *list = cJSON_AddArrayToObject(object, "settings");
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", settings[i].name);
        add_text(row, "meaning", settings[i].meaning);
        cJSON_AddBoolToObject(row, "whole", settings[i].whole);
        if (settings[i].word) {
            cJSON *words = cJSON_AddArrayToObject(row, "words");
            for (int w = 0; w <= (int)settings[i].high; w++)
                cJSON_AddItemToArray(words, cJSON_CreateString(settings[i].word(w)));
            add_text(row, "default", settings[i].word((int)settings[i].standard));
            continue;
        }
        cJSON_AddNumberToObject(row, "default", settings[i].standard);
        cJSON_AddNumberToObject(row, "min", settings[i].low);
        cJSON_AddNumberToObject(row, "max", settings[i].high);
    }
}

static void add_training(cJSON *root) {
    int n;
    cJSON *object = cJSON_AddObjectToObject(root, "training");
    add_settings(object);
    cJSON_AddNumberToObject(object, "parts", SS_PARTS);
    const ss_task_row *tasks = ss_tasks(&n);
    cJSON *list = cJSON_AddArrayToObject(object, "tasks");
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", tasks[i].name);
        add_text(row, "meaning", tasks[i].meaning);
        add_text(row, "source", tasks[i].source);
    }
    const ss_log_column *columns = ss_log_columns(&n);
    list = cJSON_AddArrayToObject(object, "log");
    for (int i = 0; i < n; i++) {
        cJSON *row = add_row(list);
        add_text(row, "name", columns[i].name);
        add_text(row, "meaning", columns[i].meaning);
        add_text(row, "unit", columns[i].unit);
    }
}
#endif

/* Prints and frees root. */
static ss_status print(cJSON *root, char *out, size_t bytes, ss_error *err) {
    bool done = cJSON_PrintPreallocated(root, out, (int)bytes, 0);
    cJSON_Delete(root);
    return done ? SS_OK
                : ss_fail(err, SS_NO_MEMORY, "describe", "the text needs more than %lu bytes",
                          (unsigned long)bytes);
}

ss_status ss_describe(char *out, size_t bytes, int abi, ss_error *err) {
    cJSON *root = cJSON_CreateObject();
    add_text(root, "version", SS_VERSION);
    cJSON_AddNumberToObject(root, "abi", abi);
    add_text(root, "kernels", KERNELS);
    add_operations(root);
    add_metrics(root);
    add_fields(root);
    add_edits(root);
    add_training(root);
    add_defaults(root);
    add_status(root);
    add_letters(root);
    return print(root, out, bytes, err);
}

static void add_attention(cJSON *root, const ss_attention *attention) {
    cJSON *object = cJSON_AddObjectToObject(root, "attention");
    add_text(object, "operation", attention->operation);
    cJSON *parameters = cJSON_AddObjectToObject(object, "parameters");
    for (int i = 0; i < attention->parameters_n; i++)
        cJSON_AddNumberToObject(parameters, attention->parameters[i].name,
                                (double)attention->parameters[i].value);
}

/* rotary positions: how wide, from which theta, and how they reach beyond the first context. */
static void add_rotary(cJSON *root, const char *key, const ss_rotary *rotary) {
    cJSON *object = cJSON_AddObjectToObject(root, key);
    cJSON_AddNumberToObject(object, "theta", rotary->base);
    add_text(object, "scaling", ss_rope_scaling_name(rotary->scaling));
    if (rotary->scaling != SS_ROPE_PLAIN) cJSON_AddNumberToObject(object, "factor", rotary->factor);
}

/* Keys that a query of each layer sees; null where it sees all before it. */
static void add_windows(cJSON *root, const ss_arch *arch) {
    cJSON *list = cJSON_AddArrayToObject(root, "windows");
    for (int l = 0; l < arch->L; l++) {
        int window = ss_arch_window(arch, l);
        cJSON_AddItemToArray(list, window ? cJSON_CreateNumber(window) : cJSON_CreateNull());
    }
}

/* The mask of queries, and the token that replaces hidden ones in a model of masked diffusion. */
static void add_mask(cJSON *root, const ss_arch *arch) {
    cJSON *mask = cJSON_AddObjectToObject(root, "mask");
    const char *kind = ss_mask_name(arch);
    add_text(mask, "kind", kind);
    if (!strcmp(kind, "window")) cJSON_AddNumberToObject(mask, "window", arch->window);
    if (!strcmp(kind, "prefix")) cJSON_AddNumberToObject(mask, "prefix", arch->prefix);
    cJSON_AddItemToObject(root, "mask_token",
                          arch->mask_token < 0 ? cJSON_CreateNull()
                                               : cJSON_CreateNumber(arch->mask_token));
}

/* What attention has besides queries, keys and values. */
static void add_additions(cJSON *root, const ss_arch *arch) {
    add_text_or_null(root, "bias_key", ss_owner_name(arch->bias_key));
    add_text_or_null(root, "bias_key_value", ss_owner_name(arch->bias_key_value));
    add_text_or_null(root, "value_bias", ss_owner_name(arch->value_bias));
    add_text_or_null(root, "gate", ss_gate_name(arch->gate));
    add_text(root, "heads", arch->added_heads ? "added" : "joined");
}

static void add_cap(cJSON *root, const char *key, float cap) {
    cJSON_AddItemToObject(root, key,
                          cap > 0.0f ? cJSON_CreateNumber((double)cap) : cJSON_CreateNull());
}

static void add_features(cJSON *root, const ss_arch *arch) {
    add_text(root, "positions", ss_positions_name(arch->positions));
    if (arch->positions == SS_POSITIONS_ROTARY) {
        cJSON_AddNumberToObject(root, "rotary_width", arch->rotary_width);
        add_rotary(root, "rotary", &arch->rotary);
        if (arch->own_rotary) add_rotary(root, "window_rotary", &arch->window_rotary);
    }
    add_mask(root, arch);
    add_windows(root, arch);
    add_additions(root, arch);
    add_text(root, "norm", ss_norm_name(arch->norm));
    add_text(root, "norm_place", arch->post_norm ? "post" : arch->branch_only ? "branch" : "pre");
    cJSON_AddBoolToObject(root, "branch_norms", arch->branch_norms);
    add_text_or_null(root, "qk_norm", ss_qk_norm_name(arch->qk_norm));
    cJSON_AddBoolToObject(root, "parallel", arch->parallel);
    add_text(root, "feed_forward", ss_ffn_name(arch->ffn));
    cJSON_AddBoolToObject(root, "dense", arch->E == 0 && arch->ffn != SS_FFN_NONE);
    cJSON_AddBoolToObject(root, "gated", arch->E == 0 && arch->ffn == SS_FFN_GATED);
    add_text(root, "activation", ss_activation_name(arch->activation));
    cJSON_AddNumberToObject(root, "score_scale", (double)arch->score_scale);
    add_cap(root, "score_cap", arch->score_cap);
    add_cap(root, "logit_cap", arch->logit_cap);
    cJSON_AddNumberToObject(root, "embedding_scale", (double)arch->embedding_scale);
    cJSON_AddNumberToObject(root, "embedding_width", arch->embedding_width);
    cJSON_AddBoolToObject(root, "embedding_norm", arch->embedding_norm);
    cJSON_AddBoolToObject(root, "tied", arch->tied);
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
                   {"F", arch->F},
                   {"V", arch->V},
                   {"E", arch->E},
                   {"chosen", arch->top_k},
                   {"context", arch->context},
                   {"parameters", (double)model->parameters}};
    cJSON *root = cJSON_CreateObject();
    add_text(root, "family", arch->family);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cJSON_AddNumberToObject(root, numbers[i].name, numbers[i].value);
    add_features(root, arch);
    add_attention(root, &arch->attention);
    return print(root, out, bytes, err);
}
