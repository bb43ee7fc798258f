/* deepseek_v2 and deepseek_v3: latent attention, which computes keys and values from one compressed
 * vector, and experts, with at least one for every token, after some layers without experts.
 * dots1 has the experts of deepseek_v3 with the attention of qwen3; mimo_v2_flash has the same
 * experts without a shared one, and twice the key/value heads and sink logits in layers with a
 * window. */
#include "../rotary.h"
#include "family.h"

#include <math.h>
#include <string.h>

static void check_text(ss_json *json, const char *key, const char *expected) {
    const char *text = ss_json_text(json, key, expected);
    if (strcmp(text, expected)) ss_json_refuse(json, key, expected, text);
}

typedef struct default_experts {
    int E, top_k, F, shared, dense; /* default values; E, top_k or shared 0: the config must have
                                       the key; dense 0: no layers without experts */
    bool no_shared;
    int groups, top_groups; /* 0: 1 */
    double scale;           /* 0: 1 */
} default_experts;

static void read_expert_groups(ss_arch *arch, ss_json *json, const default_experts *defaults) {
    int default_groups = defaults->groups ? defaults->groups : 1;
    int groups = ss_json_int(json, "n_group", default_groups, 1, arch->E);
    int top_groups = defaults->top_groups ? defaults->top_groups : 1;
    arch->router_top_groups = ss_json_int(json, "topk_group", top_groups, 1, groups);
    arch->router_groups = groups;
    if (arch->E % groups || arch->E / groups < arch->router_best)
        ss_json_refuse(json, "n_group", "groups of as many experts, two or more", "another number");
    else if (arch->top_k > arch->router_top_groups * (arch->E / groups))
        ss_json_refuse(json, "num_experts_per_tok",
                       "no more than topk_group of n_group groups have", "more");
}

static void read_shared_experts(ss_arch *arch, ss_json *json, const default_experts *defaults) {
    if (defaults->no_shared) return;
    int shared = defaults->shared ? defaults->shared : SS_JSON_REQUIRED;
    arch->shared_F =
        arch->F * ss_json_int(json, "n_shared_experts", shared, 1, SS_FFN_MAX / arch->F);
    int dense = ss_json_int(json, "first_k_dense_replace", defaults->dense, 0, SS_LAYERS_MAX);
    for (int l = 0; l < dense && l < arch->L; l++) arch->dense[l] = true;
}

static void read_experts(ss_arch *arch, ss_json *json, const default_experts *defaults) {
    ss_read_experts(arch, json, "n_routed_experts", defaults->E ? defaults->E : SS_JSON_REQUIRED,
                    defaults->top_k ? defaults->top_k : SS_JSON_REQUIRED);
    ss_refuse_alias(json, "num_local_experts", "n_routed_experts", arch->E);
    ss_refuse_alias(json, "num_experts", "n_routed_experts", arch->E);
    arch->dense_F = arch->F;
    arch->F = ss_json_int(json, "moe_intermediate_size", defaults->F, 1, SS_FFN_MAX);
    read_shared_experts(arch, json, defaults);
    if (!defaults->no_shared) ss_refuse_null(json, "routed_scaling_factor");
    double scale = defaults->scale > 0.0 ? defaults->scale : 1.0;
    arch->router_scale = (float)ss_json_number(json, "routed_scaling_factor", scale, 1e-6, 1e6);
    if (ss_json_int(json, "moe_layer_freq", 1, 1, SS_LAYERS_MAX) > 1)
        ss_json_refuse(json, "moe_layer_freq", "1", "more");
}

static void read_sigmoid_experts(ss_arch *arch, ss_json *json, const default_experts *defaults,
                                 bool normed) {
    ss_refuse_null(json, "n_group");
    ss_refuse_null(json, "topk_group");
    read_experts(arch, json, defaults);
    check_text(json, "scoring_func", "sigmoid");
    check_text(json, "topk_method", "noaux_tc");
    arch->router = SS_ROUTER_SIGMOID;
    arch->router_best = 2;
    arch->router_shares = !ss_json_bool(json, "norm_topk_prob", normed);
    read_expert_groups(arch, json, defaults);
}

