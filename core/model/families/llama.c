/*
 * llama: RMSNorm, rotary positions, gated feed-forward. SmolLM, TinyLlama and the models of our zoo
 * are llama models.
 *
 * Most later families are llama with a few changes, so this file also holds the code they share.
 */
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Reads a size from 1 to max; default_value 0: the config must have the key. */
static int read_size(ss_json *json, const char *key, int default_value, int max) {
    return ss_json_int(json, key, default_value ? default_value : SS_JSON_REQUIRED, 1, max);
}

/* Reads a size whose default is `fixed`, or where that is 0, `derived`, which null also means. */
static int read_derived_size(ss_json *json, const char *key, int fixed, int derived, int max) {
    if (fixed) ss_refuse_null(json, key);
    return read_size(json, key, fixed ? fixed : derived, max);
}

static double double_or_default(double value, double default_value) {
    return value > 0.0 ? value : default_value;
}

static void read_sizes(ss_arch *arch, ss_json *json, const ss_llama_defaults *defaults) {
    arch->L = read_size(json, "num_hidden_layers", defaults->L, SS_LAYERS_MAX);
    arch->H = read_size(json, "num_attention_heads", defaults->H, SS_HEADS_MAX);
    int G = defaults->G < arch->H ? defaults->G : arch->H;
    arch->G = read_derived_size(json, "num_key_value_heads", G, arch->H, arch->H);
    arch->D = read_size(json, "hidden_size", defaults->D, SS_WIDTH_MAX);
    int K = arch->D >= arch->H ? arch->D / arch->H : 1;
    arch->K = read_derived_size(json, "head_dim", defaults->K, K, SS_WIDTH_MAX);
    arch->F = read_size(json, "intermediate_size", defaults->F, SS_FFN_MAX);
    arch->V = read_size(json, "vocab_size", defaults->V, SS_VOCABULARY_MAX);
    int context = defaults->context ? defaults->context : 2048;
    arch->context = read_size(json, "max_position_embeddings", context, SS_CONTEXT_MAX);
}

void ss_read_llama_like(ss_arch *arch, ss_json *json, const ss_llama_defaults *defaults) {
    read_sizes(arch, json, defaults);
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary_width = arch->K;
    arch->rotary = (ss_rotary){.base = double_or_default(defaults->theta, 10000.0),
                               .part = double_or_default(defaults->part, 1.0),
                               .has_sections = defaults->has_sections};
    arch->norm = SS_NORM_RMS;
    double eps = double_or_default(defaults->norm_eps, 1e-6);
    arch->norm_eps = (float)ss_json_number(json, "rms_norm_eps", eps, 0.0, 1.0);
    arch->ffn = SS_FFN_GATED;
    const char *key = defaults->activation_key ? defaults->activation_key : "hidden_act";
    const char *activation = defaults->activation ? defaults->activation : "silu";
    arch->activation = ss_read_activation(json, key, activation);
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->tied = ss_json_bool(json, "tie_word_embeddings", defaults->tied);
    if (defaults->skips_rotary) return;
    if (defaults->part > 0.0)
        ss_read_partial_rotary(arch, json);
    else
        ss_read_llama_rotary(arch, json);
}

void ss_read_llama_rotary(ss_arch *arch, ss_json *json) {
    ss_read_rotary(&arch->rotary, json, arch->context);
    if (arch->rotary.part < 1.0) ss_json_refuse(json, "partial_rotary_factor", "1", "less than 1");
}

