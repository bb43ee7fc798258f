#include "variant.h"

#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ss_positions_words[] = {"none",     "learned", "rotary",
                                          "sinusoid", "alibi",   "relative"};
const char *const ss_norm_words[] = {"layer", "rms"};
const char *const ss_ffn_words[] = {"plain", "gated", "none"};
const char *const ss_owner_words[] = {NULL, "head", "shared"};
const char *const ss_gate_words[] = {NULL,         "output_element", "output_head", "value_element",
                                     "value_head", "value_state"};

static void list_words(char *text, size_t bytes, const char *const *words, int n) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < n && used < bytes; i++)
        if (words[i])
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", words[i]);
}

static int find_word(const char *word, const char *const *words, int n) {
    for (int i = 0; i < n; i++)
        if (words[i] && !strcmp(word, words[i])) return i;
    return -1;
}

static void refuse(ss_json *json, const char *key, const char *const *words, int n,
                   const char *actual) {
    char place[48], list[200];
    snprintf(place, sizeof place, "sinkscope%s%s", *key ? "." : "", key);
    list_words(list, sizeof list, words, n);
    ss_json_refuse(json, place, list, actual);
}

static int read_word(ss_json *json, const char *key, const char *const *words, int n,
                     int default_value) {
    const char *word = ss_json_text(json, key, NULL);
    int index = word ? find_word(word, words, n) : default_value;
    if (index < 0) refuse(json, key, words, n, word);
    return index < 0 ? default_value : index;
}

static void check_keys(ss_json *json, const char *place, const char *const *keys, int n) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json->object) if (find_word(item->string, keys, n) < 0)
        refuse(json, place, keys, n, item->string);
}

static void read_parameters(ss_attention *attention, ss_json *json) {
    ss_json inner = ss_json_object(json, "parameters");
    const cJSON *item;
    cJSON_ArrayForEach(item, inner.object) {
        if (attention->parameters_n == SS_PARAMETERS_MAX ||
            strlen(item->string) >= sizeof attention->parameters[0].name) {
            ss_json_refuse(&inner, "sinkscope.attention.parameters",
                           "the parameters of its table row", item->string);
            break;
        }
        int i = attention->parameters_n++;
        snprintf(attention->parameters[i].name, sizeof attention->parameters[i].name, "%s",
                 item->string);
        attention->parameters[i].value =
            (float)ss_json_number(&inner, item->string, (double)NAN, -1e30, 1e30);
    }
}

static void read_attention(ss_attention *attention, ss_json *variant) {
    static const char *const keys[] = {"operation", "parameters"};
    ss_json inner = ss_json_object(variant, "attention");
    check_keys(&inner, "attention", keys, 2);
    const char *name = ss_json_text(&inner, "operation", attention->operation);
    if (strlen(name) >= sizeof attention->operation)
        ss_json_refuse(&inner, "sinkscope.attention.operation", "operations of its table", name);
    else if (name != attention->operation)
        snprintf(attention->operation, sizeof attention->operation, "%s", name);
    read_parameters(attention, &inner);
}

static void read_mask(ss_arch *arch, ss_json *variant) {
    enum { CAUSAL, WINDOW, PREFIX, BIDIRECTIONAL, KINDS };
    static const char *const kinds[] = {"causal", "window", "prefix", "bidirectional"};
    static const char *const keys[] = {"kind", "window", "prefix"};
    ss_json mask = ss_json_object(variant, "mask");
    if (!mask.object) return;
    check_keys(&mask, "mask", keys, 3);
    const char *word = ss_json_text(&mask, "kind", "nothing");
    int kind = find_word(word, kinds, KINDS);
    if (kind < 0) refuse(&mask, "mask.kind", kinds, KINDS, word);
    if (kind > CAUSAL && arch->window)
        ss_json_refuse(&mask, "sinkscope.mask", "one mask", "sliding_window besides");
    else if (kind == WINDOW)
        arch->window = ss_json_int(&mask, "window", SS_JSON_REQUIRED, 1, SS_CONTEXT_MAX);
    else if (kind == PREFIX)
        arch->prefix = ss_json_int(&mask, "prefix", SS_JSON_REQUIRED, 1, arch->context);
    else if (kind == BIDIRECTIONAL)
        arch->prefix = SS_EVERY_KEY;
    if (kind == WINDOW) ss_window_all_layers(arch);
}

