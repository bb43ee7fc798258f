/*
 * Families: every config key is computed or refused by name, never ignored; and properties of the
 * features of families: windows, experts, steps.
 */
#include "model/families/family.h"
#include "model/rotary.h"
#include "traces.h"

#include <math.h>

/* ---- configs ------------------------------------------------------------------------------ */

static ss_status read_text(ss_arch *arch, const char *text, ss_error *err) {
    size_t n = strlen(text);
    unsigned char *copy = malloc(n + 1); /* a block of exact size with a final NUL, so that the
                                            sanitizers detect reads beyond it */
    if (!copy) exit(2);
    memcpy(copy, text, n);
    ss_status status = ss_arch_read(arch, (ss_bytes){copy, n}, err);
    free(copy);
    return status;
}

#define SIZES                                                                                      \
    "\"num_hidden_layers\":4,\"num_attention_heads\":2,\"hidden_size\":8,\"vocab_size\":8,"        \
    "\"num_key_value_heads\":2,\"intermediate_size\":8"
#define NEOX                                                                                       \
    "\"model_type\":\"gpt_neox\",\"num_hidden_layers\":4,\"num_attention_heads\":2,"               \
    "\"hidden_size\":16,\"intermediate_size\":8,\"vocab_size\":8"
#define NEO                                                                                        \
    "\"model_type\":\"gpt_neo\",\"num_layers\":4,\"num_heads\":2,\"hidden_size\":8,\"vocab_"       \
    "size\":8"
#define OPT                                                                                        \
    "\"model_type\":\"opt\",\"num_hidden_layers\":1,\"num_attention_heads\":2,\"hidden_size\":8,"  \
    "\"ffn_dim\":8,\"vocab_size\":8"
#define GPT_SIZES "\"n_layer\":1,\"n_head\":4,\"n_embd\":16,\"vocab_size\":8"
#define BIGCODE "\"model_type\":\"gpt_bigcode\"," GPT_SIZES
#define GPTJ "\"model_type\":\"gptj\",\"rotary_dim\":2," GPT_SIZES
#define CODEGEN "\"model_type\":\"codegen\",\"rotary_dim\":2," GPT_SIZES
#define MPT "\"model_type\":\"mpt\",\"n_layers\":1,\"n_heads\":2,\"d_model\":8,\"vocab_size\":8"
#define MPT_ATTENTION(keys) MPT ",\"attn_config\":{" keys "}"
#define LLAMA "\"model_type\":\"llama\"," SIZES
#define MISTRAL "\"model_type\":\"mistral\"," SIZES
#define MIXTRAL "\"model_type\":\"mixtral\"," SIZES
#define QWEN2 "\"model_type\":\"qwen2\"," SIZES
#define QWEN2_MOE "\"model_type\":\"qwen2_moe\"," SIZES
#define QWEN3 "\"model_type\":\"qwen3\"," SIZES
#define QWEN3_MOE "\"model_type\":\"qwen3_moe\"," SIZES
#define SMOLLM3 "\"model_type\":\"smollm3\"," SIZES
#define PHI "\"model_type\":\"phi\"," SIZES
#define PHI3 "\"model_type\":\"phi3\"," SIZES
#define GRANITE "\"model_type\":\"granite\"," SIZES
#define STABLELM "\"model_type\":\"stablelm\",\"partial_rotary_factor\":0.5," SIZES
#define STARCODER2 "\"model_type\":\"starcoder2\"," SIZES
#define SEED_OSS "\"model_type\":\"seed_oss\"," SIZES
#define ERNIE "\"model_type\":\"ernie4_5\"," SIZES
#define HELIUM "\"model_type\":\"helium\"," SIZES
#define OLMO "\"model_type\":\"olmo\"," SIZES
#define OLMO2 "\"model_type\":\"olmo2\"," SIZES
#define OLMO3 "\"model_type\":\"olmo3\"," SIZES
#define OLMOE "\"model_type\":\"olmoe\"," SIZES
#define GRANITEMOE "\"model_type\":\"granitemoe\"," SIZES
#define EXAONE4 "\"model_type\":\"exaone4\"," SIZES
#define COHERE "\"model_type\":\"cohere\"," SIZES
#define COHERE2 "\"model_type\":\"cohere2\"," SIZES
#define GLM "\"model_type\":\"glm\"," SIZES
#define GLM4 "\"model_type\":\"glm4\"," SIZES
#define NEMOTRON "\"model_type\":\"nemotron\"," SIZES
#define HUNYUAN "\"model_type\":\"hunyuan_v1_dense\"," SIZES
#define HUNYUAN_MOE "\"model_type\":\"hunyuan_v1_moe\"," SIZES
#define GEMMA "\"model_type\":\"gemma3_text\"," SIZES
#define PLAIN_ROPE ",\"rope_parameters\":{\"rope_type\":\"default\"}"
#define GEMMA1 "\"model_type\":\"gemma\"," SIZES
#define GEMMA2 "\"model_type\":\"gemma2\"," SIZES
#define GEMMA3 "\"model_type\":\"gemma3\""
#define FALCON                                                                                     \
    "\"model_type\":\"falcon\",\"num_hidden_layers\":1,\"num_attention_heads\":4,"                 \
    "\"hidden_size\":8,\"vocab_size\":8"
#define BLOOM                                                                                      \
    "\"model_type\":\"bloom\",\"n_layer\":1,\"n_head\":2,\"hidden_size\":8,\"vocab_size\":8"
#define OSS "\"model_type\":\"gpt_oss\"," SIZES PLAIN_ROPE
#define DEEPSEEK2 "\"model_type\":\"deepseek_v2\",\"num_experts_per_tok\":2," SIZES
#define DEEPSEEK3 "\"model_type\":\"deepseek_v3\"," SIZES
#define DOTS1                                                                                      \
    "\"model_type\":\"dots1\",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"                   \
    "\"n_shared_experts\":1," SIZES
#define GRANITE_SWA "\"model_type\":\"granite_swa\"," SIZES
#define MIMO                                                                                       \
    "\"model_type\":\"mimo_v2_flash\",\"num_hidden_layers\":7,\"num_attention_heads\":4,"          \
    "\"hidden_size\":8,\"vocab_size\":8,\"intermediate_size\":8,\"head_dim\":6"
#define GEMMA4 "\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0," SIZES
#define APERTUS "\"model_type\":\"apertus\"," SIZES
#define PHIMOE "\"model_type\":\"phimoe\"," SIZES
#define BERT "\"model_type\":\"bert\"," SIZES

#define ROPE_OF_WINDOWS "\"sliding_attention\":{\"rope_theta\":9}"

static void check_config(const char *text, ss_status status, const char *where) {
    char config[1024];
    snprintf(config, sizeof config, "{%s}", text);
    ss_arch arch;
    ss_error err = {0};
    ss_status actual = read_text(&arch, config, &err);
    if (actual != status || strcmp(err.where, where))
        printf("  %s: %s: %s\n", config, err.where, err.text);
    CHECK_INT((int)actual, (int)status);
    CHECK(!strcmp(err.where, where));
    if (status == SS_UNSUPPORTED) CHECK(strstr(err.text, "and open the recording") != NULL);
}

static void write_with_number(char *text, size_t size, const char *config, const char *key,
                              double value) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *place = strstr(config, name);
    size_t prefix_n = place ? (size_t)(place - config) : strlen(config);
    const char *suffix =
        place ? place + strlen(name) + strspn(place + strlen(name), "0123456789") : "";
    snprintf(text, size, "{%.*s%s%s%.17g%s}", (int)prefix_n, config, place ? "" : ",", name, value,
             suffix);
}

static void check_ranges(void) {
    CASE("a number out of range is refused with its limits");
    static const struct {
        const char *config, *key;
        double low, high;
    } table[] = {
        {LLAMA, "num_hidden_layers", 1, 1024},
        {LLAMA, "num_attention_heads", 1, 1024},
        {LLAMA, "num_key_value_heads", 1, 2},
        {LLAMA, "hidden_size", 1, 65536},
        {LLAMA, "head_dim", 1, 65536},
        {LLAMA, "intermediate_size", 1, 1048576},
        {LLAMA, "vocab_size", 1, 4194304},
        {LLAMA, "max_position_embeddings", 1, 16777216},
        {NEOX, "num_hidden_layers", 1, 1024},
        {NEOX, "num_attention_heads", 1, 1024},
        {NEOX, "hidden_size", 1, 65536},
        {NEOX, "intermediate_size", 1, 1048576},
        {NEOX, "vocab_size", 1, 4194304},
        {NEOX, "max_position_embeddings", 1, 16777216},
        {NEO, "num_layers", 1, 1024},
        {NEO, "num_heads", 1, 1024},
        {NEO, "vocab_size", 1, 4194304},
        {NEO, "window_size", 1, 16777216},
        {NEO, "intermediate_size", 1, 1048576},
        {NEO, "max_position_embeddings", 1, 16777216},
        {OPT, "ffn_dim", 1, 1048576},
        {OPT, "vocab_size", 1, 4194304},
        {OPT, "word_embed_proj_dim", 1, 65536},
        {OPT, "max_position_embeddings", 1, 16777216},
        {MISTRAL, "sliding_window", 1, 16777216},
        {MIXTRAL, "num_local_experts", 1, 1024},
        {MIXTRAL, "num_experts_per_tok", 1, 8},
        {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":4", "max_window_layers", 0,
         16777216},
        {QWEN2_MOE, "max_window_layers", 0, 16777216},
        {QWEN2_MOE, "num_experts", 1, 1024},
        {QWEN2_MOE, "num_experts_per_tok", 1, 60},
        {QWEN2_MOE, "moe_intermediate_size", 1, 1048576},
        {QWEN2_MOE, "shared_expert_intermediate_size", 1, 1048576},
        {QWEN2_MOE, "decoder_sparse_step", 1, 1024},
        {QWEN3_MOE, "num_experts", 1, 1024},
        {QWEN3_MOE, "num_experts_per_tok", 1, 128},
        {QWEN3_MOE, "moe_intermediate_size", 1, 1048576},
        {HUNYUAN_MOE, "num_experts", 1, 1024},
        {OLMOE, "num_experts", 1, 1024},
        {OLMOE, "num_experts_per_tok", 1, 64},
        {GRANITEMOE, "num_local_experts", 1, 1024},
        {GRANITEMOE, "num_experts_per_tok", 1, 8},
        {EXAONE4, "sliding_window_pattern", 1, 1024},
        {COHERE2, "sliding_window_pattern", 1, 1024},
        {GEMMA, "sliding_window", 1, 16777216},
        {GEMMA, "sliding_window_pattern", 1, 1024},
        {FALCON, "vocab_size", 1, 4194304},
        {FALCON, "ffn_hidden_size", 1, 1048576},
        {FALCON, "max_position_embeddings", 1, 16777216},
        {FALCON ",\"new_decoder_architecture\":true", "num_kv_heads", 1, 4},
        {BLOOM, "n_layer", 1, 1024},
        {BLOOM, "n_head", 1, 1024},
        {BLOOM, "vocab_size", 1, 4194304},
        {BLOOM, "seq_length", 1, 16777216},
        {OSS, "num_local_experts", 1, 1024},
        {OSS, "num_experts_per_tok", 1, 128},
        {BIGCODE, "n_positions", 1, 16777216},
        {GPTJ, "n_positions", 1, 16777216},
        {GPTJ, "n_inner", 1, 1048576},
        {MPT, "n_layers", 1, 1024},
        {MPT, "n_heads", 1, 1024},
        {MPT, "vocab_size", 1, 4194304},
        {MPT, "max_seq_len", 1, 16777216},
        {DEEPSEEK2, "q_lora_rank", 1, 65536},
        {DEEPSEEK2, "kv_lora_rank", 1, 65536},
        {DEEPSEEK2, "qk_rope_head_dim", 2, 32768},
        {DEEPSEEK2, "qk_nope_head_dim", 1, 32768},
        {DEEPSEEK2, "v_head_dim", 1, 65536},
        {DEEPSEEK2, "n_shared_experts", 1, 745},
        {DEEPSEEK2, "first_k_dense_replace", 0, 1024},
        {DEEPSEEK3, "topk_group", 1, 8},
        {DOTS1, "moe_intermediate_size", 1, 1048576},
        {MIMO ",\"num_key_value_heads\":2", "v_head_dim", 1, 65536},
        {PHIMOE, "num_local_experts", 2, 1024},
        {PHIMOE, "num_experts_per_tok", 2, 2},
        {BERT, "intermediate_size", 1, 1048576},
        {BERT, "vocab_size", 1, 4194304},
        {BERT, "max_position_embeddings", 1, 16777216},
        {BERT, "type_vocab_size", 1, 4194304},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double low = table[i].low, high = table[i].high;
        double values[] = {low, high, low - 1, high + 1, low + 0.5};
        for (int v = 0; v < 5; v++) {
            char text[1024], refusal[256];
            write_with_number(text, sizeof text, table[i].config, table[i].key, values[v]);
            snprintf(refusal, sizeof refusal,
                     "config.json: expected a whole number from %.10g to %.10g, found %.10g", low,
                     high, values[v]);
            ss_arch arch;
            ss_error err = {0};
            read_text(&arch, text, &err);
            bool is_refused = !strcmp(err.where, table[i].key) && !strcmp(err.text, refusal);
            if (check_failed(is_refused == (v > 1), __FILE__, __LINE__, "the range"))
                printf("    %s: %s: %s\n", text, err.where, err.text);
        }
    }
}