void ss_read_two_rotaries(ss_arch *arch, ss_json *json, const char *window_key) {
    ss_json scaling = ss_json_object(json, "rope_scaling");
    ss_json rope = ss_json_object(json, "rope_parameters");
    ss_json full = ss_json_object(&rope, "full_attention");
    ss_json sliding = ss_json_object(&rope, "sliding_attention");
    ss_rotary *window = &arch->window_rotary;
    const cJSON *item;
    double base = window_key ? 10000.0 : arch->rotary.base;
    *window = (ss_rotary){.part = 1.0, .attention_factor = 1.0f};
    window->base = window_key ? ss_json_number(json, window_key, base, 1.0, 1e12) : base;
    arch->has_window_rotary = true;
    arch->rotary.attention_factor = 1.0f;
    arch->rotary.base = ss_json_number(json, "rope_theta", arch->rotary.base, 1.0, 1e12);
    arch->rotary.part = ss_json_number(json, "partial_rotary_factor", 1.0, 0.0, 1.0);
    cJSON_ArrayForEach(item, rope.object) if (item != full.object && item != sliding.object)
        ss_json_refuse(json, "rope_parameters", "an object for each kind of layers", item->string);
    if (scaling.object && rope.object)
        ss_json_refuse(json, "rope_scaling", "rope_parameters alone", "both");
    ss_read_rope(&arch->rotary, scaling.object ? &scaling : &full, arch->context);
    ss_read_rope(window, &sliding, arch->context);
    if (arch->rotary.part < 1.0 || window->part < 1.0)
        ss_json_refuse(json, "partial_rotary_factor", "1", "less than 1");
}

void ss_read_llama_biases(ss_arch *arch, ss_json *json) {
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->ffn_bias = ss_json_bool(json, "mlp_bias", false);
}

void ss_llama_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){0});
    ss_read_llama_biases(arch, json);
}

/* `neighbor_families` lists families whose rotary pairs are neighboring dimensions in every format.
 * `permuted_families` lists families whose q and k the GGUF converters permute into this order,
 * which is that of Meta's original files. */
static const char neighbor_families[] = "ernie4_5\0helium\0cohere\0cohere2\0glm\0glm4\0";
static const char permuted_families[] =
    "llama\0mistral\0mixtral\0granite\0granitemoe\0smollm3\0olmo\0";

static bool has_pairs_side_by_side(const ss_loader *loader, const ss_arch *arch) {
    return ss_is_listed(arch->family, neighbor_families) ||
           (ss_load_is_format(loader, SS_GGUF) && ss_is_listed(arch->family, permuted_families));
}

/* Returns true for families whose q_proj holds the gate of a head after its query. */
static bool has_gates_in_q(const ss_arch *arch) {
    return ss_is_listed(arch->family, "qwen3_next\0qwen3_5_text\0qwen3_5\0");
}

static void load_additions(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, K = (size_t)arch->K, H = (size_t)arch->H, G = (size_t)arch->G;
    layer->bias_keys =
        ss_load_head_vectors(loader, "layers.%d.self_attn.bias_key", arch->bias_key, G, K);
    layer->bias_values = ss_load_head_vectors(loader, "layers.%d.self_attn.bias_key_value",
                                              arch->bias_key_value, G, K);
    layer->value_biases =
        ss_load_head_vectors(loader, "layers.%d.self_attn.value_bias", arch->value_bias, H, K);
    if (arch->gate && !has_gates_in_q(arch))
        ss_load_linear(loader, &layer->gate, "layers.%d.self_attn.gate_proj", false,
                       arch->gate == SS_GATE_VALUE_STATE ? G * K : D,
                       (size_t)(ss_arch_gated_heads(arch) * ss_arch_gate_width(arch)));
    if (ss_load_has_tensor(loader, "layers.%d.self_attn.kernel_in.weight")) {
        ss_load_linear(loader, &layer->kernel_in, "layers.%d.self_attn.kernel_in", false, K, K);
        ss_load_linear(loader, &layer->kernel_out, "layers.%d.self_attn.kernel_out", false, K, K);
    }
}

/* Loads a norm as the family's files store it. A bare norm has no numbers in its file. For a gain
 * of 1 + w, safetensors files store w and GGUF files store the sum. */
void ss_load_llama_norm(ss_loader *loader, ss_norm *norm, const char *name, const ss_arch *arch,
                        size_t n) {
    bool has_bias = arch->norm == SS_NORM_LAYER && !arch->no_norm_bias;
    if (arch->bare_norm)
        norm->gain = ss_load_ones(loader, n);
    else
        ss_load_norm(loader, norm, name, has_bias, n);
    float *gain = (float *)(size_t)norm->gain;
    bool adds = arch->gain_plus_one && !ss_load_is_format(loader, SS_GGUF);
    for (size_t i = 0; adds && gain && i < n; i++) gain[i] += 1.0f;
}

