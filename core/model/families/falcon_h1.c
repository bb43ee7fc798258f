/* falcon_h1: llama with a Mamba-2 mixer parallel to attention in every layer, and with factors of
 * embeddings, logits, keys, and the input and output of each part. */
#include "family.h"

#include <math.h>

static float read_factor(ss_json *json, const char *key) {
    return (float)ss_json_number(json, key, 1.0, 1e-9, 1e9);
}

static void read_factors(ss_json *json, const char *key, float *factors, int n) {
    const cJSON *list = ss_json_item(json, key), *item;
    for (int i = 0; i < n; i++) factors[i] = 1.0f;
    if (!list) return;
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        bool is_factor = cJSON_IsNumber(item) && fabs(item->valuedouble) <= 1e9;
        if (!is_factor) i = n;
        if (i < n) factors[i] = (float)item->valuedouble;
        i++;
    }
    if (i != n) ss_json_refuse(json, key, n == 2 ? "2 numbers" : "5 numbers", "something else");
}

/* Reads the bounds [low, high] of steps. transformers writes an infinite bound as the object
 * {"__float__": "Infinity"}, since JSON has no number for it. */
static void read_step_limits(ss_mixer_sizes *sizes, ss_json *json) {
    const char *key = "time_step_limit";
    const cJSON *list = ss_json_item(json, key);
    sizes->step_high = INFINITY;
    if (!list) return;
    const cJSON *low = cJSON_GetArrayItem(list, 0), *high = cJSON_GetArrayItem(list, 1);
    bool is_pair = cJSON_GetArraySize(list) == 2 && cJSON_IsNumber(low) &&
                   (cJSON_IsNumber(high) || cJSON_IsObject(high));
    if (is_pair && cJSON_IsNumber(high)) sizes->step_high = (float)high->valuedouble;
    if (is_pair) sizes->step_low = (float)low->valuedouble;
    if (!is_pair || !(sizes->step_low >= 0.0f && sizes->step_low <= sizes->step_high))
        ss_json_refuse(json, key, "two numbers, the first at least 0 and the second no less",
                       "something else");
}

static void read_mamba(ss_arch *arch, ss_json *json) {
    ss_mixer_sizes *sizes = &arch->mixer;
    float scales[5];
    *sizes = (ss_mixer_sizes){.kind = SS_MIXER_MAMBA, .in_every_layer = true};
    ss_mixer_reset_factors(sizes);
    int expand = ss_json_int(json, "mamba_expand", 2, 1, 64);
    bool is_null = ss_json_is_null(json, "mamba_d_ssm");
    int width = is_null ? expand * arch->D : ss_json_int(json, "mamba_d_ssm", 1024, 1, SS_FFN_MAX);
    sizes->values = ss_json_int(json, "mamba_n_heads", 128, 1, SS_HEADS_MAX);
    sizes->keys = ss_json_int(json, "mamba_n_groups", 1, 1, SS_HEADS_MAX);
    sizes->key_width = ss_json_int(json, "mamba_d_state", 256, 1, SS_WIDTH_MAX);
    sizes->value_width = width / sizes->values;
    if (!cJSON_IsString(ss_json_item(json, "mamba_d_head")))
        sizes->value_width = ss_json_int(json, "mamba_d_head", sizes->value_width, 1, SS_WIDTH_MAX);
    if (sizes->value_width < 1 || sizes->values * sizes->value_width != width)
        ss_json_refuse(json, "mamba_d_head", "mamba_d_ssm / mamba_n_heads", "another number");
    sizes->kernel = ss_json_int(json, "mamba_d_conv", 4, 1, SS_KERNEL_MAX);
    sizes->taps_bias = ss_json_bool(json, "mamba_conv_bias", true);
    sizes->bias = ss_json_bool(json, "mamba_proj_bias", false);
    sizes->out_bias = ss_json_bool(json, "projectors_bias", false);
    sizes->gate_first = !ss_json_bool(json, "mamba_norm_before_gate", true);
    sizes->norms = ss_json_bool(json, "mamba_rms_norm", false) ? sizes->keys : 0;
    sizes->in_scale = read_factor(json, "ssm_in_multiplier");
    sizes->out_scale = read_factor(json, "ssm_out_multiplier");
    read_factors(json, "ssm_multipliers", scales, 5); /* factors of z, v, k, q and steps */
    sizes->z_scale = scales[0];
    for (int part = 0; part < 3; part++) sizes->scales[part] = scales[3 - part];
    sizes->step_scale = scales[4];
    read_step_limits(sizes, json);
    ss_check_mixer(arch, json, "mamba_n_heads");
}

