#include "arch.h"

#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ss_positions_name(ss_positions positions) {
    return (const char *[]){"none", "learned", "rotary"}[positions];
}

const char *ss_norm_name(ss_norm_kind norm) {
    return (const char *[]){"layer", "rms"}[norm];
}

const char *ss_ffn_name(ss_ffn_kind ffn) {
    return (const char *[]){"plain", "gated"}[ffn];
}

const char *ss_activation_name(ss_activation activation) {
    return (const char *[]){"silu", "gelu_tanh", "gelu", "relu", "clamped_swiglu"}[activation];
}

const char *ss_rope_scaling_name(ss_rope_scaling scaling) {
    return (const char *[]){"none", "linear", "llama3", "yarn"}[scaling];
}

static void read_parameters(ss_attention *attention, ss_json *json) {
    const cJSON *object = ss_json_object(json, "parameters"), *item;
    if (!object) return;
    ss_json inner = {object, json->file, json->status, json->err};
    cJSON_ArrayForEach(item, object) {
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
    json->status = inner.status;
}

/* Our own key: {"sinkscope": {"attention": {"operation": .., "parameters": {..}}}}. */
static void read_attention(ss_attention *attention, ss_json *json) {
    const cJSON *own = ss_json_object(json, "sinkscope");
    if (!own) return;
    ss_json outer = {own, json->file, json->status, json->err};
    const cJSON *object = ss_json_object(&outer, "attention");
    ss_json inner = {object, json->file, outer.status, json->err};
    if (object) {
        const char *name = ss_json_text(&inner, "operation", attention->operation);
        if (strlen(name) >= sizeof attention->operation)
            ss_json_refuse(&inner, "sinkscope.attention.operation", "operations of its table",
                           name);
        else if (name != attention->operation)
            snprintf(attention->operation, sizeof attention->operation, "%s", name);
        read_parameters(attention, &inner);
    }
    json->status = inner.status;
}

ss_status ss_arch_read_object(ss_arch *arch, const cJSON *config, const char *file, ss_error *err) {
    ss_json json = {config, file, SS_OK, err};
    const char *type = ss_json_text(&json, "model_type", "");
    const ss_family *family = ss_family_find(type);
    ss_arch read = {0};
    if (family) {
        snprintf(read.family, sizeof read.family, "%s", family->name);
        snprintf(read.attention.operation, sizeof read.attention.operation, "softmax");
        read.embedding_scale = 1.0f;
        ss_family_refuse(&json);
        family->read(&read, &json);
        read_attention(&read.attention, &json);
    } else {
        char names[160];
        ss_family_names(names, sizeof names);
        ss_json_refuse(&json, "model_type", names, *type ? type : "nothing");
    }
    if (json.status == SS_OK) *arch = read;
    return json.status;
}

ss_status ss_arch_read(ss_arch *arch, ss_bytes config, ss_error *err) {
    cJSON *root;
    ss_status status = ss_json_parse(&root, config, "config.json", SS_BAD_CONFIG, err);
    if (status != SS_OK) return status;
    status = ss_arch_read_object(arch, root, "config.json", err);
    cJSON_Delete(root);
    return status;
}