/* Loads the gains [heads][K] of stablelm's norms, one tensor for each head of queries or keys. */
static void load_own_norms(ss_norm *norm, ss_loader *loader, const char *kind, size_t heads,
                           size_t K) {
    float *gains = ss_load_ones(loader, heads * K);
    for (size_t h = 0; h < heads; h++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%%d.self_attn.%s_layernorm.norms.%d.weight", kind,
                 (int)h);
        const float *gain = ss_load_numbers(loader, name, 0, K);
        if (gain && gains) memcpy(gains + h * K, gain, K * sizeof *gains);
    }
    norm->gain = gains;
}

/* Loads the norms of queries and keys. Hunyuan calls them query_layernorm and key_layernorm; all
 * others q_norm and k_norm. */
static void load_qk_norms(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_sizes sizes = ss_arch_sizes(arch, ss_attention_of(arch, loader->layer));
    size_t K = (size_t)sizes.K, H = (size_t)arch->H, G = (size_t)sizes.G;
    bool is_joint = arch->qk_norm == SS_QK_NORM_ALL_HEADS;
    bool is_rotated = arch->qk_norm == SS_QK_NORM_HEAD_ROTATED;
    if (arch->qk_norm == SS_QK_NORM_OWN_HEAD) {
        load_own_norms(&layer->q_norm, loader, "q", H, K);
        load_own_norms(&layer->k_norm, loader, "k", G, K);
    }
    if (!arch->qk_norm || arch->qk_norm == SS_QK_NORM_OWN_HEAD) return;
    ss_load_llama_norm(loader, &layer->q_norm,
                       is_rotated ? "layers.%d.self_attn.query_layernorm"
                                  : "layers.%d.self_attn.q_norm",
                       arch, is_joint ? H * K : K);
    ss_load_llama_norm(loader, &layer->k_norm,
                       is_rotated ? "layers.%d.self_attn.key_layernorm"
                                  : "layers.%d.self_attn.k_norm",
                       arch, is_joint ? G * K : K);
}

void ss_load_llama_heads(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_sizes sizes = ss_arch_sizes(arch, ss_attention_of(arch, loader->layer));
    size_t D = (size_t)arch->D, K = (size_t)sizes.K, U = (size_t)sizes.U;
    size_t H = (size_t)arch->H, G = (size_t)sizes.G, HK = H * K;
    bool bias = arch->attention_bias;
    ss_place q = {.in = D, .out = HK};
    if (has_pairs_side_by_side(loader, arch)) {
        q.pair = K;
        q.unpaired = K - (size_t)sizes.rotary_width;
    }
    ss_place k = q;
    k.out = G * K;
    if (has_gates_in_q(arch)) {
        q = (ss_place){.in = D, .out = HK, .total = 2 * HK, .group = K, .step = 2 * K};
        ss_place gate = q;
        gate.first = K;
        ss_load_linear_at(loader, &layer->gate, "layers.%d.self_attn.q_proj", bias, &gate);
    }
    ss_load_linear_at(loader, &layer->q, "layers.%d.self_attn.q_proj", bias, &q);
    ss_load_linear_at(loader, &layer->k, "layers.%d.self_attn.k_proj", bias, &k);
    if (!arch->keys_as_values || arch->windowed[loader->layer])
        ss_load_linear(loader, &layer->v, "layers.%d.self_attn.v_proj", bias, D, G * U);
    ss_load_linear(loader, &layer->o, "layers.%d.self_attn.o_proj", arch->output_bias,
                   arch->added_heads ? U : H * U, D);
    load_qk_norms(layer, loader, arch);
    const char *sinks = ss_load_is_format(loader, SS_GGUF) ? "layers.%d.self_attn.sinks.weight"
                                                           : "layers.%d.self_attn.sinks";
    if (ss_load_has_sinks(loader, arch, sinks))
        layer->sinks = ss_load_numbers(loader, sinks, 0, (size_t)arch->H);
    load_additions(layer, loader, arch);
}