void ss_falcon_h1_read(ss_arch *arch, ss_json *json) {
    float factors[2];
    int G = ss_json_is_null(json, "num_key_value_heads") ? 0 : 8;
    ss_llama_defaults defaults = {.G = G, .context = 8192, .norm_eps = 1e-5};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_llama_biases(arch, json);
    if (arch->activation != SS_ACTIVATION_SILU)
        ss_json_refuse(json, "hidden_act", "\"silu\"", "another one");
    arch->embedding_scale = read_factor(json, "embedding_multiplier");
    arch->logit_scale = read_factor(json, "lm_head_multiplier");
    arch->attention_in_scale = read_factor(json, "attention_in_multiplier");
    arch->attention_out_scale = read_factor(json, "attention_out_multiplier");
    arch->key_scale = read_factor(json, "key_multiplier");
    read_factors(json, "mlp_multipliers", factors, 2);
    arch->ffn_gate_scale = factors[0];
    arch->ffn_out_scale = factors[1];
    ss_attend_everywhere(arch);
    read_mamba(arch, json);
}

/* in_proj has z, then v, k and q, which are convolved in this order, then the steps. */
static void load_mamba(ss_mixer *mixer, ss_loader *loader, const ss_arch *arch) {
    const ss_mixer_sizes *sizes = &arch->mixer;
    size_t keys = (size_t)sizes->keys * (size_t)sizes->key_width, H = (size_t)sizes->values;
    size_t values = H * (size_t)sizes->value_width, kernel = (size_t)sizes->kernel;
    size_t columns = values + 2 * keys, first = 0;
    ss_linear *linears[] = {&mixer->z, &mixer->v, &mixer->k, &mixer->q, &mixer->step};
    size_t widths[] = {values, values, keys, keys, H};
    for (size_t i = 0; i < 5; first += widths[i++]) {
        ss_place place = {
            .in = (size_t)arch->D, .out = widths[i], .total = values + columns + H, .first = first};
        ss_load_linear_at(loader, linears[i], "layers.%d.mamba.in_proj", sizes->bias, &place);
    }
    const float *taps = ss_load_taps(loader, "layers.%d.mamba.conv1d.weight", columns, kernel);
    const float *biases = sizes->taps_bias
                              ? ss_load_numbers(loader, "layers.%d.mamba.conv1d.bias", 0, columns)
                              : NULL;
    size_t first_rows[] = {values + keys, values, 0}; /* of q, k and v in the convolution */
    for (size_t part = 0; part < 3; part++) {
        mixer->taps[part] = taps ? taps + first_rows[part] * kernel : NULL;
        mixer->biases[part] = biases ? biases + first_rows[part] : NULL;
    }
    mixer->decay = ss_load_decay(loader, "layers.%d.mamba.A_log", H);
    mixer->offset = ss_load_numbers(loader, "layers.%d.mamba.dt_bias", 0, H);
    mixer->skip = ss_load_numbers(loader, "layers.%d.mamba.D", 0, H);
    if (sizes->norms)
        mixer->norm = ss_load_numbers(loader, "layers.%d.mamba.norm.weight", 0, values);
    ss_load_linear(loader, &mixer->out, "layers.%d.mamba.out_proj", sizes->out_bias, values,
                   (size_t)arch->D);
}

void ss_load_falcon_h1_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", false, D);
    load_mamba(&layer->mixer, loader, arch);
    ss_load_llama_heads(layer, loader, arch);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.pre_ff_layernorm", false, D);
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.feed_forward", arch, (size_t)arch->F);
}

void ss_load_falcon_h1_ends(ss_model *model, ss_loader *loader) {
    ss_load_llama_like_ends(model, loader, "final_layernorm");
}