static void load_ffn(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    if (arch->dense[loader->layer]) {
        ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->dense_F);
        return;
    }
    ss_load_experts(layer, loader, arch, "layers.%d.mlp.gate", false, ss_load_llama_expert);
    if (arch->router == SS_ROUTER_SIGMOID)
        layer->router_bias = ss_load_numbers(loader, "layers.%d.mlp.gate.e_score_correction_bias",
                                             0, (size_t)arch->E);
    if (!arch->shared_F) return;
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp.shared_experts", arch,
                      (size_t)arch->shared_F);
}

/* Reads the width of compressed queries. An absent key means `default_value`; null means that
 * queries are not compressed. */
static int read_q_latent_width(ss_json *json, int default_value) {
    return ss_json_is_null(json, "q_lora_rank")
               ? 0
               : ss_json_int(json, "q_lora_rank", default_value, 1, SS_WIDTH_MAX);
}

/* Reads rotary positions. With a scaling, mscale_all_dim scales all dimensions of queries and keys,
 * rotated or not. */
static void read_positions(ss_arch *arch, ss_json *json) {
    arch->rotary = (ss_rotary){.base = 10000.0, .part = 1.0};
    ss_read_llama_rotary(arch, json);
    ss_json rope = ss_rope_object(json);
    double slope = ss_json_number(&rope, "mscale_all_dim", 0.0, 0.0, 1e6);
    double factor = arch->rotary.scaling ? ss_yarn_attention_factor(&arch->rotary, slope) : 1.0;
    arch->score_scale = (float)(factor * factor / sqrt((double)arch->K));
}

static void read_latent_attention(ss_arch *arch, ss_json *json) {
    arch->q_latent = read_q_latent_width(json, 1536);
    arch->kv_latent = ss_json_int(json, "kv_lora_rank", 512, 1, SS_WIDTH_MAX);
    arch->rotary_width = ss_json_int(json, "qk_rope_head_dim", 64, 2, SS_WIDTH_MAX / 2);
    int unrotated = ss_json_int(json, "qk_nope_head_dim", 128, 1, SS_WIDTH_MAX / 2);
    arch->K = unrotated + arch->rotary_width;
    arch->U = ss_json_int(json, "v_head_dim", 128, 1, SS_WIDTH_MAX);
    if (ss_json_int(json, "head_dim", arch->rotary_width, 1, SS_WIDTH_MAX) != arch->rotary_width)
        ss_json_refuse(json, "head_dim", "qk_rope_head_dim", "another number");
    if (arch->G != arch->H)
        ss_json_refuse(json, "num_key_value_heads", "num_attention_heads", "another number");
    ss_read_attention_bias(arch, json, "attention_bias", false);
    read_positions(arch, json);
}

void ss_deepseek_v2_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.skips_rotary = true});
    read_latent_attention(arch, json);
    default_experts defaults = {.E = 64, .F = 1407, .shared = 2};
    read_experts(arch, json, &defaults);
    arch->router_shares = true;
    check_text(json, "scoring_func", "softmax");
    const char *method = ss_json_text(json, "topk_method", "greedy");
    if (!strcmp(method, "group_limited_greedy"))
        read_expert_groups(arch, json, &defaults);
    else if (strcmp(method, "greedy"))
        ss_json_refuse(json, "topk_method", "\"greedy\" and \"group_limited_greedy\"", method);
    ss_json_require_bool(json, "norm_topk_prob", false);
    ss_json_require_bool(json, "mlp_bias", false);
}

