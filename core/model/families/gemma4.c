/* gemma4_text differs from gemma3: norms multiply by w, values are normed, too, and a factor scales
 * the stream after each layer. Layers that see all keys have another head width and rotation, and
 * may use their projected keys as values. Per-layer embeddings, keys and values that layers share,
 * and experts are refused. */
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void refuse_other_keys(ss_json *json) {
    if (ss_json_int(json, "hidden_size_per_layer_input", 256, 0, SS_WIDTH_MAX))
        ss_json_refuse(json, "hidden_size_per_layer_input", "0",
                       "more, or nothing, which means 256");
    if (ss_json_int(json, "num_kv_shared_layers", 0, 0, SS_LAYERS_MAX))
        ss_json_refuse(json, "num_kv_shared_layers", "0", "more");
    ss_json_require_bool(json, "enable_moe_block", false);
    /* "vision" makes attention bidirectional within images only; text stays causal. */
    const char *bidirectional = ss_json_text(json, "use_bidirectional_attention", "vision");
    if (strcmp(bidirectional, "vision"))
        ss_json_refuse(json, "use_bidirectional_attention", "null and \"vision\"", bidirectional);
}

static ss_sizes read_layer_sizes(const ss_arch *arch, ss_json *json, ss_json *layers, int l) {
    char key[16];
    snprintf(key, sizeof key, "%d", l);
    ss_json layer = ss_json_object(layers, key);
    const cJSON *item;
    ss_sizes sizes = {.G = arch->G, .K = arch->K};
    if (!ss_json_is_null(json, "per_layer_config") && !layers->object && !arch->windowed[l]) {
        sizes.K = ss_json_int(json, "global_head_dim", 512, 1, SS_WIDTH_MAX);
        if (arch->keys_as_values)
            sizes.G = ss_json_int(json, "num_global_key_value_heads", arch->G, 1, arch->H);
        return sizes;
    }
    cJSON_ArrayForEach(item, layer.object) if (strcmp(item->string, "head_dim") &&
                                               strcmp(item->string, "num_key_value_heads"))
        ss_json_refuse(json, "per_layer_config", "head_dim and num_key_value_heads", item->string);
    sizes.K = ss_json_int(&layer, "head_dim", sizes.K, 1, SS_WIDTH_MAX);
    sizes.G = ss_json_int(&layer, "num_key_value_heads", sizes.G, 1, arch->H);
    return sizes;
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static void read_sizes(ss_arch *arch, ss_json *json) {
    ss_json layers = ss_json_object(json, "per_layer_config");
    ss_sizes sizes[2] = {{.K = 0}, {.K = 0}};
    for (int l = 0; l < arch->L && *json->status == SS_OK; l++) {
        ss_sizes *kind = &sizes[arch->windowed[l]],
                 layer_sizes = read_layer_sizes(arch, json, &layers, l);
        if (kind->K && (kind->K != layer_sizes.K || kind->G != layer_sizes.G))
            ss_json_refuse(json, "per_layer_config",
                           "one size for layers with a window, and one for the others", "more");
        *kind = layer_sizes;
    }
    for (int i = 0; i < 2; i++) {
        ss_sizes layer_sizes = sizes[i].K ? sizes[i] : sizes[!i];
        arch->sizes[i] = (ss_sizes){layer_sizes.G, layer_sizes.K, layer_sizes.K, layer_sizes.K};
        if (layer_sizes.G && (arch->H % layer_sizes.G || layer_sizes.K % 2))
            ss_json_refuse(json, layer_sizes.K % 2 ? "head_dim" : "num_key_value_heads",
                           "even heads, and a number of keys' that divides the queries'",
                           "another number");
    }
    arch->G = max_int(arch->sizes[0].G, arch->sizes[1].G);
    arch->K = arch->U = arch->rotary_width = max_int(arch->sizes[0].K, arch->sizes[1].K);
}

/* Reads the rotation of one kind of layers: "proportional" rotates the first pairs of a head,
 * others all pairs; "default" ignores partial_rotary_factor. */
static void read_kind_rotary(ss_rotary *rotary, ss_json *rope, const char *kind, int context) {
    ss_json inner = ss_json_object(rope, kind);
    if (!inner.object) return;
    const char *type = ss_json_text(&inner, "rope_type", "default");
    if (strcmp(type, "proportional")) {
        rotary->scaling = SS_ROPE_PLAIN;
        rotary->part = 1.0;
        ss_read_rope(rotary, &inner, context);
        if (!strcmp(type, "default")) rotary->part = 1.0;
        if (rotary->part < 1.0) ss_json_refuse(rope, "partial_rotary_factor", "1", "less than 1");
        return;
    }
    ss_refuse_null(&inner, "partial_rotary_factor");
    ss_refuse_null(&inner, "factor");
    *rotary = (ss_rotary){.attention_factor = 1.0f, .scaling = SS_ROPE_PROPORTIONAL};
    rotary->base = ss_json_number(&inner, "rope_theta", 1e6, 1.0, 1e12);
    rotary->part = ss_json_number(&inner, "partial_rotary_factor", 1.0, 0.0, 1.0);
    rotary->factor = ss_json_number(&inner, "factor", 1.0, 1e-3, 1e6);
}

static void read_rotaries(ss_arch *arch, ss_json *json) {
    ss_json rope = ss_json_object(json, "rope_parameters");
    arch->rotary = (ss_rotary){.base = 1e6,
                               .part = 0.25,
                               .factor = 1.0,
                               .attention_factor = 1.0f,
                               .scaling = SS_ROPE_PROPORTIONAL};
    arch->window_rotary = (ss_rotary){.base = 1e4, .part = 1.0, .attention_factor = 1.0f};
    arch->has_window_rotary = true;
    ss_require_rope_kinds(json);
    read_kind_rotary(&arch->rotary, &rope, "full_attention", arch->context);
    read_kind_rotary(&arch->window_rotary, &rope, "sliding_attention", arch->context);
}

void ss_gemma4_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 4,
                                  .K = 256,
                                  .context = 131072,
                                  .tied = true,
                                  .skips_rotary = true,
                                  .activation_key = "hidden_activation",
                                  .activation = "gelu_pytorch_tanh"};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->keys_as_values = ss_json_bool(json, "attention_k_eq_v", false);
    refuse_other_keys(json);
    arch->window = ss_read_window(json, 512);
    ss_read_window_pattern(arch, json, 6);
    /* As in transformers, the last layer sees all keys, whatever layer_types says. */
    arch->windowed[arch->L - 1] = false;
    read_sizes(arch, json);
    read_rotaries(arch, json);
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->value_norm = arch->branch_norms = true;
    arch->score_scale = 1.0f;
    arch->embedding_scale = sqrtf((float)arch->D);
    arch->logit_cap = (float)ss_json_number(json, "final_logit_softcapping", 0.0, 1e-3, 1e6);
}

void ss_load_gemma4_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_layer(layer, loader, arch);
    layer->scale = ss_load_numbers(loader, "layers.%d.layer_scalar", 0, 1);
    layer->v_norm.gain = ss_load_ones(loader, (size_t)arch->U);
}