static void read_positions(ss_arch *arch, ss_json *variant) {
    arch->positions = (ss_positions)read_word(variant, "positions", ss_positions_words,
                                              SS_POSITIONS_N, (int)arch->positions);
    if (arch->positions == SS_POSITIONS_ROTARY) return;
    bool has_sines = arch->positions == SS_POSITIONS_SINUSOID;
    arch->rotary_width = has_sines ? arch->D : 0;
    arch->rotary = (ss_rotary){.base = 10000.0, .part = 1.0, .attention_factor = 1.0f};
    if (has_sines && arch->D % 2)
        ss_json_refuse(variant, "hidden_size", "an even one with sinusoid positions", "an odd one");
}

static ss_owner read_owner(ss_json *variant, const char *key) {
    return (ss_owner)read_word(variant, key, ss_owner_words, SS_OWNER_N, SS_OWNER_NONE);
}

static void read_additions(ss_arch *arch, ss_json *variant) {
    arch->bias_key = read_owner(variant, "bias_key");
    arch->bias_key_value = read_owner(variant, "bias_key_value");
    arch->value_bias = read_owner(variant, "value_bias");
    arch->gate = (ss_gate)read_word(variant, "gate", ss_gate_words, SS_GATE_N, SS_GATE_NONE);
    if (arch->bias_key_value && !arch->bias_key)
        ss_json_refuse(variant, "sinkscope.bias_key_value", "the value of a bias key",
                       "there is no bias_key");
}

static void read_block(ss_arch *arch, ss_json *variant) {
    enum { PRE, POST, SANDWICH, PLACES };
    static const char *const places[] = {"pre", "post", "sandwich"};
    static const char *const heads[] = {"joined", "added"};
    int place = read_word(variant, "norm", places, PLACES, PRE);
    arch->post_norm = place == POST;
    arch->branch_norms = place == SANDWICH;
    arch->norm =
        (ss_norm_kind)read_word(variant, "norm_kind", ss_norm_words, SS_NORM_N, (int)arch->norm);
    arch->ffn =
        (ss_ffn_kind)read_word(variant, "feed_forward", ss_ffn_words, SS_FFN_N, (int)arch->ffn);
    if (arch->ffn == SS_FFN_NONE && arch->E)
        ss_json_refuse(variant, "sinkscope.feed_forward", "plain or gated experts", "none");
    if (arch->ffn == SS_FFN_NONE) arch->F = 0;
    arch->added_heads = read_word(variant, "heads", heads, 2, 0) == 1;
}

void ss_read_variant(ss_arch *arch, ss_json *json, bool all_keys) {
    static const char *const keys[] = {"attention", "positions",      "mask",         "mask_token",
                                       "bias_key",  "bias_key_value", "value_bias",   "gate",
                                       "norm",      "norm_kind",      "feed_forward", "heads"};
    ss_json variant = ss_json_object(json, "sinkscope");
    if (!variant.object) return;
    check_keys(&variant, "", keys, all_keys ? (int)(sizeof keys / sizeof *keys) : 1);
    read_attention(&arch->attention, &variant);
    if (all_keys) {
        read_positions(arch, &variant);
        read_mask(arch, &variant);
        read_additions(arch, &variant);
        read_block(arch, &variant);
        int token = ss_json_int(&variant, "mask_token", arch->V, 0, arch->V - 1);
        arch->mask_token = token < arch->V ? token : -1;
    }
}