static void check_keys_refused_by_all(void) {
    CASE("in any family, keys that change the arithmetic are refused by name unless they are off");
    static const char gemma2[] = GEMMA2;
    static const char *const families[] = {
        NEOX,    NEO,   OPT,     LLAMA,     MISTRAL,  MIXTRAL,    QWEN2,    QWEN2_MOE,
        QWEN3,   GEMMA, OSS,     QWEN3_MOE, OLMO2,    OLMO3,      HUNYUAN,  HUNYUAN_MOE,
        FALCON,  BLOOM, BERT,    PHI3,      STABLELM, STARCODER2, SEED_OSS, ERNIE,
        OLMO,    OLMOE, EXAONE4, COHERE,    COHERE2,  GLM,        GLM4,     NEMOTRON,
        BIGCODE, GPTJ,  CODEGEN, MPT,       PHI,      gemma2};
    static const struct {
        const char *key, *enabled, *disabled;
    } keys[] = {
        {"attn_logit_softcapping", "50.0", "null"},
        {"final_logit_softcapping", "30.0", "null"},
        {"attention_chunk_size", "8192", "null"},
        {"use_mrope", "true", "false"},
        {"use_bidirectional_attention", "true", "null"},
        {"scale_attn_by_inverse_layer_idx", "true", "false"},
        {"add_cross_attention", "true", "false"},
        {"_remove_final_layer_norm", "true", "false"},
        {"per_layer_config", "{\"0\":{\"head_dim\":2}}", "null"},
        {"no_rope_layers", "[1, 0]", "[]"},
        {"rope_interleaved", "true", "false"},
        {"logits_scaling", "8.0", "1.0"},
        {"quantization_config", "{\"quant_method\":\"mxfp4\"}", "null"},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        check_config(families[f], SS_OK, "");
        /* Gemma 2 computes the first two of `keys`, the soft caps. */
        for (size_t k = families[f] == gemma2 ? 2 : 0; k < sizeof keys / sizeof *keys; k++) {
            char text[768];
            snprintf(text, sizeof text, "%s,\"%s\":%s", families[f], keys[k].key, keys[k].enabled);
            check_config(text, SS_UNSUPPORTED, keys[k].key);
            snprintf(text, sizeof text, "%s,\"%s\":%s", families[f], keys[k].key, keys[k].disabled);
            check_config(text, SS_OK, "");
        }
    }
}

static void check_quantized_configs(void) {
    CASE("of compressed-tensors, only I8 with a scale for each row is read, and all else is "
         "refused");
#define GROUP(weights, more) "\"config_groups\":{\"group_0\":{\"weights\":{" weights "}" more "}}"
#define BY_ROWS "\"num_bits\":8,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"channel\""
#define METHOD "\"quant_method\":\"compressed-tensors\","
#define FORMAT "\"format\":\"int-quantized\","
    static const char *const table[] = {
        METHOD FORMAT GROUP(BY_ROWS, ""), /* the only accepted quantization */
        METHOD FORMAT GROUP(BY_ROWS, ",\"input_activations\":{\"num_bits\":8}"),
        METHOD FORMAT GROUP("\"num_bits\":4,\"type\":\"int\",\"symmetric\":true,"
                            "\"strategy\":\"channel\"",
                            ""),
        METHOD FORMAT GROUP("\"num_bits\":8,\"type\":\"float\",\"symmetric\":true,"
                            "\"strategy\":\"channel\"",
                            ""),
        METHOD FORMAT GROUP("\"num_bits\":8,\"type\":\"int\",\"symmetric\":false,"
                            "\"strategy\":\"channel\"",
                            ""),
        METHOD FORMAT GROUP("\"num_bits\":8,\"type\":\"int\",\"symmetric\":true,"
                            "\"strategy\":\"tensor\"",
                            ""),
        METHOD "\"format\":\"pack-quantized\"," GROUP(BY_ROWS, ""),
        "\"quant_method\":\"gptq\"," FORMAT GROUP(BY_ROWS, ""),
        METHOD FORMAT "\"config_groups\":7",
        METHOD FORMAT "\"config_groups\":{\"group_0\":null}",
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[768];
        snprintf(text, sizeof text, LLAMA ",\"quantization_config\":{%s}", table[i]);
        check_config(text, i ? SS_UNSUPPORTED : SS_OK, i ? "quantization_config" : "");
    }
}