void ss_load_llama_attention(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    const char *before_ffn = "layers.%d.post_attention_layernorm";
    if (!arch->branch_only)
        ss_load_llama_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", arch, D);
    if (ss_attention_of(arch, loader->layer) >= 0) ss_load_llama_heads(layer, loader, arch);
    if (arch->branch_norms)
        ss_load_llama_norm(loader, &layer->attention_out_norm, before_ffn, arch, D);
    if (arch->ffn == SS_FFN_NONE) return;
    if (arch->branch_norms) {
        before_ffn = "layers.%d.pre_feedforward_layernorm";
        ss_load_llama_norm(loader, &layer->ffn_out_norm, "layers.%d.post_feedforward_layernorm",
                           arch, D);
    }
    if (arch->parallel)
        layer->ffn_norm = layer->attention_norm;
    else if (!arch->branch_only)
        ss_load_llama_norm(loader, &layer->ffn_norm, before_ffn, arch, D);
}

/* Loads a feed-forward. `place` selects the slice of a three-dimensional tensor; it is zero for a
 * tensor of two dimensions. */
static void load_ffn(ss_ffn *ffn, ss_loader *loader, const char *name, const ss_arch *arch,
                     size_t F, ss_place place) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    ss_linear *linears[] = {&ffn->gate, &ffn->up, &ffn->down};
    size_t D = (size_t)arch->D;
    if (arch->ffn == SS_FFN_NONE) return;
    for (int i = arch->ffn == SS_FFN_GATED ? 0 : 1; i < 3; i++) {
        char full_name[64];
        snprintf(full_name, sizeof full_name, "%s.%s", name, parts[i]);
        place.in = i == 2 ? F : D;
        place.out = i == 2 ? D : F;
        ss_load_linear_at(loader, linears[i], full_name, arch->ffn_bias, &place);
    }
}

void ss_load_llama_ffn(ss_ffn *ffn, ss_loader *loader, const char *name, const ss_arch *arch,
                       size_t F) {
    load_ffn(ffn, loader, name, arch, F, (ss_place){0});
}

void ss_load_llama_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e) {
    char name[48];
    ss_place slice = {.slices = (size_t)arch->E, .slice = (size_t)e};
    if (ss_load_is_format(loader, SS_GGUF)) {
        load_ffn(expert, loader, "layers.%d.mlp.experts", arch, (size_t)arch->F, slice);
        return;
    }
    snprintf(name, sizeof name, "layers.%%d.mlp.experts.%d", e);
    ss_load_llama_ffn(expert, loader, name, arch, (size_t)arch->F);
}

/* Loads the experts of a layer and, if arch has one, the shared expert. */
static void load_experts(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_experts(layer, loader, arch, "layers.%d.mlp.gate", false, ss_load_llama_expert);
    if (!arch->shared_F) return;
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp.shared_expert", arch,
                      (size_t)arch->shared_F);
    ss_load_linear(loader, &layer->shared_gate, "layers.%d.mlp.shared_expert_gate", false,
                   (size_t)arch->D, 1);
}

void ss_load_llama_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    if (arch->E && arch->dense[loader->layer])
        ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->dense_F);
    else if (arch->E)
        load_experts(layer, loader, arch);
    else
        ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->F);
}

void ss_load_llama_like_ends(ss_model *model, ss_loader *loader, const char *norm) {
    size_t D = (size_t)model->arch.D;
    ss_load_embeddings(loader, model, "embed_tokens", "lm_head");
    if (model->arch.positions == SS_POSITIONS_LEARNED)
        model->positions =
            ss_load_numbers(loader, "embed_positions.weight", (size_t)model->arch.context, D);
    if (!model->arch.post_norm) ss_load_llama_norm(loader, &model->norm, norm, &model->arch, D);
}

void ss_load_llama_ends(ss_model *model, ss_loader *loader) {
    ss_load_llama_like_ends(model, loader, "norm");
}