void ss_deepseek_v3_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.context = 4096, .skips_rotary = true});
    ss_refuse_null(json, "head_dim");
    bool is_absent =
        !ss_json_is_null(json, "num_key_value_heads") && !ss_json_item(json, "num_key_value_heads");
    if (is_absent && arch->H < 128)
        ss_json_fail(json, "num_key_value_heads", "a number of heads, found nothing (128)");
    read_latent_attention(arch, json);
    default_experts defaults = {.E = 256,
                                .top_k = 8,
                                .F = 2048,
                                .shared = 1,
                                .dense = 3,
                                .groups = 8,
                                .top_groups = 4,
                                .scale = 2.5};
    read_sigmoid_experts(arch, json, &defaults, true);
    arch->rotary.has_halves =
        !ss_json_bool(json, "rope_interleave", true) || ss_json_is_null(json, "rope_interleave");
}

#define ATTENTION "layers.%d.self_attn."

/* Loads the norm of a compressed vector. As in transformers, its eps is not that of the config. */
static void load_latent_norm(ss_loader *loader, ss_norm *norm, const char *name, size_t n) {
    ss_load_norm(loader, norm, name, false, n);
    norm->eps = 1e-6f;
}

/* Loads queries. A head's rotated dimensions come last in the file, as pairs of neighbors. */
static void load_queries(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, K = (size_t)arch->K, latent = (size_t)arch->q_latent;
    ss_place q = {.in = latent ? latent : D,
                  .out = (size_t)arch->H * K,
                  .pair = K,
                  .unpaired = K - (size_t)arch->rotary_width,
                  .pairs_last = true,
                  .halves = arch->rotary.has_halves};
    ss_load_linear_at(loader, &layer->q, latent ? ATTENTION "q_b_proj" : ATTENTION "q_proj", false,
                      &q);
    if (!latent) return;
    ss_load_linear(loader, &layer->q_latent, ATTENTION "q_a_proj", arch->attention_bias, D, latent);
    load_latent_norm(loader, &layer->q_latent_norm, ATTENTION "q_a_layernorm", latent);
}

/* Loads keys and values. One tensor holds the compression and the rotated part of keys; another one
 * holds the unrotated part of keys and the values, head by head. */
static void load_keys_and_values(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t H = (size_t)arch->H, U = (size_t)arch->U, latent = (size_t)arch->kv_latent;
    size_t rotated = (size_t)arch->rotary_width, unrotated = (size_t)arch->K - rotated;
    ss_place a = {.in = (size_t)arch->D, .out = latent, .total = latent + rotated};
    ss_load_linear_at(loader, &layer->kv_latent, ATTENTION "kv_a_proj_with_mqa",
                      arch->attention_bias, &a);
    a.first = latent;
    a.out = rotated;
    a.pair = arch->rotary.has_halves ? 0 : rotated;
    ss_load_linear_at(loader, &layer->k_shared, ATTENTION "kv_a_proj_with_mqa",
                      arch->attention_bias, &a);
    load_latent_norm(loader, &layer->kv_latent_norm, ATTENTION "kv_a_layernorm", latent);
    ss_place b = {.in = latent,
                  .out = H * unrotated,
                  .total = H * (unrotated + U),
                  .group = unrotated,
                  .step = unrotated + U};
    ss_load_linear_at(loader, &layer->k, ATTENTION "kv_b_proj", false, &b);
    b.first = unrotated;
    b.out = H * U;
    b.group = U;
    ss_load_linear_at(loader, &layer->v, ATTENTION "kv_b_proj", false, &b);
}

void ss_load_deepseek_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", false, D);
    load_queries(layer, loader, arch);
    load_keys_and_values(layer, loader, arch);
    ss_load_linear(loader, &layer->o, ATTENTION "o_proj", arch->output_bias,
                   (size_t)arch->H * (size_t)arch->U, D);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.post_attention_layernorm", false, D);
    load_ffn(layer, loader, arch);
}

void ss_dots1_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 32});
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->window = ss_read_window(json, 4096);
    ss_read_late_windows(arch, json, 62);
    default_experts defaults = {.F = 1408};
    read_sigmoid_experts(arch, json, &defaults, false);
}