static void check_keys_refused_by_some(void) {
    CASE("unsupported and malformed config values are refused");
    static const struct {
        const char *text;
        ss_status status;
        const char *where;
    } table[] = {
        {NEOX ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {NEOX ",\"hidden_act\":\"gelu_fast\"", SS_OK, ""},
        {NEOX ",\"hidden_act\":null", SS_BAD_CONFIG, "hidden_act"},
        {NEOX ",\"rope_parameters\":{\"rope_theta\":null}", SS_BAD_CONFIG, "rope_theta"},
        {NEOX ",\"head_dim\":8", SS_OK, ""},
        {NEOX ",\"head_dim\":4", SS_UNSUPPORTED, "head_dim"},
        {NEOX ",\"layer_types\":[\"full_attention\"]", SS_UNSUPPORTED, "layer_types"},
        {LLAMA ",\"head_dim\":null", SS_OK, ""},
        {QWEN3 ",\"head_dim\":null", SS_BAD_CONFIG, "head_dim"},
        {BIGCODE ",\"hidden_size\":16,\"num_hidden_layers\":1", SS_OK, ""},
        {BIGCODE ",\"hidden_size\":32", SS_UNSUPPORTED, "hidden_size"},
        {BIGCODE ",\"num_hidden_layers\":\"1\"", SS_UNSUPPORTED, "num_hidden_layers"},
        {NEOX ",\"rotary_pct\":2", SS_BAD_CONFIG, "rotary_pct"},
        {NEOX ",\"rotary_pct\":0.4", SS_UNSUPPORTED, "head_dim"},
        {NEOX ",\"rotary_pct\":0", SS_OK, ""},
        {"\"model_type\":\"gpt_neox\",\"num_hidden_layers\":1,\"num_attention_heads\":3,"
         "\"hidden_size\":8,\"intermediate_size\":8,\"vocab_size\":8",
         SS_UNSUPPORTED, "num_attention_heads"},
        {NEO ",\"attention_types\":[[[\"global\",\"local\"],2]]", SS_OK, ""},
        {NEO ",\"attention_types\":[[[\"global\",\"local\"],1]]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"attention_types\":[[[\"global\",\"local\"],3]]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"attention_types\":[[[\"local\"],4]]", SS_OK, ""},
        {NEO ",\"attention_types\":[[[\"local\",\"local\",\"local\",\"local\"],5]]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"attention_types\":[[[\"global\",\"local\"],-7],[4,{}],\"x\"]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"attention_types\":[[[\"global\",\"sparse\"],2]]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"attention_layers\":[\"local\",\"local\",\"local\",7]", SS_UNSUPPORTED,
         "attention_types"},
        {NEO ",\"window_size\":0", SS_BAD_CONFIG, "window_size"},
        {NEO ",\"activation_function\":\"silu\"", SS_UNSUPPORTED, "activation_function"},
        {OPT ",\"do_layer_norm_before\":false", SS_OK, ""},
        {OPT ",\"layer_norm_elementwise_affine\":false", SS_UNSUPPORTED,
         "layer_norm_elementwise_affine"},
        {OPT ",\"word_embed_proj_dim\":4", SS_OK, ""},
        {OPT ",\"word_embed_proj_dim\":9", SS_UNSUPPORTED, "word_embed_proj_dim"},
        {OPT ",\"word_embed_proj_dim\":0", SS_BAD_CONFIG, "word_embed_proj_dim"},
        {OPT ",\"activation_function\":\"tanh\"", SS_UNSUPPORTED, "activation_function"},
        {MISTRAL ",\"sliding_window\":0", SS_BAD_CONFIG, "sliding_window"},
        {MISTRAL ",\"layer_types\":[\"full_attention\"]", SS_UNSUPPORTED, "layer_types"},
        {MIXTRAL ",\"num_experts_per_tok\":9", SS_BAD_CONFIG, "num_experts_per_tok"},
        {MIXTRAL ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}", SS_UNSUPPORTED, "head_dim"},
        {MIXTRAL ",\"num_local_experts\":1e9", SS_BAD_CONFIG, "num_local_experts"},
        {QWEN2 ",\"use_sliding_window\":1", SS_BAD_CONFIG, "use_sliding_window"},
        {QWEN2 ",\"layer_types\":[\"full_attention\"]", SS_UNSUPPORTED, "layer_types"},
        {QWEN2 ",\"layer_types\":\"full_attention\"", SS_UNSUPPORTED, "layer_types"},
        {QWEN2 ",\"layer_types\":[\"full_attention\",\"full_attention\",\"linear_attention\","
               "\"full_attention\"]",
         SS_UNSUPPORTED, "layer_types"},
        {QWEN2 ",\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\","
               "\"full_attention\"]",
         SS_UNSUPPORTED, "sliding_window"},
        {QWEN2_MOE ",\"decoder_sparse_step\":0", SS_BAD_CONFIG, "decoder_sparse_step"},
        {QWEN2_MOE ",\"mlp_only_layers\":0", SS_BAD_CONFIG, "mlp_only_layers"},
        {QWEN3 ",\"head_dim\":7", SS_UNSUPPORTED, "head_dim"},
        {QWEN3_MOE ",\"num_experts\":4,\"num_experts_per_tok\":5", SS_BAD_CONFIG,
         "num_experts_per_tok"},
        {SMOLLM3 ",\"no_rope_layers\":[1,1,1]", SS_UNSUPPORTED, "no_rope_layers"},
        {SMOLLM3 ",\"no_rope_layers\":[2]", SS_UNSUPPORTED, "no_rope_layers"},
        {SMOLLM3 ",\"no_rope_layers\":[\"1\"]", SS_UNSUPPORTED, "no_rope_layers"},
        {SMOLLM3 ",\"no_rope_layer_interval\":0", SS_BAD_CONFIG, "no_rope_layer_interval"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"longrope\"}", SS_BAD_CONFIG, "short_factor"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", SS_UNSUPPORTED, "rope_type"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[2,3],\"long_factor\":[4,5]}",
         SS_OK, ""},
        {PHI3 ",\"rope_scaling\":{\"type\":\"yarn\",\"short_factor\":[2],\"long_factor\":[4]}",
         SS_UNSUPPORTED, "short_factor"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[2,3],\"long_factor\":[4]}",
         SS_BAD_CONFIG, "long_factor"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[2,0],\"long_factor\":[4,5]}",
         SS_BAD_CONFIG, "short_factor"},
        {PHI3 ",\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[2,3],\"long_factor\":[4,5]},"
              "\"original_max_position_embeddings\":1",
         SS_BAD_CONFIG, "original_max_position_embeddings"},
        {PHI ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {PHI ",\"partial_rotary_factor\":0.25", SS_UNSUPPORTED, "head_dim"},
        {BIGCODE ",\"multi_query\":1", SS_BAD_CONFIG, "multi_query"},
        {BIGCODE ",\"activation_function\":\"silu\"", SS_UNSUPPORTED, "activation_function"},
        {GPTJ ",\"activation_function\":\"silu\"", SS_UNSUPPORTED, "activation_function"},
        {"\"model_type\":\"gptj\",\"rotary_dim\":3," GPT_SIZES, SS_UNSUPPORTED, "head_dim"},
        {"\"model_type\":\"gptj\",\"rotary_dim\":6," GPT_SIZES, SS_UNSUPPORTED, "rotary_dim"},
        {"\"model_type\":\"gptj\",\"rotary_dim\":0," GPT_SIZES, SS_BAD_CONFIG, "rotary_dim"},
        {"\"model_type\":\"gptj\"," GPT_SIZES, SS_UNSUPPORTED, "rotary_dim"},
        {"\"model_type\":\"codegen\",\"rotary_dim\":2,\"n_layer\":1,\"n_head\":2,\"n_embd\":8,"
         "\"vocab_size\":8",
         SS_UNSUPPORTED, "n_head"},
        {MPT ",\"attn_config\":null", SS_OK, ""},
        {MPT ",\"attn_config\":7", SS_BAD_CONFIG, "attn_config"},
        {MPT ",\"expansion_ratio\":2", SS_UNSUPPORTED, "expansion_ratio"},
        {MPT ",\"no_bias\":false", SS_UNSUPPORTED, "no_bias"},
        {MPT ",\"logit_scale\":\"inv_sqrt_d_model\"", SS_UNSUPPORTED, "logit_scale"},
        {MPT ",\"norm_type\":\"layernorm\"", SS_OK, ""},
        {MPT ",\"norm_type\":\"rmsnorm\"", SS_UNSUPPORTED, "norm_type"},
        {MPT_ATTENTION("\"clip_qkv\":0"), SS_BAD_CONFIG, "clip_qkv"},
        {MPT_ATTENTION("\"softmax_scale\":0"), SS_BAD_CONFIG, "softmax_scale"},
        {MPT_ATTENTION("\"alibi\":false"), SS_UNSUPPORTED, "alibi"},
        {MPT_ATTENTION("\"alibi_bias_max\":16"), SS_UNSUPPORTED, "alibi_bias_max"},
        {MPT_ATTENTION("\"prefix_lm\":true"), SS_UNSUPPORTED, "prefix_lm"},
        {MPT_ATTENTION("\"qk_ln\":true"), SS_UNSUPPORTED, "qk_ln"},
        {MPT_ATTENTION("\"rope\":true"), SS_UNSUPPORTED, "rope"},
        {MPT_ATTENTION("\"attn_type\":\"multiquery_attention\""), SS_UNSUPPORTED, "attn_type"},
        {GRANITE ",\"logits_scaling\":0", SS_BAD_CONFIG, "logits_scaling"},
        {GRANITE ",\"residual_multiplier\":-1", SS_BAD_CONFIG, "residual_multiplier"},
        {STABLELM ",\"head_dim\":2", SS_UNSUPPORTED, "head_dim"},
        {STARCODER2 ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {HELIUM, SS_UNSUPPORTED, "head_dim"},
        {OLMO ",\"clip_qkv\":8", SS_OK, ""},
        {OLMO ",\"clip_qkv\":0", SS_BAD_CONFIG, "clip_qkv"},
        {OLMO2 ",\"clip_qkv\":8", SS_UNSUPPORTED, "clip_qkv"},
        {OLMO3 ",\"layer_types\":[\"full_attention\"]", SS_UNSUPPORTED, "layer_types"},
        {OLMO3 PLAIN_ROPE, SS_UNSUPPORTED, "rope_parameters"},
        {OLMO3 ",\"partial_rotary_factor\":0.5", SS_UNSUPPORTED, "partial_rotary_factor"},
        {OLMO3 ",\"rope_scaling\":{\"type\":\"default\"},\"rope_parameters\":{\"full_attention\":{"
               "\"rope_type\":\"default\"}}",
         SS_UNSUPPORTED, "rope_scaling"},
        {LLAMA ",\"is_causal\":false", SS_OK, ""},
        {LLAMA ",\"is_causal\":1", SS_BAD_CONFIG, "is_causal"},
        {MISTRAL ",\"is_causal\":false", SS_UNSUPPORTED, "is_causal"},
        {GEMMA3 ",\"text_config\":{\"is_causal\":false}", SS_UNSUPPORTED, "is_causal"},
        {OLMO3 ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"dynamic\"}}",
         SS_BAD_CONFIG, "factor"},
        {OLMOE ",\"clip_qkv\":0", SS_BAD_CONFIG, "clip_qkv"},
        {OLMOE ",\"num_experts\":8,\"num_local_experts\":9", SS_UNSUPPORTED, "num_local_experts"},
        {OLMOE ",\"num_experts\":4,\"num_experts_per_tok\":5", SS_BAD_CONFIG,
         "num_experts_per_tok"},
        {GRANITEMOE ",\"attention_multiplier\":0", SS_BAD_CONFIG, "attention_multiplier"},
        {EXAONE4 ",\"sliding_window_pattern\":\"LLLG\"", SS_BAD_CONFIG, "sliding_window_pattern"},
        {EXAONE4 ",\"sliding_window_pattern\":\"LLLG\",\"layer_types\":[\"full_attention\","
                 "\"full_attention\",\"full_attention\",\"full_attention\"]",
         SS_OK, ""},
        {EXAONE4 ",\"sliding_window_pattern\":0,\"sliding_window\":null", SS_OK, ""},
        {COHERE ",\"use_qk_norm\":true", SS_UNSUPPORTED, "use_qk_norm"},
        {COHERE ",\"logit_scale\":0", SS_BAD_CONFIG, "logit_scale"},
        {COHERE ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}", SS_UNSUPPORTED,
         "partial_rotary_factor"},
        {COHERE2 ",\"sliding_window\":null", SS_UNSUPPORTED, "sliding_window"},
        {GLM ",\"head_dim\":6", SS_UNSUPPORTED, "head_dim"},
        {GLM4 ",\"rope_parameters\":{\"rope_type\":\"default\",\"mrope_section\":[2,3,3]}",
         SS_UNSUPPORTED, "mrope_section"},
        {NEMOTRON ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {NEMOTRON ",\"hidden_act\":\"xielu\"", SS_UNSUPPORTED, "hidden_act"},
        {HUNYUAN ",\"head_dim\":4,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", SS_OK, ""},
        {HUNYUAN ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", SS_UNSUPPORTED,
         "head_dim"},
        {HUNYUAN ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,\"alpha\":1e-9}",
         SS_UNSUPPORTED, "alpha"},
        {HUNYUAN ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":2}", SS_BAD_CONFIG, "factor"},
        {HUNYUAN ",\"rope_scaling\":{\"factor\":2,\"alpha\":2}", SS_UNSUPPORTED, "rope_type"},
        {LLAMA ",\"auto_map\":2", SS_BAD_CONFIG, "auto_map"},
        {LLAMA ",\"num_experts\":true", SS_BAD_CONFIG, "num_experts"},
        {HUNYUAN ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":\"2\"}", SS_BAD_CONFIG,
         "alpha"},
        {HUNYUAN ",\"rope_theta\":0,\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":2}",
         SS_BAD_CONFIG, "rope_theta"},
        {HUNYUAN_MOE ",\"num_experts\":[4,4,4,4],\"moe_topk\":[2,2,2,2]", SS_OK, ""},
        {HUNYUAN_MOE ",\"num_experts\":[4,4,4,2]", SS_UNSUPPORTED, "num_experts"},
        {HUNYUAN_MOE ",\"num_experts\":4,\"moe_topk\":[5]", SS_UNSUPPORTED, "moe_topk"},
        {GEMMA ",\"hidden_activation\":\"gelu_10\"", SS_UNSUPPORTED, "hidden_activation"},
        {GEMMA ",\"query_pre_attn_scalar\":0", SS_BAD_CONFIG, "query_pre_attn_scalar"},
        {GEMMA ",\"sliding_window_pattern\":0", SS_BAD_CONFIG, "sliding_window_pattern"},
        {GEMMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\"}}",
         SS_UNSUPPORTED, "rope_type"},
        {GEMMA ",\"rope_parameters\":{\"sliding_attention\":{\"partial_rotary_factor\":0.5}}",
         SS_UNSUPPORTED, "partial_rotary_factor"},
        {GEMMA2 ",\"attn_logit_softcapping\":50", SS_OK, ""},
        {GEMMA2 ",\"attn_logit_softcapping\":0", SS_BAD_CONFIG, "attn_logit_softcapping"},
        {GEMMA2 ",\"final_logit_softcapping\":\"30\"", SS_BAD_CONFIG, "final_logit_softcapping"},
        {GEMMA3, SS_UNSUPPORTED, "text_config"},
        {GEMMA3 ",\"text_config\":7", SS_BAD_CONFIG, "text_config"},
        {GEMMA3 ",\"text_config\":{}", SS_OK, ""},
        {GEMMA3 ",\"text_config\":{\"hidden_size\":0}", SS_BAD_CONFIG, "hidden_size"},
        {GEMMA3 ",\"text_config\":{\"attn_logit_softcapping\":50}", SS_UNSUPPORTED,
         "attn_logit_softcapping"},
        {FALCON ",\"alibi\":true", SS_UNSUPPORTED, "alibi"},
        {FALCON ",\"activation\":\"silu\"", SS_UNSUPPORTED, "activation"},
        {FALCON ",\"new_decoder_architecture\":true,\"num_kv_heads\":2", SS_OK, ""},
        {FALCON ",\"new_decoder_architecture\":true,\"num_kv_heads\":5", SS_BAD_CONFIG,
         "num_kv_heads"},
        {FALCON ",\"new_decoder_architecture\":true,\"num_kv_heads\":3", SS_UNSUPPORTED,
         "num_key_value_heads"},
        {FALCON ",\"new_decoder_architecture\":true,\"parallel_attn\":false", SS_UNSUPPORTED,
         "parallel_attn"},
        {BLOOM ",\"apply_residual_connection_post_layernorm\":true", SS_UNSUPPORTED,
         "apply_residual_connection_post_layernorm"},
        {"\"model_type\":\"bloom\",\"n_layer\":1,\"n_head\":3,\"hidden_size\":8,\"vocab_size\":8",
         SS_UNSUPPORTED, "n_head"},
        {BERT ",\"position_embedding_type\":\"absolute\"", SS_OK, ""},
        {BERT ",\"position_embedding_type\":\"relative_key\"", SS_UNSUPPORTED,
         "position_embedding_type"},
        {BERT ",\"is_decoder\":true", SS_UNSUPPORTED, "is_decoder"},
        {BERT ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {BERT ",\"type_vocab_size\":0", SS_BAD_CONFIG, "type_vocab_size"},
        {"\"model_type\":\"mamba\"", SS_UNSUPPORTED, "model_type"},
        {DEEPSEEK2 ",\"q_lora_rank\":null", SS_OK, ""},
        {"\"model_type\":\"deepseek_v2\",\"num_experts_per_tok\":2,\"num_hidden_layers\":4,"
         "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_size\":8,\"vocab_size\":8,"
         "\"intermediate_size\":8",
         SS_UNSUPPORTED, "num_key_value_heads"},
        {DEEPSEEK2 ",\"qk_rope_head_dim\":5", SS_UNSUPPORTED, "head_dim"},
        {DEEPSEEK2 ",\"qk_rope_head_dim\":6,\"head_dim\":6", SS_OK, ""},
        {DEEPSEEK2 ",\"qk_rope_head_dim\":6,\"head_dim\":8", SS_UNSUPPORTED, "head_dim"},
        {DEEPSEEK2 ",\"topk_method\":\"noaux_tc\"", SS_UNSUPPORTED, "topk_method"},
        {DEEPSEEK2 ",\"scoring_func\":\"sigmoid\"", SS_UNSUPPORTED, "scoring_func"},
        {DEEPSEEK2 ",\"norm_topk_prob\":true", SS_UNSUPPORTED, "norm_topk_prob"},
        {DEEPSEEK2 ",\"mlp_bias\":true", SS_UNSUPPORTED, "mlp_bias"},
        {DEEPSEEK2 ",\"moe_layer_freq\":2", SS_UNSUPPORTED, "moe_layer_freq"},
        {DEEPSEEK2 ",\"n_group\":5,\"topk_method\":\"group_limited_greedy\"", SS_UNSUPPORTED,
         "n_group"},
        {DEEPSEEK2 ",\"n_group\":64,\"topk_method\":\"group_limited_greedy\"", SS_UNSUPPORTED,
         "num_experts_per_tok"},
        {DEEPSEEK3 ",\"n_group\":256", SS_UNSUPPORTED, "n_group"},
        {DEEPSEEK3 ",\"num_experts_per_tok\":129", SS_UNSUPPORTED, "num_experts_per_tok"},
        {DEEPSEEK3 ",\"topk_method\":\"noaux_tc\",\"scoring_func\":\"sigmoid\"", SS_OK, ""},
        {DEEPSEEK3 ",\"topk_method\":\"greedy\"", SS_UNSUPPORTED, "topk_method"},
        {DEEPSEEK3 ",\"scoring_func\":\"softmax\"", SS_UNSUPPORTED, "scoring_func"},
        {DEEPSEEK3 ",\"rope_interleave\":0", SS_BAD_CONFIG, "rope_interleave"},
        {GEMMA1 ",\"hidden_act\":\"gelu\"", SS_OK, ""},
        {GEMMA1 ",\"head_dim\":null", SS_BAD_CONFIG, "head_dim"},
        {"\"model_type\":\"deepseek_v2\"," SIZES, SS_BAD_CONFIG, "num_experts_per_tok"},
        {"\"model_type\":\"dots1\"," SIZES, SS_BAD_CONFIG, "n_routed_experts"},
        {GRANITE_SWA ",\"layer_rope_theta\":[0,10,10,10]", SS_OK, ""},
        {GRANITE_SWA ",\"layer_rope_theta\":[0,10,20,10]", SS_UNSUPPORTED, "layer_rope_theta"},
        {GRANITE_SWA ",\"layer_rope_theta\":[0,10,0.5,10]", SS_UNSUPPORTED, "layer_rope_theta"},
        {GRANITE_SWA ",\"layer_rope_theta\":[0,10,\"10\",10]", SS_UNSUPPORTED, "layer_rope_theta"},
        {GRANITE_SWA ",\"layer_rope_theta\":[0,10,10]", SS_UNSUPPORTED, "layer_rope_theta"},
        {MIMO ",\"num_key_value_heads\":2", SS_OK, ""},
        {MIMO ",\"num_key_value_heads\":4", SS_UNSUPPORTED, "num_key_value_heads"},
        {MIMO ",\"num_key_value_heads\":4,\"sliding_window\":null", SS_OK, ""},
        {MIMO ",\"num_key_value_heads\":2,\"mlp_layer_types\":[\"dense\"]", SS_UNSUPPORTED,
         "mlp_layer_types"},
        {MIMO ",\"num_key_value_heads\":2,\"mlp_layer_types\":[1,1,1,1,1,1,1]", SS_UNSUPPORTED,
         "mlp_layer_types"},
        {MIMO ",\"num_key_value_heads\":2,\"rope_parameters\":{\"full_attention\":{"
              "\"rope_theta\":9,\"partial_rotary_factor\":0.5}," ROPE_OF_WINDOWS "}",
         SS_UNSUPPORTED, "partial_rotary_factor"},
        {MIMO ",\"rope_parameters\":{" ROPE_OF_WINDOWS "}", SS_BAD_CONFIG, "rope_parameters"},
        {GEMMA4 ",\"rope_parameters\":{" ROPE_OF_WINDOWS "}", SS_BAD_CONFIG, "rope_parameters"},
        {GEMMA4 ",\"rope_scaling\":{}", SS_UNSUPPORTED, "rope_scaling"},
        {MIMO ",\"num_key_value_heads\":2,\"rope_parameters\":{\"full_attention\":{"
              "\"rope_theta\":9,\"rope_type\":\"linear\",\"factor\":2}," ROPE_OF_WINDOWS "}",
         SS_UNSUPPORTED, "rope_type"},
        {"\"model_type\":\"gemma4_text\"," SIZES, SS_UNSUPPORTED, "hidden_size_per_layer_input"},
        {GEMMA4 ",\"num_kv_shared_layers\":1", SS_UNSUPPORTED, "num_kv_shared_layers"},
        {GEMMA4 ",\"enable_moe_block\":true", SS_UNSUPPORTED, "enable_moe_block"},
        {GEMMA4 ",\"use_bidirectional_attention\":\"vision\"", SS_OK, ""},
        {GEMMA4 ",\"use_bidirectional_attention\":\"all\"", SS_UNSUPPORTED,
         "use_bidirectional_attention"},
        {GEMMA4 ",\"global_head_dim\":7", SS_UNSUPPORTED, "head_dim"},
        {GEMMA4 ",\"per_layer_config\":{\"3\":{\"head_dim\":6}}", SS_OK, ""},
        {GEMMA4 ",\"per_layer_config\":{\"0\":{\"head_dim\":6}}", SS_UNSUPPORTED,
         "per_layer_config"},
        {GEMMA4 ",\"per_layer_config\":{\"3\":[6]}", SS_BAD_CONFIG, "3"},
        {GEMMA4 ",\"per_layer_config\":{\"3\":{\"intermediate_size\":6}}", SS_UNSUPPORTED,
         "per_layer_config"},
        {GEMMA4 ",\"attention_k_eq_v\":true,\"num_global_key_value_heads\":1", SS_OK, ""},
        {LLAMA ",\"rope_scaling\":{\"rope_type\":\"proportional\"}", SS_UNSUPPORTED, "rope_type"},
        {APERTUS ",\"hidden_act\":\"gelu\"", SS_OK, ""},
        {APERTUS ",\"hidden_act\":\"silu\"", SS_UNSUPPORTED, "hidden_act"},
        {LLAMA ",\"hidden_act\":\"xielu\"", SS_UNSUPPORTED, "hidden_act"},
        {PHIMOE ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}", SS_UNSUPPORTED,
         "rope_type"},
        {PHIMOE ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"short_factor\":[2,3],"
                "\"long_factor\":[4,5],\"long_mscale\":1.2}",
         SS_BAD_CONFIG, "short_mscale"},
        {OSS ",\"hidden_act\":\"gelu\"", SS_UNSUPPORTED, "hidden_act"},
        {"\"model_type\":\"gpt_oss\"," SIZES, SS_OK, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_config(table[i].text, table[i].status, table[i].where);
}

static void check_few_experts(void) {
    CASE("a default number of experts of a token that a layer does not have is refused");
    check_config(MIXTRAL ",\"num_local_experts\":1", SS_UNSUPPORTED, "num_experts_per_tok");
    check_config(MIXTRAL ",\"num_local_experts\":2", SS_OK, "");
    check_config(QWEN2_MOE ",\"num_experts\":1", SS_UNSUPPORTED, "num_experts_per_tok");
}

static void check_another_family(void) {
    CASE("the error for an unknown family begins with its name and says how to record it");
    static const char type[] = "a_model_type_of_more_than_forty_characters_in_all";
    char config[128];
    snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", type);
    ss_arch arch;
    ss_error err;
    CHECK_INT((int)read_text(&arch, config, &err), SS_UNSUPPORTED);
    CHECK_TEXT(
        err.text,
        "config.json: this build cannot run a_model_type_of_more_than_forty_characte; record "
        "it with the Python package and open the recording (`describe` lists the families "
        "that run)");
}

static void check_experts_of_a_token(void) {
    CASE("gpt_oss: without a key for their number, a token uses four experts, or all if there are "
         "fewer");
    static const struct {
        const char *keys;
        int top_k;
    } table[] = {{"\"num_local_experts\":8", 4},
                 {"\"num_local_experts\":3", 3},
                 {"\"num_local_experts\":8,\"experts_per_token\":2", 2},
                 {"\"num_local_experts\":8,\"experts_per_token\":2,\"num_experts_per_tok\":5", 5}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[512];
        ss_arch arch;
        ss_error err;
        snprintf(text, sizeof text, "{" OSS ",%s}", table[i].keys);
        must(ss_arch_read(&arch, (ss_bytes){(const unsigned char *)text, strlen(text)}, &err), &err,
             table[i].keys);
        CHECK_INT(arch.top_k, table[i].top_k);
    }
}

static void check_rotary_configs(void) {
    CASE("rotary scaling: types and keys that change the frequencies are computed or refused");
    static const struct {
        const char *object;
        ss_status status;
        const char *where;
    } table[] = {
        {"{\"rope_type\":\"linear\",\"factor\":2}", SS_OK, ""},
        {"{\"rope_type\":\"linear\"}", SS_BAD_CONFIG, "factor"},
        {"{\"rope_type\":\"linear\",\"factor\":0}", SS_BAD_CONFIG, "factor"},
        {"{\"rope_type\":\"linear\",\"factor\":\"2\"}", SS_BAD_CONFIG, "factor"},
        {"{\"type\":\"su\",\"factor\":2}", SS_UNSUPPORTED, "rope_type"},
        {"{\"rope_type\":\"longrope\",\"factor\":2}", SS_BAD_CONFIG, "short_factor"},
        {"{\"rope_type\":\"dynamic\",\"factor\":2}", SS_OK, ""},
        {"{\"rope_type\":\"llama3\",\"factor\":8}", SS_BAD_CONFIG, "low_freq_factor"},
        {"{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4}",
         SS_UNSUPPORTED, "high_freq_factor"},
        {"{\"rope_type\":\"yarn\",\"factor\":4,\"finetuned\":true}", SS_OK, ""},
        {"{\"rope_type\":\"yarn\",\"factor\":4,\"alpha\":1.0}", SS_UNSUPPORTED, "alpha"},
        {"{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":-1}", SS_BAD_CONFIG, "beta_fast"},
        {"{\"rope_type\":\"yarn\",\"factor\":4,\"rope_theta\":1}", SS_UNSUPPORTED, "rope_theta"},
        {"{\"rope_type\":\"default\",\"mrope_section\":[2,3,3]}", SS_UNSUPPORTED, "mrope_section"},
        {"{\"rope_type\":\"default\",\"mrope_section\":null}", SS_OK, ""},
        {"{\"full_attention\":{\"rope_type\":\"default\"}}", SS_UNSUPPORTED, "full_attention"},
        {"{\"partial_rotary_factor\":0.5}", SS_UNSUPPORTED, "partial_rotary_factor"},
        {"[]", SS_BAD_CONFIG, "rope_parameters"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[512];
        snprintf(text, sizeof text, LLAMA ",\"rope_parameters\":%s", table[i].object);
        check_config(text, table[i].status, table[i].where);
    }
}

/* Checks the windows of layers: "512." means a window of 512 in the first layer and none in the
 * second. */
static void check_windows(const char *text, const char *expected) {
    char config[1024], actual[64];
    ss_arch arch;
    ss_error err;
    size_t actual_n = 0;
    snprintf(config, sizeof config, "{%s}", text);
    must(read_text(&arch, config, &err), &err, config);
    for (int l = 0; l < arch.L; l++) {
        int window = ss_arch_window(&arch, l);
        actual_n +=
            window ? (size_t)snprintf(actual + actual_n, sizeof actual - actual_n, "%d", window)
                   : (size_t)snprintf(actual + actual_n, sizeof actual - actual_n, ".");
    }
    if (strcmp(actual, expected)) printf("  %s: %s, not %s\n", config, actual, expected);
    CHECK(!strcmp(actual, expected));
}

static void check_windows_of_layers(void) {
    CASE("each family gives the right layers a window, of the right width");
    check_windows(LLAMA ",\"sliding_window\":7", "....");
    check_windows(MISTRAL ",\"sliding_window\":7", "7777");
    check_windows(MISTRAL ",\"sliding_window\":null", "....");
    check_windows(MISTRAL, "4096409640964096");
    check_windows(MIXTRAL, "....");
    check_windows(NEO ",\"window_size\":5", ".5.5");
    check_windows(NEO ",\"window_size\":5,\"attention_types\":[[[\"local\"],3],[[\"global\"],1]]",
                  "555.");
    check_windows(QWEN2 ",\"sliding_window\":7,\"max_window_layers\":1", "....");
    check_windows(QWEN2 ",\"sliding_window\":7,\"max_window_layers\":1,\"use_sliding_window\":true",
                  ".777");
    check_windows(QWEN2_MOE ",\"sliding_window\":7,\"use_sliding_window\":true", "7.7.");
    check_windows(GEMMA ",\"sliding_window\":7,\"sliding_window_pattern\":2", "7.7.");
    check_windows(GEMMA ",\"sliding_window\":7,\"layer_types\":[\"full_attention\","
                        "\"full_attention\",\"full_attention\",\"sliding_attention\"]",
                  "...7");
    check_windows(OSS, "128.128.");
    check_windows(GRANITE_SWA, ".128128128");
    check_windows(DOTS1 ",\"max_window_layers\":2,\"sliding_window\":7", "..77");
    check_windows(GEMMA4 ",\"sliding_window\":7", "777.");
    check_windows(GEMMA4
                  ",\"sliding_window\":7,\"layer_types\":[\"full_attention\",\"sliding_attention\","
                  "\"full_attention\",\"sliding_attention\"]",
                  ".7..");
    check_windows(MIMO ",\"num_key_value_heads\":2,\"sliding_window\":7", ".7777.7");
    check_windows(PHIMOE ",\"sliding_window\":7", "7777");
    static const char *const typed_configs[] = {QWEN2, QWEN2_MOE, QWEN3,   OLMO3,  OSS,
                                                GEMMA, GEMMA2,    EXAONE4, COHERE2};
    for (size_t i = 0; i < sizeof typed_configs / sizeof *typed_configs; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "%s,\"sliding_window\":7,\"use_sliding_window\":true,\"layer_types\":["
                 "\"full_attention\",\"sliding_attention\",\"sliding_attention\","
                 "\"full_attention\"]",
                 typed_configs[i]);
        check_windows(text, ".77.");
    }
    check_windows(QWEN3_MOE ",\"sliding_window\":7", "....");
    check_windows(QWEN3_MOE ",\"sliding_window\":7,\"use_sliding_window\":true", "7777");
    check_windows(OLMO2, "....");
    check_windows(OLMO3 ",\"sliding_window\":7", "777.");
    check_windows(OLMO3 ",\"sliding_window\":null", "....");
    check_windows(EXAONE4 ",\"sliding_window\":7", "777.");
    check_windows(EXAONE4 ",\"sliding_window\":null", "....");
    check_windows(COHERE2 ",\"sliding_window\":7,\"sliding_window_pattern\":2", "7.7.");
}

/* Checks which layers rotate queries and keys: "r." means that the first layer does and the second
 * does not. */
static void check_rotations(const char *text, const char *expected) {
    char config[1024], actual[8] = "";
    ss_arch arch;
    ss_error err;
    snprintf(config, sizeof config, "{%s}", text);
    must(read_text(&arch, config, &err), &err, config);
    for (int l = 0; l < 4; l++) actual[l] = ss_arch_rotates(&arch, l) ? 'r' : '.';
    CHECK_TEXT(actual, expected);
}

static void check_rotations_of_layers(void) {
    CASE("in families that mix windowed and full attention, the layers with full attention do not "
         "rotate");
#define TYPES                                                                                      \
    ",\"sliding_window\":7,\"layer_types\":[\"full_attention\",\"sliding_attention\","             \
    "\"sliding_attention\",\"full_attention\"]"
    check_rotations(COHERE, "rrrr");
    check_rotations(COHERE2, "rrr.");
    check_rotations(COHERE2 TYPES, ".rr.");
    check_rotations(EXAONE4, "rrr.");
    check_rotations(EXAONE4 TYPES, ".rr.");
    check_rotations(EXAONE4 ",\"sliding_window\":null", "rrrr");
    check_rotations(OLMO3 TYPES, "rrrr");
    check_rotations(GRANITE_SWA, "rrrr");
    check_rotations(GRANITE_SWA ",\"layer_rope_theta\":[0,10,0,10]", ".r.r");
}

/* ---- models ------------------------------------------------------------------------------- */

#define T_MAX 20
static const int32_t prompt[T_MAX] = {3, 14, 15, 9, 26, 5, 35, 8, 9,  7,
                                      9, 32, 38, 4, 6,  2, 6,  4, 33, 8};

static const char *const folders[] = {
    "hf-gpt_neox",
    "hf-gpt_neox-serial",
    "hf-gpt_neo",
    "hf-opt",
    "hf-opt-bare",
    "hf-mistral",
    "hf-qwen2",
    "hf-qwen2-window",
    "hf-qwen3",
    "hf-gemma3",
    "hf-gemma3-types",
    "hf-gpt_oss",
    "hf-mixtral",
    "hf-qwen2_moe",
    "hf-qwen2_moe-norm",
    "hf-llama-linear",
    "hf-llama-llama3",
    "hf-qwen3_moe",
    "hf-olmo2",
    "hf-olmo3",
    "hf-olmo3-types",
    "hf-hunyuan",
    "hf-hunyuan_moe",
    "hf-opt-350m",
    "hf-falcon",
    "hf-falcon-groups",
    "hf-falcon-serial",
    "hf-bloom",
    "hf-bloom-bare",
    "hf-gemma2",
    "hf-gemma2-plain",
    "hf-gemma3-whole",
    "hf-smollm3",
    "hf-phi3",
    "hf-granite",
    "hf-stablelm",
    "hf-stablelm-parallel",
    "hf-starcoder2",
    "hf-seed_oss",
    "hf-ernie4_5",
    "hf-helium",
    "hf-olmo",
    "hf-olmoe",
    "hf-granitemoe",
    "hf-exaone4",
    "hf-exaone4-global",
    "hf-cohere",
    "hf-cohere2",
    "hf-glm",
    "hf-glm4",
    "hf-nemotron",
    "hf-olmo-clip",
    "hf-phi",
    "hf-gptj",
    "hf-codegen",
    "hf-gpt_bigcode",
    "hf-gpt_bigcode-heads",
    "hf-mpt",
    "hf-mpt-bare",
    "hf-deepseek_v2",
    "hf-deepseek_v2-greedy",
    "hf-deepseek_v3",
    "hf-dots1",
    "hf-granite_swa",
    "hf-granite_swa-types",
    "hf-gemma4",
    "hf-gemma4-narrow",
    "hf-mimo_v2_flash",
    "hf-mimo_v2_flash-types",
    "hf-apertus",
    "hf-phimoe",
    "hf-gemma",
    "hf-phi3-long",
    "hf-phimoe-long",
    "hf-llama-dynamic",
    "hf-stablelm-norms",
    "hf-phi-norms",
    "hf-qwen3_moe-dense",
    "hf-olmoe-clip",
    "hf-deepseek_v3-halves",
    "hf-bert",
    "hf-bert-bare",
    "hf-bert-old",
    "hf-bert-untied", /* the encoders come after all decoders */
    "hf-llama-bidirectional",
};
#define FOLDERS (sizeof folders / sizeof *folders)
#define ENCODERS 5
#define DECODERS (FOLDERS - ENCODERS)

static const char *path_of(const char *folder) {
    static char path[128];
    snprintf(path, sizeof path, "tests/golden/%s", folder);
    return path;
}

typedef struct opened_folder {
    opened_model model;
    opened_run run;
} opened_folder;

static opened_folder *open_folder(const char *folder) {
    opened_folder *opened =
        malloc(sizeof *opened); /* allocated, since the run keeps the model's address */
    if (!opened) exit(2);
    opened->model = open_model(path_of(folder));
    opened->run = run_tokens(&opened->model.model, prompt, T_MAX, NULL, 0);
    return opened;
}

static void close_folder(opened_folder *opened) {
    close_run(&opened->run);
    close_model(&opened->model);
    free(opened);
}

static void check_steps_are_prompts(void) {
    CASE("token by token, every decoder gives the bits of a run of the whole prompt");
    for (size_t f = 0; f < DECODERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *prompt_trace = &opened->run.run.trace;
        ss_run_desc desc = {prompt_trace->model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
        opened_run stepped_run = open_run(&desc);
        CHECK_INT(stepped_run.arena.used == stepped_run.arena.bytes, 1);
        ss_error err;
        for (int t = 0; t < T_MAX; t++)
            must(ss_run_extend(&stepped_run.run, prompt + t, 1, &err), &err, "step");
        for (int field = 0; field < SS_FIELD_N; field++) {
            ss_tensor a, b;
            if (!(prompt_trace->fields & SS_BIT(field)) || field == SS_FIELD_LOSS) continue;
            must(ss_trace_view(&a, prompt_trace, field, -1, -1, &err), &err, "view");
            must(ss_trace_view(&b, &stepped_run.run.trace, field, -1, -1, &err), &err, "view");
            CHECK_BITS(b.data, a.data, 4 * ss_tensor_count(&a));
        }
        close_run(&stepped_run);
        close_folder(opened);
    }
}

static void check_kept_panels(void) {
    CASE("weights kept as panels give the same bits in every family");
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *reference = &opened->run.run.trace;
        ss_model *model = &opened->model.model;
        ss_arena measure = ss_arena_measure();
        ss_model_keep_panels(model, &measure);
        bool has_head = model->head.w.data != NULL;
        CHECK(!model->head.w.panels && !model->layers[0].q.w.panels);
        ss_arena arena = arena_of(measure.used);
        ss_model_keep_panels(model, &arena);
        CHECK(model->layers[0].q.w.panels && arena.used == arena.bytes);
        CHECK_INT(model->head.w.panels != NULL, has_head);
        check_steps(reference, prompt, T_MAX, T_MAX);
        if (f < DECODERS) check_steps(reference, prompt, T_MAX, 1);
        close_folder(opened);
        free(arena.block);
    }
}

static void check_interleaved_weights(void) {
    CASE("weights interleaved in place give the same bits in every family");
    int tied_n = 0;
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *reference = &opened->run.run.trace;
        ss_model *model = &opened->model.model;
        float *work = malloc(ss_model_interleave_work(model) * sizeof *work);
        if (!work) abort();
        ss_model_interleave(model, work);
        CHECK(model->layers[0].o.w.interleaved);
        tied_n += model->embedding.w.interleaved;
        check_steps(reference, prompt, T_MAX, T_MAX);
        if (f < DECODERS) check_steps(reference, prompt, T_MAX, 1);
        close_folder(opened);
        free(work);
    }
    CHECK(tied_n > 0);
}

static void check_windows_hide_keys(void) {
    CASE("a query of a windowed layer gives exact zeros to keys outside, and sums to 1 inside");
    int windowed_n = 0;
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        bool are_hidden = true, are_visible = true;
        for (int l = 0; l < arch->L; l++)
            for (int h = 0; h < arch->H; h++)
                for (int t = 0; t < T_MAX; t++) {
                    const float *row = att_row(trace, l, h, t);
                    int window = ss_arch_window(arch, l), first = window ? t + 1 - window : 0;
                    int end = arch->prefix ? T_MAX : t + 1;
                    for (int j = 0; j < T_MAX; j++)
                        if (j < first || j >= end)
                            are_hidden &= row[j] == 0.0f;
                        else
                            are_visible &= row[j] > 0.0f;
                    windowed_n += first > 0;
                }
        CHECK(are_hidden);
        CHECK(are_visible);
        close_folder(opened);
    }
    CHECK(windowed_n > 100);
}

/* Checks a field in layers of different sizes: rows of key/value heads that a layer does not have
 * are NaN, and numbers beyond the layer's own width are 0. */
static void check_field_sizes(const ss_trace *trace, ss_field_id field, int a, int width) {
    const ss_arch *arch = &trace->model->arch;
    for (int g = 0; g < arch->G; g++)
        for (int t = 0; t < T_MAX; t++) {
            const float *row = ss_row(trace, field, a * arch->G + g, t);
            for (size_t i = 0; i < trace->widths[field]; i++)
                if (g >= ss_arch_sizes(arch, a).G)
                    CHECK(isnan(row[i]));
                else
                    CHECK((row[i] == 0.0f) == ((int)i >= width));
        }
}

/* Checks the fields of a run whose memory was zero before; the arenas of other tests are filled
 * with NaN. */
static void check_sizes_in_zeroed_memory(const ss_model *model) {
    ss_run_desc desc = {model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    ss_error err;
    ss_run run;
    size_t bytes;
    must(ss_run_size(&bytes, &desc, &err), &err, "size");
    ss_arena arena = arena_of(bytes);
    memset(arena.block, 0, bytes);
    must(ss_run_init(&run, &desc, &arena, &err), &err, "init");
    must(ss_run_extend(&run, prompt, T_MAX, &err), &err, "extend");
    for (int a = 0; a < model->arch.L; a++) {
        check_field_sizes(&run.trace, SS_FIELD_K, a, ss_arch_sizes(&model->arch, a).K);
        check_field_sizes(&run.trace, SS_FIELD_V, a, ss_arch_sizes(&model->arch, a).U);
    }
    free(arena.block);
}

static void check_sizes_of_layers(void) {
    CASE("layers may have fewer or narrower key/value heads: absent heads are NaN, absent "
         "dimensions 0");
    static const char *const uneven_folders[] = {"hf-mimo_v2_flash", "hf-mimo_v2_flash-types",
                                                 "hf-gemma4", "hf-gemma4-narrow"};
    static const char *const metrics[] = {"key_norm", "value_norm", "key_ratio", "value_ratio"};
    int absent_n = 0;
    for (size_t f = 0; f < sizeof uneven_folders / sizeof *uneven_folders; f++) {
        opened_folder *opened = open_folder(uneven_folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        check_sizes_in_zeroed_memory(trace->model);
        for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
            size_t count;
            float *numbers = measure(trace, metrics[m], 0.3f, 0, 0, 0, &count);
            size_t row_numbers = count / (size_t)(arch->L * arch->G);
            for (size_t i = 0; i < count; i++) {
                int row = (int)(i / row_numbers), a = row / arch->G;
                bool is_absent = row % arch->G >= ss_arch_sizes(arch, a).G;
                CHECK_INT(isnan(numbers[i]), is_absent);
                absent_n += is_absent;
            }
            free(numbers);
        }
        close_folder(opened);
    }
    CHECK(absent_n > 100);
}

static void check_routers(void) {
    CASE("a token uses the number of experts and the weights that the config states");
    static const struct {
        const char *folder;
        int top_k;
        bool sums_to_1;
    } table[] = {{"hf-mixtral", 2, true},    {"hf-gpt_oss", 2, true},
                 {"hf-qwen2_moe", 3, false}, {"hf-qwen2_moe-norm", 3, true},
                 {"hf-qwen3_moe", 3, true},  {"hf-hunyuan_moe", 2, true},
                 {"hf-olmoe", 3, false},     {"hf-granitemoe", 2, true}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        opened_folder *opened = open_folder(table[i].folder);
        ss_tensor view;
        ss_error err;
        must(ss_trace_view(&view, &opened->run.run.trace, SS_FIELD_ROUTER, 1, -1, &err), &err,
             "router");
        CHECK_INT(view.rank, 2);
        CHECK_INT(view.dims[0] == T_MAX && view.dims[1] == 5, 1);
        for (size_t t = 0; t < T_MAX; t++) {
            const float *row = (const float *)view.data + t * view.strides[0];
            int experts = 0;
            float sum = 0.0f;
            for (int e = 0; e < 5; e++) {
                experts += row[e] > 0.0f;
                sum += row[e];
            }
            CHECK_INT(experts, table[i].top_k);
            if (table[i].sums_to_1)
                CHECK_NEAR(sum, 1.0, 1e-6);
            else
                CHECK(sum < 1.0f);
        }
        close_folder(opened);
    }
    CASE("equal router weights select the first experts");
    opened_model equal_model = open_model(path_of("hf-mixtral"));
    for (int l = 0; l < equal_model.model.arch.L; l++) {
        const ss_matrix *router = &equal_model.model.layers[l].router.w;
        memset((void *)(size_t)router->data, 0,
               router->out * ss_dtype_bytes(router->type, router->in));
    }
    opened_run equal_run = run_tokens(&equal_model.model, prompt, T_MAX, NULL, 0);
    const float halves[5] = {0.5f, 0.5f};
    for (int t = 0; t < T_MAX; t++)
        CHECK_BITS(ss_row(&equal_run.run.trace, SS_FIELD_ROUTER, 0, t), halves, sizeof halves);
    close_run(&equal_run);
    close_model(&equal_model);
    CASE("reading the router of a model without experts is refused with that reason");
    opened_folder *dense_folder = open_folder("hf-qwen3");
    ss_tensor view;
    ss_error err;
    CHECK_INT(
        (int)ss_trace_view(&view, &dense_folder->run.run.trace, SS_FIELD_ROUTER, -1, -1, &err),
        SS_BAD_REQUEST);
    CHECK(strstr(err.text, "experts") != NULL && !strcmp(err.where, "router"));
    close_folder(dense_folder);
}

static void check_encoders(void) {
    CASE(
        "an encoder predicts no next token; without a head its logits are NaN, and one is sampled");
    for (size_t f = DECODERS; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        bool has_head = trace->model->head.w.data != NULL;
        CHECK_INT(has_head, strcmp(folders[f], "hf-bert-bare") != 0);
        CHECK(!strcmp(ss_mask_name(arch), "bidirectional"));
        for (int t = 0; t < T_MAX; t++) {
            CHECK(isnan(ss_floats(trace, SS_FIELD_LOSS)[t]));
            CHECK(isnan(ss_floats(trace, SS_FIELD_RANK)[t]));
            CHECK_INT(isnan(ss_row(trace, SS_FIELD_LOGITS, 0, t)[t]), !has_head);
        }
        int token = ss_run_sample(&opened->run.run, 0.8f, 5, 1u << 31);
        CHECK(token >= 0 && token < arch->V);
        float *loss = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
        float *accuracy = measure(trace, "accuracy", 0.3f, 0, 0, 0, NULL);
        float *uniform = measure(trace, "alpha_uniform", 0.3f, 0, 0, 0, NULL);
        CHECK(isnan(*loss) && isnan(*accuracy));
        CHECK_NEAR(uniform[0], 1.0 / T_MAX, 1e-7);
        free(loss);
        free(accuracy);
        free(uniform);
        close_folder(opened);
    }
}

/* ---- every config key changes the numbers ------------------------------------------------- */

static ss_bytes replace_text(ss_bytes bytes, const char *old_text, const char *new_text) {
    size_t n = strlen(old_text), m = strlen(new_text), offset = 0;
    while (offset + n <= bytes.n && memcmp(bytes.data + offset, old_text, n)) offset++;
    if (offset + n > bytes.n) {
        printf("%s is not in the file\n", old_text);
        exit(2);
    }
    unsigned char *copy = malloc(bytes.n - n + m);
    if (!copy) exit(2);
    memcpy(copy, bytes.data, offset);
    memcpy(copy + offset, new_text, m);
    memcpy(copy + offset + m, bytes.data + offset + n, bytes.n - offset - n);
    return (ss_bytes){copy, bytes.n - n + m};
}

/* Computes the logits [V] of the prompt's last token under a config, with V at most 64; returns
 * false if the file has biases that the config excludes. */
static bool logits_of(float *out, const char *folder, ss_bytes config) {
    ss_arch arch;
    ss_error err;
    must(ss_arch_read(&arch, config, &err), &err, folder);
    opened_model model = {.weights = open_file(folder, weights_name(folder))};
    ss_status status = try_model(&model, &arch, &err);
    if (status == SS_UNSUPPORTED) {
        CHECK(strstr(err.where, "bias") && strstr(err.text, "of this config reads"));
        close_model(&model);
        return false;
    }
    must(status, &err, folder);
    opened_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    memcpy(out, ss_floats(&run.run.trace, SS_FIELD_NEXT), (size_t)arch.V * sizeof *out);
    close_run(&run);
    close_model(&model);
    return true;
}

static ss_status read_object(ss_arch *arch, const cJSON *config, ss_error *err) {
    char *text = cJSON_PrintUnformatted(config);
    ss_status status = ss_arch_read(arch, (ss_bytes){(unsigned char *)text, strlen(text)}, err);
    cJSON_free(text);
    return status;
}

/* Checks that YaRN scales from max_position_embeddings if the config has no original context. */
static void check_yarn_context(const cJSON *original, const cJSON *context, const char *family) {
    cJSON *config = cJSON_Duplicate(original, true), *rope = cJSON_CreateObject();
    cJSON_AddStringToObject(rope, "rope_type", "yarn");
    cJSON_AddNumberToObject(rope, "factor", 2.0);
    cJSON_AddItemToObject(config, "rope_scaling", rope);
    ss_arch a, b;
    ss_error err;
    CHECK_INT((int)read_object(&a, config, &err), SS_OK);
    cJSON_AddItemToObject(config, "max_position_embeddings", cJSON_Duplicate(context, true));
    CHECK_INT((int)read_object(&b, config, &err), SS_OK);
    if (check_failed(!memcmp(&a, &b, sizeof a), __FILE__, __LINE__, "the context of transformers"))
        printf("    %s\n", family);
    cJSON_Delete(config);
}

static void check_yarn_bounds(void) {
    CASE(
        "YaRN's ramp ends at the first and last pair, and is rounded to pairs, as in transformers");
    ss_bytes text = read_file("tests/golden", "yarn.json");
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.n);
    const cJSON *golden;
    cJSON_ArrayForEach(golden, cJSON_GetObjectItem(root, "cases")) {
        ss_rotary rotary = {
            .base = cJSON_GetObjectItem(golden, "rope_theta")->valuedouble,
            .part = 1.0,
            .scaling = SS_ROPE_YARN,
            .factor = cJSON_GetObjectItem(root, "factor")->valuedouble,
            .original_context =
                cJSON_GetObjectItem(golden, "original_max_position_embeddings")->valuedouble,
            .low = cJSON_GetObjectItem(golden, "beta_slow")->valuedouble,
            .high = cJSON_GetObjectItem(golden, "beta_fast")->valuedouble,
            .truncate = !cJSON_GetObjectItem(golden, "truncate"),
            .attention_factor = 1.0f};
        float frequencies[8];
        ss_rotary_frequencies(frequencies, &rotary, 16);
        const cJSON *expected = cJSON_GetObjectItem(golden, "frequencies");
        CHECK_INT(cJSON_GetArraySize(expected), 8);
        for (int j = 0; j < 8; j++) {
            double value = cJSON_GetArrayItem(expected, j)->valuedouble;
            CHECK_NEAR((double)frequencies[j] / value, 1.0, 1e-5);
        }
    }
    cJSON_Delete(root);
    free((void *)(size_t)text.data);
}

static void check_defaults(void) {
    CASE("a missing key has the default of transformers");
    ss_bytes text = read_file("tests/golden", "defaults.json");
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.n);
    const cJSON *families = cJSON_GetObjectItem(root, "families"), *family, *key;
    int families_n = 0;
    while (ss_family_name((size_t)families_n)) families_n++;
    /* The reference lacks gemma3 and qwen3_5, whose text_config is the config of gemma3_text and
     * qwen3_5_text, and nanogpt. */
    CHECK_INT(cJSON_GetArraySize(families), families_n - 3);
    cJSON_ArrayForEach(family, families) {
        const cJSON *original = cJSON_GetObjectItem(family, "given");
        ss_arch given_arch, extended_arch;
        ss_error err;
        must(read_object(&given_arch, original, &err), &err, family->string);
        const cJSON *defaults = cJSON_GetObjectItem(family, "defaults");
        bool has_yarn = !strncmp(family->string, "qwen", 4) || !strcmp(family->string, "llama") ||
                        !strcmp(family->string, "mistral") || !strcmp(family->string, "gpt_neox");
        if (has_yarn)
            check_yarn_context(original, cJSON_GetObjectItem(defaults, "max_position_embeddings"),
                               family->string);
        cJSON_ArrayForEach(key, defaults) {
            cJSON *extended_config = cJSON_Duplicate(original, true);
            cJSON_AddItemToObject(extended_config, key->string, cJSON_Duplicate(key, true));
            ss_status status = read_object(&extended_arch, extended_config, &err);
            bool is_same =
                status == SS_OK && !memcmp(&extended_arch, &given_arch, sizeof extended_arch);
            if (check_failed(is_same, __FILE__, __LINE__, "the default of transformers"))
                printf("    %s.%s: %s\n", family->string, key->string,
                       status == SS_OK ? "another architecture" : err.text);
            cJSON_Delete(extended_config);
        }
    }
    cJSON_Delete(root);
    free((void *)(size_t)text.data);
}

static void check_every_key_counts(void) {
    CASE("every config key that is read changes the logits or the expected tensors");
    static const struct {
        const char *folder, *old_text, *new_text;
    } table[] = {
        {"hf-llama-bidirectional", "\"is_causal\": false", "\"is_causal\": true"},
        {"hf-gpt_neox", "\"rotary_pct\": 0.25", "\"rotary_pct\": 0.5"},
        {"hf-gpt_neox", "\"rotary_emb_base\": 500.0", "\"rotary_emb_base\": 5.0"},
        {"hf-gpt_neox", "\"use_parallel_residual\": true", "\"use_parallel_residual\": false"},
        {"hf-gpt_neox", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_new\""},
        {"hf-gpt_neox", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-02"},
        {"hf-gpt_neox", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-gpt_neox-serial", "\"rope_theta\": 500.0", "\"rope_theta\": 50.0"},
        {"hf-gpt_neox-serial", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.0"},
        {"hf-gpt_neo", "\"window_size\": 4", "\"window_size\": 5"},
        {"hf-gpt_neo", "\"activation_function\": \"gelu_new\"",
         "\"activation_function\": \"gelu\""},
        {"hf-opt", "\"activation_function\": \"relu\"", "\"activation_function\": \"gelu\""},
        {"hf-opt", "\"enable_bias\": true", "\"enable_bias\": false"},
        {"hf-mistral", "\"sliding_window\": 6", "\"sliding_window\": null"},
        {"hf-qwen2-window", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-qwen2-window", "\"max_window_layers\": 1", "\"max_window_layers\": 2"},
        {"hf-qwen2-window", "\"use_sliding_window\": true", "\"use_sliding_window\": false"},
        {"hf-qwen2-window", "\"factor\": 4.0", "\"factor\": 3.0"},
        {"hf-qwen2-window", "\"original_max_position_embeddings\": 64",
         "\"original_max_position_embeddings\": 32"},
        {"hf-qwen2-window", "\"factor\": 4.0", "\"factor\": 4.0, \"attention_factor\": 1.0"},
        {"hf-qwen2-window", "\"factor\": 4.0", "\"factor\": 4.0, \"truncate\": false"},
        {"hf-qwen3", "\"rope_theta\": 1000000.0", "\"rope_theta\": 100.0"},
        {"hf-gemma3", "\"query_pre_attn_scalar\": 7", "\"query_pre_attn_scalar\": 8"},
        {"hf-gemma3", "\"sliding_window_pattern\": 2", "\"sliding_window_pattern\": 3"},
        {"hf-gemma3", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-gemma3", "\"rope_local_base_freq\": 100.0", "\"rope_local_base_freq\": 50.0"},
        {"hf-gemma3", "\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"},
        {"hf-gemma3", "\"factor\": 4.0", "\"factor\": 2.0"},
        {"hf-gemma3", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": \"gelu\""},
        {"hf-gemma3-types", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-gemma2", "\"attn_logit_softcapping\": 3.0", "\"attn_logit_softcapping\": null"},
        {"hf-gemma2", "\"attn_logit_softcapping\": 3.0", "\"attn_logit_softcapping\": 4.0"},
        {"hf-gemma2", "\"final_logit_softcapping\": 2.0", "\"final_logit_softcapping\": null"},
        {"hf-gemma2", "\"query_pre_attn_scalar\": 7", "\"query_pre_attn_scalar\": 8"},
        {"hf-gemma2", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-gemma2-plain", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-gemma3-whole", "\"query_pre_attn_scalar\": 7", "\"query_pre_attn_scalar\": 8"},
        {"hf-gemma3-whole", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-opt-350m", "\"enable_bias\": true", "\"enable_bias\": false"},
        {"hf-falcon", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-falcon", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-02"},
        {"hf-falcon-groups", "\"bias\": true", "\"bias\": false"},
        {"hf-falcon-serial", "\"activation\": \"gelu\"", "\"activation\": \"relu\""},
        {"hf-bloom", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-02"},
        {"hf-bert", "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 1e-02"},
        {"hf-bert", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\""},
        {"hf-gpt_oss", "\"swiglu_limit\": 1.5", "\"swiglu_limit\": 7.0"},
        {"hf-gpt_oss", "\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.5"},
        {"hf-gpt_oss", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"},
        {"hf-gpt_oss", "\"truncate\": false", "\"truncate\": true"},
        {"hf-gpt_oss", "\"beta_fast\": 4.0", "\"beta_fast\": 8.0"},
        {"hf-gpt_oss", "\"beta_slow\": 1.0", "\"beta_slow\": 0.5"},
        {"hf-gpt_oss", "\"sliding_attention\"", "\"full_attention\""},
        {"hf-gpt_oss", "\"model_type\": \"gpt_oss\"",
         "\"sinkscope\": {\"attention\": {\"operation\": \"softmax\"}}, "
         "\"model_type\": \"gpt_oss\""},
        {"hf-mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 1"},
        {"hf-gemma", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\""},
        {"hf-phi3-long", "\"original_max_position_embeddings\": 24",
         "\"original_max_position_embeddings\": 25"},
        {"hf-phi3-long", "1.6", "1.7"},
        {"hf-phimoe-long", "\"short_mscale\": 1.2", "\"short_mscale\": 1.1"},
        {"hf-olmoe-clip", "\"clip_qkv\": 0.7", "\"clip_qkv\": 0.5"},
        {"hf-deepseek_v3-halves", "\"rope_interleave\": false", "\"rope_interleave\": true"},
        {"hf-qwen2_moe", "\"norm_topk_prob\": false", "\"norm_topk_prob\": true"},
        {"hf-qwen2_moe", "\"qkv_bias\": true", "\"qkv_bias\": false"},
        {"hf-qwen3_moe", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false"},
        {"hf-qwen3_moe", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-olmo2", "\"rope_theta\": 500.0", "\"rope_theta\": 50.0"},
        {"hf-olmo2", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-02"},
        {"hf-olmo3", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-olmo3", "\"rope_theta\": 100.0", "\"rope_theta\": 50.0"},
        {"hf-olmo3", "\"factor\": 4.0", "\"factor\": 2.0"},
        {"hf-olmo3-types", "\"rope_theta\": 50.0", "\"rope_theta\": 500.0"},
        {"hf-olmo3-types", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-smollm3", "\"no_rope_layer_interval\": 2,\n  \"no_rope_layers\": [\n    1,\n    0",
         "\"no_rope_layers\": [\n    0,\n    0"},
        {"hf-smollm3", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-smollm3", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-phi3", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.0"},
        {"hf-phi3", "\"sliding_window\": 6", "\"sliding_window\": null"},
        {"hf-phi3", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-granite", "\"embedding_multiplier\": 3.0", "\"embedding_multiplier\": 1.0"},
        {"hf-granite", "\"residual_multiplier\": 0.5", "\"residual_multiplier\": 1.0"},
        {"hf-granite", "\"attention_multiplier\": 0.25", "\"attention_multiplier\": 0.5"},
        {"hf-granite", "\"logits_scaling\": 2.0", "\"logits_scaling\": 4.0"},
        {"hf-stablelm", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.25"},
        {"hf-stablelm", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-01"},
        {"hf-stablelm", "\"use_qkv_bias\": true", "\"use_qkv_bias\": false"},
        {"hf-starcoder2", "\"norm_epsilon\": 1e-05", "\"norm_epsilon\": 1e-01"},
        {"hf-starcoder2", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-starcoder2", "\"use_bias\": true", "\"use_bias\": false"},
        {"hf-seed_oss", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-seed_oss", "\"mlp_bias\": true", "\"mlp_bias\": false"},
        {"hf-seed_oss", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-ernie4_5", "\"use_bias\": true", "\"use_bias\": false"},
        {"hf-ernie4_5", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-helium", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-helium", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-olmo", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-olmoe", "\"norm_topk_prob\": false", "\"norm_topk_prob\": true"},
        {"hf-olmoe", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"},
        {"hf-olmoe", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-olmoe", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-granitemoe", "\"embedding_multiplier\": 3.0", "\"embedding_multiplier\": 1.0"},
        {"hf-granitemoe", "\"residual_multiplier\": 0.5", "\"residual_multiplier\": 1.0"},
        {"hf-granitemoe", "\"attention_multiplier\": 0.25", "\"attention_multiplier\": 0.5"},
        {"hf-granitemoe", "\"logits_scaling\": 2.0", "\"logits_scaling\": 4.0"},
        {"hf-granitemoe", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"},
        {"hf-exaone4", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-exaone4", "\"sliding_window\": 6", "\"sliding_window\": null"},
        {"hf-exaone4", "\"sliding_window_pattern\": 2", "\"sliding_window_pattern\": 3"},
        {"hf-exaone4", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-exaone4-global", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-cohere", "\"logit_scale\": 0.25", "\"logit_scale\": 0.5"},
        {"hf-cohere", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-01"},
        {"hf-cohere", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-cohere", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-cohere", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu2\""},
        {"hf-cohere2", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-cohere2", "\"sliding_window_pattern\": 2", "\"sliding_window_pattern\": 3"},
        {"hf-glm", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.0"},
        {"hf-glm", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-glm", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-glm", "\"rms_norm_eps\": 1.5625e-07", "\"rms_norm_eps\": 1e-01"},
        {"hf-glm4", "\"partial_rotary_factor\": 0.375", "\"partial_rotary_factor\": 0.5"},
        {"hf-nemotron", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.0"},
        {"hf-nemotron", "\"norm_eps\": 1e-05", "\"norm_eps\": 1e-01"},
        {"hf-nemotron", "\"hidden_act\": \"relu2\"", "\"hidden_act\": \"relu\""},
        {"hf-nemotron", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-nemotron", "\"mlp_bias\": true", "\"mlp_bias\": false"},
        {"hf-olmo-clip", "\"clip_qkv\": 0.7", "\"clip_qkv\": null"},
        {"hf-phi", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.25"},
        {"hf-phi", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-phi", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-01"},
        {"hf-phi", "\"hidden_act\": \"gelu_new\"", "\"hidden_act\": \"relu\""},
        {"hf-gptj", "\"rotary_dim\": 8", "\"rotary_dim\": 4"},
        {"hf-gptj", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-01"},
        {"hf-gptj", "\"activation_function\": \"gelu_new\"", "\"activation_function\": \"relu\""},
        {"hf-codegen", "\"rotary_dim\": 4", "\"rotary_dim\": 2"},
        {"hf-gpt_bigcode-heads", "\"scale_attn_weights\": false", "\"scale_attn_weights\": true"},
        {"hf-gpt_bigcode-heads", "\"activation_function\": \"gelu\"",
         "\"activation_function\": \"relu\""},
        {"hf-gpt_bigcode", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-01"},
        {"hf-mpt", "\"clip_qkv\": 0.8", "\"clip_qkv\": null"},
        {"hf-mpt", "\"softmax_scale\": 0.5", "\"softmax_scale\": null"},
        {"hf-mpt", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-01"},
        {"hf-hunyuan", "\"alpha\": 50.0", "\"alpha\": 5.0"},
        {"hf-hunyuan", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-hunyuan_moe", "\"moe_topk\": 2", "\"moe_topk\": 3"},
        {"hf-deepseek_v2", "\"topk_method\": \"group_limited_greedy\"",
         "\"topk_method\": \"greedy\""},
        {"hf-deepseek_v2", "\"n_group\": 4", "\"n_group\": 2"},
        {"hf-deepseek_v2", "\"topk_group\": 2", "\"topk_group\": 3"},
        {"hf-deepseek_v2", "\"routed_scaling_factor\": 1.5", "\"routed_scaling_factor\": 1.0"},
        {"hf-deepseek_v2", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 2"},
        {"hf-deepseek_v2", "\"mscale_all_dim\": 0.7", "\"mscale_all_dim\": 1.4"},
        {"hf-deepseek_v2", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-deepseek_v2", "\"factor\": 4.0", "\"factor\": 2.0"},
        {"hf-deepseek_v2", "\"original_max_position_embeddings\": 16",
         "\"original_max_position_embeddings\": 32"},
        {"hf-deepseek_v2", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu2\""},
        {"hf-deepseek_v2", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 1e-01"},
        {"hf-deepseek_v2-greedy", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-deepseek_v3", "\"mscale\": 1.2", "\"mscale\": 0.6"},
        {"hf-deepseek_v3", "\"mscale_all_dim\": 0.7", "\"mscale_all_dim\": 1.4"},
        {"hf-deepseek_v3", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false"},
        {"hf-deepseek_v3", "\"n_group\": 4", "\"n_group\": 2"},
        {"hf-deepseek_v3", "\"topk_group\": 2", "\"topk_group\": 3"},
        {"hf-deepseek_v3", "\"routed_scaling_factor\": 2.5", "\"routed_scaling_factor\": 1.0"},
        {"hf-dots1", "\"norm_topk_prob\": false", "\"norm_topk_prob\": true"},
        {"hf-dots1", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-dots1", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3"},
        {"hf-dots1", "\"n_group\": 1", "\"n_group\": 3"},
        {"hf-dots1", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-granite_swa", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-granite_swa", "\"attention_multiplier\": 0.25", "\"attention_multiplier\": 0.5"},
        {"hf-granite_swa", "50.0,\n", "80.0,\n"},
        {"hf-granite_swa", "\"residual_multiplier\": 0.5", "\"residual_multiplier\": 1.0"},
        {"hf-granite_swa-types", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-granite_swa-types", "\"mlp_bias\": true", "\"mlp_bias\": false"},
        {"hf-granite_swa-types", "\"full_attention\"", "\"sliding_attention\""},
        {"hf-apertus", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-apertus", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-apertus", "\"factor\": 8.0", "\"factor\": 2.0"},
        {"hf-phimoe", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-phimoe", "\"lm_head_bias\": true", "\"lm_head_bias\": false"},
        {"hf-phimoe", "\"router_jitter_noise\": 0.2", "\"router_jitter_noise\": 0.01"},
        {"hf-phimoe", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-phimoe", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-phimoe", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\""},
        {"hf-mimo_v2_flash", "\"attention_value_scale\": 0.707", "\"attention_value_scale\": 1.0"},
        {"hf-mimo_v2_flash", "\"sliding_window\": 6", "\"sliding_window\": 5"},
        {"hf-mimo_v2_flash", "\"sliding_window\": 6",
         "\"sliding_window\": 6, \"sliding_window_size\": 4"},
        {"hf-mimo_v2_flash", "\"rope_theta\": 10000.0", "\"rope_theta\": 100.0"},
        {"hf-mimo_v2_flash", "\"rope_theta\": 5000000.0", "\"rope_theta\": 100.0"},
        {"hf-mimo_v2_flash", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false"},
        {"hf-mimo_v2_flash", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-01"},
        {"hf-mimo_v2_flash-types", "\"attention_value_scale\": null",
         "\"attention_value_scale\": 0.5"},
        {"hf-mimo_v2_flash-types", "\"partial_rotary_factor\": 0.6",
         "\"partial_rotary_factor\": 0.3"},
        {"hf-mimo_v2_flash-types", "\"partial_rotary_factor\": 0.3",
         "\"partial_rotary_factor\": 0.6"},
        {"hf-mimo_v2_flash-types", "\"n_group\": 3", "\"n_group\": 2"},
        {"hf-mimo_v2_flash-types", "\"routed_scaling_factor\": 1.5",
         "\"routed_scaling_factor\": null"},
        {"hf-mimo_v2_flash-types", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-gemma4", "\"sliding_window\": 5", "\"sliding_window\": 6"},
        {"hf-gemma4", "\"final_logit_softcapping\": 2.0", "\"final_logit_softcapping\": null"},
        {"hf-gemma4", "\"factor\": 1.5", "\"factor\": 3.0"},
        {"hf-gemma4", "\"partial_rotary_factor\": 0.4", "\"partial_rotary_factor\": 0.9"},
        {"hf-gemma4", "\"rope_theta\": 100.0", "\"rope_theta\": 10.0"},
        {"hf-gemma4", "\"rope_theta\": 50.0", "\"rope_theta\": 10.0"},
        {"hf-gemma4", "\"attention_bias\": true", "\"attention_bias\": false"},
        {"hf-gemma4", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": \"relu\""},
        {"hf-gemma4", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 1e-01"},
        {"hf-llama-linear", "\"factor\": 2.5", "\"factor\": 2.0"},
        {"hf-llama-llama3", "\"low_freq_factor\": 1.0", "\"low_freq_factor\": 2.0"},
        {"hf-llama-llama3", "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 3.0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *folder = path_of(table[i].folder);
        ss_bytes config = read_file(folder, "config.json");
        ss_bytes changed_config = replace_text(config, table[i].old_text, table[i].new_text);
        float logits[64], changed_logits[64], largest_change = 0.0f;
        CHECK(logits_of(logits, folder, config));
        bool runs = logits_of(changed_logits, folder, changed_config);
        CHECK(runs == (strstr(table[i].new_text, "bias\": false") == NULL));
        for (int v = 0; v < 61 && runs; v++)
            largest_change = fmaxf(largest_change, fabsf(logits[v] - changed_logits[v]));
        if (!runs) largest_change = INFINITY;
        /* The change must exceed the tolerance of the goldens, so that a golden would also fail
         * without the key. */
        if (!(largest_change > 3e-4f))
            printf("  %s %s: %g\n", folder, table[i].new_text, (double)largest_change);
        CHECK(largest_change > 3e-4f);
        free((void *)(size_t)config.data);
        free((void *)(size_t)changed_config.data);
    }
}

/* ---- broken weights ----------------------------------------------------------------------- */

static void check_broken(const char *folder, const char *name, const char *broken_name) {
    ss_error err = {0};
    ss_bytes config = read_file(folder, "config.json");
    ss_bytes weights = read_file(folder, "model.safetensors");
    ss_bytes broken_weights = replace_text(weights, name, broken_name);
    CHECK_INT((int)try_open(config, broken_weights, &err), SS_BAD_TENSOR);
    if (strcmp(err.where, name)) printf("  %s: %s: %s\n", folder, err.where, err.text);
    CHECK(!strcmp(err.where, name));
    free((void *)(size_t)broken_weights.data);
    free((void *)(size_t)weights.data);
    free((void *)(size_t)config.data);
}

static void check_missing_tensors(void) {
    CASE("a missing tensor is named in the file's format");
    static const struct {
        const char *folder, *name, *broken_name;
    } table[] = {
        {"hf-gpt_neox", "gpt_neox.layers.1.attention.query_key_value.bias",
         "gpt_neox.layers.1.attention.query_key_value.sabi"},
        {"hf-gpt_neo", "transformer.h.2.attn.attention.out_proj.bias",
         "transformer.h.2.attn.attention.out_proj.sabi"},
        {"hf-opt", "model.decoder.embed_positions.weight", "model.decoder.embed_snoitisop.weight"},
        {"hf-opt-350m", "model.decoder.project_in.weight", "model.decoder.project_xx.weight"},
        {"hf-opt-350m", "model.decoder.project_out.weight", "model.decoder.project_xxx.weight"},
        {"hf-gemma3-whole", "language_model.model.layers.0.self_attn.k_norm.weight",
         "language_model.model.layers.0.self_attn.k_mron.weight"},
        {"hf-falcon", "transformer.h.1.self_attention.query_key_value.weight",
         "transformer.h.1.self_attention.query_key_eulav.weight"},
        {"hf-falcon-groups", "transformer.h.0.ln_mlp.bias", "transformer.h.0.ln_plm.bias"},
        {"hf-falcon-serial", "transformer.h.0.post_attention_layernorm.weight",
         "transformer.h.0.post_attention_mronreyal.weight"},
        {"hf-bloom-bare", "word_embeddings_layernorm.weight", "word_embeddings_mronreyal.weight"},
        {"hf-phi", "lm_head.bias", "lm_head.sabi"},
        {"hf-phi", "model.layers.1.self_attn.dense.bias", "model.layers.1.self_attn.dense.sabi"},
        {"hf-phi", "model.final_layernorm.bias", "model.final_layernorm.sabi"},
        {"hf-gptj", "transformer.h.1.attn.k_proj.weight", "transformer.h.1.attn.k_jorp.weight"},
        {"hf-gptj", "transformer.h.1.mlp.fc_in.bias", "transformer.h.1.mlp.fc_in.sabi"},
        {"hf-codegen", "transformer.h.0.attn.qkv_proj.weight",
         "transformer.h.0.attn.qkv_jorp.weight"},
        {"hf-gpt_bigcode", "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_attn.sabi"},
        {"hf-mpt", "transformer.blocks.1.attn.Wqkv.weight",
         "transformer.blocks.1.attn.Wvkq.weight"},
        {"hf-mpt-bare", "blocks.0.ffn.down_proj.weight", "blocks.0.ffn.down_jorp.weight"},
        {"hf-bert", "cls.predictions.transform.LayerNorm.bias",
         "cls.predictions.transform.LayerNorm.sabi"},
        {"hf-bert", "cls.predictions.bias", "cls.predictions.sabi"},
        {"hf-bert-old", "bert.encoder.layer.1.output.LayerNorm.beta",
         "bert.encoder.layer.1.output.LayerNorm.atb_"},
        {"hf-bert-bare", "embeddings.token_type_embeddings.weight",
         "embeddings.token_type_embeddings.thgiew"},
        {"hf-opt-bare", "decoder.layers.1.final_layer_norm.bias",
         "decoder.layers.1.final_layer_norm.sabi"},
        {"hf-qwen2", "model.layers.0.self_attn.k_proj.bias",
         "model.layers.0.self_attn.k_proj.sabi"},
        {"hf-qwen3", "model.layers.1.self_attn.q_norm.weight",
         "model.layers.1.self_attn.q_mron.weight"},
        {"hf-gemma3", "model.layers.2.post_feedforward_layernorm.weight",
         "model.layers.2.post_feedforward_mronreyal.weight"},
        {"hf-gpt_oss", "model.layers.1.mlp.experts.down_proj_bias",
         "model.layers.1.mlp.experts.down_proj_sabi"},
        {"hf-gpt_oss", "model.layers.1.self_attn.sinks", "model.layers.1.self_attn.knisS"},
        {"hf-mixtral", "model.layers.1.block_sparse_moe.experts.4.w3.weight",
         "model.layers.1.block_sparse_moe.experts.9.w3.weight"},
        {"hf-olmo2", "model.layers.1.post_feedforward_layernorm.weight",
         "model.layers.1.post_feedforward_mronreyal.weight"},
        {"hf-olmo2", "model.layers.0.self_attn.k_norm.weight",
         "model.layers.0.self_attn.k_mron.weight"},
        {"hf-phi3", "model.layers.1.self_attn.qkv_proj.weight",
         "model.layers.1.self_attn.qkv_jorp.weight"},
        {"hf-phi3", "model.layers.0.mlp.gate_up_proj.weight",
         "model.layers.0.mlp.gate_up_jorp.weight"},
        {"hf-starcoder2", "model.layers.1.mlp.c_proj.bias", "model.layers.1.mlp.c_proj.sabi"},
        {"hf-stablelm", "model.layers.1.post_attention_layernorm.bias",
         "model.layers.1.post_attention_layernorm.sabi"},
        {"hf-granitemoe", "model.layers.1.block_sparse_moe.input_linear.weight",
         "model.layers.1.block_sparse_moe.input_raenil.weight"},
        {"hf-granitemoe", "model.layers.0.block_sparse_moe.router.layer.weight",
         "model.layers.0.block_sparse_moe.router.reyal.weight"},
        {"hf-olmoe", "model.layers.0.self_attn.q_norm.weight",
         "model.layers.0.self_attn.q_mron.weight"},
        {"hf-exaone4", "model.layers.2.post_feedforward_layernorm.weight",
         "model.layers.2.post_feedforward_mronreyal.weight"},
        {"hf-cohere", "model.layers.1.input_layernorm.weight",
         "model.layers.1.input_mronreyal.weight"},
        {"hf-glm4", "model.layers.1.post_self_attn_layernorm.weight",
         "model.layers.1.post_self_attn_mronreyal.weight"},
        {"hf-glm4", "model.layers.0.post_mlp_layernorm.weight",
         "model.layers.0.post_mlp_mronreyal.weight"},
        {"hf-nemotron", "model.layers.1.post_attention_layernorm.bias",
         "model.layers.1.post_attention_layernorm.sabi"},
        {"hf-hunyuan", "model.layers.1.self_attn.query_layernorm.weight",
         "model.layers.1.self_attn.query_mronreyal.weight"},
        {"hf-hunyuan_moe", "model.layers.1.mlp.shared_mlp.down_proj.weight",
         "model.layers.1.mlp.shared_mlp.down_jorp.weight"},
        {"hf-deepseek_v2", "model.layers.1.mlp.shared_experts.up_proj.weight",
         "model.layers.1.mlp.shared_experts.up_jorp.weight"},
        {"hf-deepseek_v2", "model.layers.0.self_attn.kv_a_layernorm.weight",
         "model.layers.0.self_attn.kv_a_mronreyal.weight"},
        {"hf-deepseek_v3", "model.layers.2.mlp.gate.e_score_correction_bias",
         "model.layers.2.mlp.gate.e_score_correction_saib"},
        {"hf-deepseek_v3", "model.layers.0.self_attn.q_a_proj.weight",
         "model.layers.0.self_attn.q_a_jorp.weight"},
        {"hf-dots1", "model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.down_jorp.weight"},
        {"hf-granite_swa", "model.layers.4.self_attn.sinks", "model.layers.4.self_attn.knisS"},
        {"hf-apertus", "model.layers.1.mlp.act_fn.alpha_n", "model.layers.1.mlp.act_fn.alpha_x"},
        {"hf-apertus", "model.layers.0.mlp.act_fn.beta", "model.layers.0.mlp.act_fn.atab"},
        {"hf-mimo_v2_flash", "model.layers.1.self_attn.attention_sink_bias",
         "model.layers.1.self_attn.attention_sink_saib"},
        {"hf-gemma4", "model.layers.2.layer_scalar", "model.layers.2.layer_ralacs"},
        {"hf-gemma4-narrow", "model.layers.5.self_attn.v_proj.weight",
         "model.layers.5.self_attn.v_jorp.weight"},
        {"hf-phimoe", "lm_head.bias", "lm_head.sabi"},
        {"hf-qwen2_moe", "model.layers.0.mlp.shared_expert_gate.weight",
         "model.layers.0.mlp.shared_expert_etag.weight"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_broken(path_of(table[i].folder), table[i].name, table[i].broken_name);
}

static ss_status open_with_tensor(const opened_model *opened, const char *name, ss_error *err) {
    const ss_container *container = &opened->weights.container;
    ss_entry *entries = malloc((container->n + 1) * sizeof *entries);
    if (!entries) exit(2);
    size_t place = 0;
    while (place < container->n && strcmp(container->entries[place].name, name) < 0) place++;
    memcpy(entries, container->entries, place * sizeof *entries);
    memcpy(entries + place + 1, container->entries + place,
           (container->n - place) * sizeof *entries);
    entries[place] = container->entries[0];
    entries[place].name = name;
    ss_container extended = *container;
    extended.entries = entries;
    extended.n++;
    size_t bytes;
    ss_model model;
    ss_status status = ss_model_size(&bytes, &opened->model.arch, &extended, err);
    ss_arena arena = arena_of(status == SS_OK ? bytes : 1);
    if (status == SS_OK)
        status = ss_model_open(&model, &opened->model.arch, &extended, &arena, err);
    free(arena.block);
    free(entries);
    return status;
}

static void check_unread_tensors(void) {
    CASE("in every format a tensor that no family reads is refused by name, except buffers and "
         "weights for other tasks");
    static const char *const formats[] = {"torch-gpt2-plain", "torch-llama-tied",
                                          "gguf-llama-gqa-f32", "gguf-qwen2-bf16",
                                          "gguf-falcon-bf16"};
    static const char *const unread_names[] = {"lm_head.bias",
                                               "model.layers.0.self_attn.q_proj.lora_A",
                                               "model.layers.77.mlp.up_proj.weight",
                                               "attn.bia",
                                               "xattn.bias",
                                               "blk.0.nextn.eh_proj.weight",
                                               "score"};
    static const char *const ignored_names[] = {"model.layers.0.self_attn.rotary_emb.inv_freq",
                                                "h.1.attn.bias",
                                                "h.1.attn.masked_bias",
                                                "h.1.attn.causal_mask",
                                                "gpt_neox.layers.0.attention.bias",
                                                "bert.embeddings.position_ids",
                                                "rope_freqs.weight",
                                                "bert.pooler.dense.weight",
                                                "pooler.dense.bias",
                                                "cls.seq_relationship.weight",
                                                "classifier.weight",
                                                "score.weight",
                                                "qa_outputs.bias",
                                                "vision_tower.a",
                                                "model.vision_tower.a",
                                                "multi_modal_projector.a",
                                                "model.multi_modal_projector.a"};
    for (size_t f = 0; f < FOLDERS + sizeof formats / sizeof *formats; f++) {
        ss_error err;
        opened_model opened = open_model(path_of(f < FOLDERS ? folders[f] : formats[f - FOLDERS]));
        for (size_t i = 0; i < sizeof unread_names / sizeof *unread_names; i++) {
            CHECK_INT((int)open_with_tensor(&opened, unread_names[i], &err), SS_UNSUPPORTED);
            CHECK_TEXT(err.where, unread_names[i]);
            CHECK(strstr(err.text, "of this config reads") &&
                  strstr(err.text, opened.model.arch.family));
        }
        for (size_t i = 0; i < sizeof ignored_names / sizeof *ignored_names; i++)
            CHECK_INT((int)open_with_tensor(&opened, ignored_names[i], &err), SS_OK);
        close_model(&opened);
    }
}

static bool is_vision_tensor(const char *name) {
    return !strncmp(name, "vision_tower.", 13) || !strncmp(name, "multi_modal_projector.", 22);
}

static void check_not_finite(void) {
    CASE("a NaN in any tensor of any family is refused; tensors for images are not read");
    int skipped_n = 0;
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_model opened = open_model(path_of(folders[f]));
        const ss_container *container = &opened.weights.container;
        ss_arch arch = opened.model.arch;
        for (size_t i = 0; i < container->n; i++) {
            const ss_entry *entry = &container->entries[i];
            size_t size = ss_dtype_block_bytes(entry->tensor.type);
            size_t last = ss_tensor_count(&entry->tensor) - 1;
            unsigned char *number = (unsigned char *)(size_t)entry->tensor.data + last * size;
            unsigned char saved_number[4];
            memcpy(saved_number, number, size);
            memset(number, 0xff, size);
            opened.arena.used = 0;
            ss_error err;
            bool is_read = !is_vision_tensor(entry->name);
            CHECK_INT((int)ss_model_open(&opened.model, &arch, container, &opened.arena, &err),
                      is_read ? SS_BAD_TENSOR : SS_OK);
            CHECK(!is_read || !strcmp(err.where, entry->name));
            char text[64];
            snprintf(text, sizeof text,
                     "expected finite numbers, but number %lu is NaN or infinite",
                     (unsigned long)last);
            if (is_read) CHECK_TEXT(err.text, text);
            skipped_n += !is_read;
            memcpy(number, saved_number, size);
        }
        close_model(&opened);
    }
    CHECK_INT(skipped_n, 34); /* tensors for images in hf-gemma3-whole */
}

static void check_other_prefix(void) {
    CASE("the tensors of Gemma 3's text model are found under both of their prefixes");
    const char *folder = path_of("hf-gemma3-whole");
    static const char old_prefix[] = "\"language_model.model.",
                      new_prefix[] = "\"model.language_model.";
    size_t n = sizeof old_prefix - 1;
    opened_folder *baseline = open_folder("hf-gemma3-whole");
    opened_model model = {.weights.bytes = read_file(folder, "model.safetensors")};
    unsigned char *bytes = (unsigned char *)(size_t)model.weights.bytes.data;
    for (size_t i = 0; i + n <= model.weights.bytes.n; i++)
        if (!memcmp(bytes + i, old_prefix, n)) memcpy(bytes + i, new_prefix, n);
    ss_error err;
    must(try_model(&model, &baseline->model.model.arch, &err), &err, folder);
    opened_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    check_same(&baseline->run.run.trace, &run.run.trace, T_MAX);
    close_run(&run);
    close_model(&model);
    close_folder(baseline);
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const ss_entry *)a)->name, ((const ss_entry *)b)->name);
}

/* Opens a model on entries that the caller renamed, and compares its run with the original one. A
 * run without a head has no logits. */
static void check_renamed(const opened_folder *original, ss_entry *entries, size_t n,
                          bool has_head) {
    const opened_model *opened = &original->model;
    const ss_trace *expected = &original->run.run.trace;
    ss_container container = opened->weights.container;
    container.entries = entries;
    container.n = n;
    qsort(entries, n, sizeof *entries, compare_entries);
    opened_model model = {0};
    size_t bytes;
    ss_error err;
    must(ss_model_size(&bytes, &opened->model.arch, &container, &err), &err,
         opened->model.arch.family);
    model.arena = arena_of(bytes);
    must(ss_model_open(&model.model, &opened->model.arch, &container, &model.arena, &err), &err,
         opened->model.arch.family);
    CHECK(model.model.headless == !has_head);
    char text[8192];
    must(ss_describe_model(text, sizeof text, &model.model, &err), &err, "description");
    CHECK((strstr(text, "\"head\":true") != NULL) == has_head);
    opened_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    ss_trace actual = run.run.trace, *trace = &run.run.trace;
    const uint32_t of_head =
        SS_BIT(SS_FIELD_LOGITS) | SS_BIT(SS_FIELD_LOSS) | SS_BIT(SS_FIELD_RANK);
    if (!has_head) actual.fields &= ~of_head;
    check_same(&actual, expected, T_MAX);
    size_t V = (size_t)opened->model.arch.V;
    CHECK(isnan(ss_floats(trace, SS_FIELD_LOGITS)[V]) == !has_head);
    CHECK(isnan(ss_floats(trace, SS_FIELD_LOSS)[1]) == !has_head);
    float *accuracy = measure(trace, "accuracy", 0.3f, 0, 0, 0, NULL);
    CHECK(isnan(*accuracy) == !has_head);
    free(accuracy);
    close_run(&run);
    free(model.arena.block);
}

/* Returns the length of the first component of the embedding's name, which the files of a base
 * model lack; 0 if the names are those of a base model. */
static size_t base_prefix(const char *name) {
    static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.", "bert."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return strlen(prefixes[i]);
    return 0;
}

static void check_base_models(void) {
    CASE("files of base models, without prefix and head, and tied files that store the head alone "
         "give the bits of the whole file");
    int base_n = 0, tied_n = 0;
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_container *container = &opened->model.weights.container;
        const ss_model *model = &opened->model.model;
        const ss_entry *embedding = container->entries;
        while (embedding->tensor.data != model->embedding.w.data) embedding++;
        size_t cut = base_prefix(embedding->name), n = 0;
        bool is_bert = !strcmp(model->arch.family, "bert");
        ss_entry *entries = calloc(container->n, sizeof *entries);
        if (!entries) exit(2);
        for (size_t i = 0; cut && i < container->n; i++) {
            entries[n] = container->entries[i];
            if (strncmp(entries[n].name, embedding->name, cut)) continue;
            entries[n++].name += cut;
        }
        bool has_head = model->arch.tied && !model->arch.head_bias && !is_bert;
        if (cut) check_renamed(opened, entries, n, has_head);
        base_n += cut > 0;
        bool has_prefix = strchr(embedding->name, '.') != strrchr(embedding->name, '.');
        if (model->arch.tied && !is_bert && has_prefix) {
            memcpy(entries, container->entries, container->n * sizeof *entries);
            entries[embedding - container->entries].name =
                strcmp(model->arch.family, "gpt_neox") ? "lm_head.weight" : "embed_out.weight";
            check_renamed(opened, entries, container->n, true);
            tied_n++;
        }
        free(entries);
        close_folder(opened);
    }
    CHECK(base_n > 60 && tied_n > 15);
    printf("  %d base models, %d heads without embedding\n", base_n, tied_n);
}

static void check_flipped_bits(void) {
    CASE("flipped bits in the config and the header of every family give a status, never a crash");
    uint32_t state = 77;
    int refused_n = 0, flips_n = check_trials(100);
    for (size_t f = 0; f < FOLDERS; f++) {
        ss_bytes config = read_file(path_of(folders[f]), "config.json");
        ss_bytes weights = read_file(path_of(folders[f]), "model.safetensors");
        size_t header_bytes = 8 + ((size_t)weights.data[0] | (size_t)weights.data[1] << 8);
        for (int i = 0; i < flips_n; i++) {
            state = state * 1664525u + 1013904223u;
            ss_bytes file = i % 2 ? config : weights;
            size_t offset = (state >> 3) % (i % 2 ? config.n : header_bytes);
            unsigned char *byte = (unsigned char *)(size_t)(file.data + offset), saved_byte = *byte;
            *byte = (unsigned char)(saved_byte ^ 1u << (state >> 29));
            ss_error err = {0};
            ss_status status = try_open(config, weights, &err);
            if (status != SS_OK) CHECK(err.where[0] && err.text[0] && err.code == status);
            refused_n += status != SS_OK;
            *byte = saved_byte;
        }
        free((void *)(size_t)config.data);
        free((void *)(size_t)weights.data);
    }
    printf("  %d of %d were refused\n", refused_n, flips_n * (int)FOLDERS);
    CHECK(refused_n > flips_n / 2 * (int)FOLDERS);
}

static void check_parts_add_up(void) {
    CASE("the parts of q.k_1 add up to its mean over queries, except with post norm, clipped or "
         "centered keys or latent attention");
    for (size_t f = 0; f < FOLDERS; f++) {
        opened_folder *opened = open_folder(folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        size_t count = (size_t)(2 * arch->L + 2), H = (size_t)arch->H;
        bool is_centered = arch->qk_norm && arch->norm == SS_NORM_LAYER;
        bool is_linear = !arch->post_norm && arch->qkv_clip <= 0.0f && !arch->kv_latent &&
                         !is_centered && !trace->model->layers[0].scale;
        float *parts = measure(trace, "logit_parts", 0.3f, 0, 0, 0, NULL);
        float *heads = measure(trace, "logit_parts_heads", 0.3f, 0, 0, 0, NULL);
        for (int head = 0; head < arch->L * arch->H; head++) {
            int l = head / arch->H, h = head % arch->H;
            float *dot = measure(trace, "qk_dot", 0.3f, 0, l, h, NULL);
            double sum = 0, size = 0, logit = 0;
            for (int t = 0; t < T_MAX; t++)
                logit += (double)(dot[t * T_MAX] * arch->score_scale) / T_MAX;
            for (size_t c = 0; c < count; c++) {
                double part = (double)parts[(size_t)head * count + c];
                bool is_defined = is_linear && (c <= 2 * (size_t)l || c + 1 == count);
                CHECK_INT(isnan(part), !is_defined);
                sum += is_defined ? part : 0;
                size += is_defined ? fabs(part) : 0;
            }
            if (is_linear &&
                check_failed(fabs(sum - logit) <= 1e-5 * size, __FILE__, __LINE__, "adds up"))
                printf("    %s layer %d head %d: %g of %g\n", folders[f], l, h, sum, logit);
            /* The part of a layer's attention equals the sum over the layer's heads, plus the part
             * of the output's bias. */
            for (int below = 0; below < arch->L; below++) {
                const float *head_parts =
                    heads + ((size_t)head * (size_t)arch->L + (size_t)below) * H;
                double attention_part = (double)parts[(size_t)head * count + 2 * (size_t)below + 1];
                double heads_sum = 0;
                for (size_t i = 0; i < H; i++) heads_sum += (double)head_parts[i];
                bool is_defined = is_linear && !arch->branch_norms && below < l;
                CHECK_INT(isnan(heads_sum), !is_defined);
                if (is_defined && !trace->model->layers[below].o.bias)
                    CHECK(fabs(heads_sum - attention_part) <= 1e-5 * size);
            }
            free(dot);
        }
        free(parts);
        free(heads);
        close_folder(opened);
    }
}

int main(void) {
    check_keys_refused_by_all();
    check_quantized_configs();
    check_keys_refused_by_some();
    check_few_experts();
    check_another_family();
    check_ranges();
    check_experts_of_a_token();
    check_rotary_configs();
    check_windows_of_layers();
    check_rotations_of_layers();
    check_steps_are_prompts();
    check_kept_panels();
    check_interleaved_weights();
    check_windows_hide_keys();
    check_sizes_of_layers();
    check_routers();
    check_encoders();
    check_yarn_bounds();
    check_defaults();
    check_every_key_counts();
    check_missing_tensors();
    check_unread_tensors();
    check_not_finite();
    check_other_prefix();
    check_base_models();
    check_flipped_bits();
    check_parts_add_up();
    return check_done();
}