/* Reads mlp_layer_types, "dense" or "sparse"; if it is absent, the first layer is dense. */
static void read_dense_layers(ss_arch *arch, ss_json *json) {
    bool is_sparse[SS_LAYERS_MAX] = {false};
    bool has_list =
        ss_read_layer_words(is_sparse, arch->L, json, "mlp_layer_types", "dense", "sparse");
    for (int l = 0; l < arch->L; l++) arch->dense[l] = has_list ? !is_sparse[l] : l == 0;
}

/* Reads the rotary positions of layers that see all keys and of layers with a window; the default
 * bases are those of published models. */
static void read_both_rotaries(ss_arch *arch, ss_json *json) {
    ss_json rope = ss_json_object(json, "rope_parameters");
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    ss_rotary *rotaries[] = {&arch->rotary, &arch->window_rotary};
    ss_require_rope_kinds(json);
    for (int i = 0; i < 2; i++) {
        *rotaries[i] = (ss_rotary){.base = i ? 1e4 : 5e6, .part = 0.334, .attention_factor = 1.0f};
        ss_json kind = ss_json_object(&rope, kinds[i]);
        ss_read_rope(rotaries[i], &kind, arch->context);
        if (rotaries[i]->scaling) ss_json_refuse(json, "rope_type", "\"default\"", "another");
        int width = (int)(arch->K * rotaries[i]->part);
        if (width < 2 || width % 2)
            ss_json_refuse(json, "partial_rotary_factor",
                           "an even number of dimensions of head_dim", "another number");
        arch->sizes[i] = (ss_sizes){arch->G, arch->K, arch->U, width};
    }
    arch->has_window_rotary = true;
}

/* Reads a number; null means `off_value`, and an absent key the default. */
static double read_number_or_off(ss_json *json, const char *key, double default_value,
                                 double off_value) {
    return ss_json_is_null(json, key) ? off_value
                                      : ss_json_number(json, key, default_value, 1e-6, 1e6);
}

static void read_mimo_windows(ss_arch *arch, ss_json *json) {
    int earlier = ss_json_int(json, "sliding_window_size", 0, 1, SS_CONTEXT_MAX - 1);
    arch->window = earlier ? earlier + 1 : ss_read_window(json, 129);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && l > 0 && (l + 1) % 6;
    ss_read_layer_types(arch, json);
    bool has_window = false;
    for (int l = 0; l < arch->L; l++) has_window |= arch->windowed[l];
    if (!has_window) return;
    if (arch->H % (2 * arch->G))
        ss_json_refuse(json, "num_key_value_heads",
                       "a number whose double divides num_attention_heads", "another number");
    arch->G = arch->sizes[1].G = 2 * arch->G;
}

void ss_mimo_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 4, .K = 192, .context = 131072, .norm_eps = 1e-5, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    arch->U = ss_json_int(json, "v_head_dim", 128, 1, SS_WIDTH_MAX);
    arch->value_scale = (float)read_number_or_off(json, "attention_value_scale", 0.707, 1.0);
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    read_both_rotaries(arch, json);
    read_mimo_windows(arch, json);
    arch->rotary_width = arch->sizes[0].rotary_width;
    if (arch->rotary_width < arch->sizes[1].rotary_width)
        arch->rotary_width = arch->sizes[1].rotary_width;
    strcpy(arch->attention.operation, "sink_logit");
    arch->window_sinks = true;
    default_experts expert_defaults = {.E = 256, .top_k = 8, .F = 2048, .no_shared = true};
    read_sigmoid_experts(arch, json, &expert_defaults, true);
    read_dense_layers(arch, json);
}

void ss_load_dots1_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    if (arch->window_sinks && arch->windowed[loader->layer])
        layer->sinks = ss_load_numbers(loader, ATTENTION "attention_sink_bias", 0, (size_t)arch->H);
    load_ffn(layer, loader, arch);
}
