/* Translates names of tensors from GGUF to Hugging Face, by architecture. */
#include "gguf.h"

#include <stdio.h>
#include <string.h>

/* The name of a tensor in GGUF and in Hugging Face, without the last part, "weight" or "bias". '#'
 * means the number of a layer. */
typedef struct name {
    const char *gguf, *hugging_face;
} name;

static const name llama[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    {"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
    {"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
    {"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"},
    {"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
    {"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
    {"blk.#.ffn_down", "model.layers.#.mlp.down_proj"},
    {NULL, NULL},
};

static const name branches[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"},
    {NULL, NULL},
};

static const name qwen3_moe[] = {
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate"},
    {"blk.#.ffn_gate_exps", "model.layers.#.mlp.experts.gate_proj"},
    {"blk.#.ffn_up_exps", "model.layers.#.mlp.experts.up_proj"},
    {"blk.#.ffn_down_exps", "model.layers.#.mlp.experts.down_proj"},
    {NULL, NULL},
};

static const name hunyuan[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.query_layernorm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.key_layernorm"},
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.gate.wg"},
    {"blk.#.ffn_gate_shexp", "model.layers.#.mlp.shared_mlp.gate_proj"},
    {"blk.#.ffn_up_shexp", "model.layers.#.mlp.shared_mlp.up_proj"},
    {"blk.#.ffn_down_shexp", "model.layers.#.mlp.shared_mlp.down_proj"},
    {NULL, NULL},
};

/* In models with two norms, attn_norm belongs to the feed-forward and attn_norm_2 to attention. */
static const name falcon[] = {
    {"token_embd", "word_embeddings"},
    {"token_embd_norm", "word_embeddings_layernorm"},
    {"output_norm", "ln_f"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "h.#.input_layernorm"},
    {"blk.#.attn_norm_2", "h.#.ln_attn"},
    {"blk.#.attn_qkv", "h.#.self_attention.query_key_value"},
    {"blk.#.attn_output", "h.#.self_attention.dense"},
    {"blk.#.ffn_norm", "h.#.post_attention_layernorm"},
    {"blk.#.ffn_up", "h.#.mlp.dense_h_to_4h"},
    {"blk.#.ffn_down", "h.#.mlp.dense_4h_to_h"},
    {NULL, NULL},
};

static const name gpt2[] = {
    {"token_embd", "wte"},
    {"position_embd", "wpe"},
    {"output_norm", "ln_f"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "h.#.ln_1"},
    {"blk.#.attn_qkv", "h.#.attn.c_attn"},
    {"blk.#.attn_output", "h.#.attn.c_proj"},
    {"blk.#.ffn_norm", "h.#.ln_2"},
    {"blk.#.ffn_up", "h.#.mlp.c_fc"},
    {"blk.#.ffn_down", "h.#.mlp.c_proj"},
    {NULL, NULL},
};

static const name gpt_neox[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
    {"blk.#.attn_norm", "gpt_neox.layers.#.input_layernorm"},
    {"blk.#.attn_qkv", "gpt_neox.layers.#.attention.query_key_value"},
    {"blk.#.attn_output", "gpt_neox.layers.#.attention.dense"},
    {"blk.#.ffn_norm", "gpt_neox.layers.#.post_attention_layernorm"},
    {"blk.#.ffn_up", "gpt_neox.layers.#.mlp.dense_h_to_4h"},
    {"blk.#.ffn_down", "gpt_neox.layers.#.mlp.dense_4h_to_h"},
    {NULL, NULL},
};

/* phi2: older files fuse q, k and v. */
static const name phi2[] = {
    {"output_norm", "model.final_layernorm"},
    {"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
    {"blk.#.attn_output", "model.layers.#.self_attn.dense"},
    {"blk.#.ffn_up", "model.layers.#.mlp.fc1"},
    {"blk.#.ffn_down", "model.layers.#.mlp.fc2"},
    {NULL, NULL},
};

static const name mpt[] = {
    {"token_embd", "wte"},
    {"output_norm", "norm_f"},
    {"output", "lm_head"},
    {"blk.#.attn_norm", "blocks.#.norm_1"},
    {"blk.#.attn_qkv", "blocks.#.attn.Wqkv"},
    {"blk.#.attn_output", "blocks.#.attn.out_proj"},
    {"blk.#.ffn_norm", "blocks.#.norm_2"},
    {"blk.#.ffn_up", "blocks.#.ffn.up_proj"},
    {"blk.#.ffn_down", "blocks.#.ffn.down_proj"},
    {NULL, NULL},
};

static const name phi3[] = {
    {"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
    {"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
    {NULL, NULL},
};

static const name starcoder2[] = {
    {"blk.#.ffn_up", "model.layers.#.mlp.c_fc"},
    {"blk.#.ffn_down", "model.layers.#.mlp.c_proj"},
    {NULL, NULL},
};

static const name seed_oss[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {NULL, NULL},
};

static const name gpt_oss[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
    {"blk.#.attn_sinks", "model.layers.#.self_attn.sinks"},
    {"blk.#.ffn_gate_inp", "model.layers.#.mlp.router"},
    {NULL, NULL},
};

static const name glm4[] = {
    {"blk.#.post_attention_norm", "model.layers.#.post_self_attn_layernorm"},
    {"blk.#.post_ffw_norm", "model.layers.#.post_mlp_layernorm"},
    {"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
    {NULL, NULL},
};

static const name lfm2[] = {
    {"token_embd_norm", "model.embedding_norm"},
    {"blk.#.attn_norm", "model.layers.#.operator_norm"},
    {"blk.#.attn_output", "model.layers.#.self_attn.out_proj"},
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_layernorm"},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_layernorm"},
    {"blk.#.shortconv.conv", "model.layers.#.conv.conv"},
    {"blk.#.shortconv.in_proj", "model.layers.#.conv.in_proj"},
    {"blk.#.shortconv.out_proj", "model.layers.#.conv.out_proj"},
    {"blk.#.ffn_norm", "model.layers.#.ffn_norm"},
    {"blk.#.ffn_gate", "model.layers.#.feed_forward.w1"},
    {"blk.#.ffn_up", "model.layers.#.feed_forward.w3"},
    {"blk.#.ffn_down", "model.layers.#.feed_forward.w2"},
    {NULL, NULL},
};

struct ss_gguf_family {
    const char *architecture, *model_type;
    const name *tables[3]; /* the first one that has a name translates it */
};

static const ss_gguf_family families[] = {
    {"llama", "llama", {llama}},
    {"gpt2", "gpt2", {gpt2}},
    {"starcoder", "gpt_bigcode", {gpt2}},
    {"gptneox", "gpt_neox", {gpt_neox}},
    {"qwen2", "qwen2", {llama}},
    {"qwen3", "qwen3", {llama}},
    {"qwen3moe", "qwen3_moe", {qwen3_moe, llama}},
    {"gemma", "gemma", {llama}},
    {"gemma2", "gemma2", {branches, llama}},
    {"gemma3", "gemma3_text", {branches, llama}},
    {"smollm3", "smollm3", {llama}},
    {"phi2", "phi", {phi2, llama}},
    {"phi3", "phi3", {phi3, llama}},
    {"granite", "granite", {llama}},
    {"stablelm", "stablelm", {llama}},
    {"starcoder2", "starcoder2", {starcoder2, llama}},
    {"seed_oss", "seed_oss", {seed_oss, llama}},
    {"gpt-oss", "gpt_oss", {gpt_oss, qwen3_moe, llama}},
    {"ernie4_5", "ernie4_5", {llama}},
    {"olmo", "olmo", {llama}},
    {"olmo2", "olmo2", {branches, llama}},
    {"olmoe", "olmoe", {qwen3_moe, llama}},
    {"granitemoe", "granitemoe", {qwen3_moe, llama}},
    {"exaone4", "exaone4", {branches, llama}},
    {"command-r", "cohere", {llama}},
    {"cohere2", "cohere2", {llama}},
    {"glm4", "glm4", {glm4, llama}},
    {"nemotron", "nemotron", {llama}},
    {"hunyuan-dense", "hunyuan_v1_dense", {hunyuan, qwen3_moe, llama}},
    {"hunyuan-moe", "hunyuan_v1_moe", {hunyuan, qwen3_moe, llama}},
    {"lfm2", "lfm2", {lfm2, llama}},
    {"falcon", "falcon", {falcon}},
    {"bloom", "bloom", {falcon}},
    {"mpt", "mpt", {mpt}},
};
#define FAMILIES_N (sizeof families / sizeof *families)

ss_status ss_gguf_find_family(const ss_gguf_family **family, ss_bytes architecture, ss_error *err) {
    for (size_t i = 0; i < FAMILIES_N; i++)
        if (ss_bytes_equal(architecture, families[i].architecture)) {
            *family = &families[i];
            return SS_OK;
        }
    return ss_fail(err, SS_UNSUPPORTED, "general.architecture",
                   "this build cannot run GGUF files of %.*s; record the model with the Python "
                   "package and open the recording (`describe` lists the families that run)",
                   architecture.n ? (int)(architecture.n < 60 ? architecture.n : 60) : 15,
                   architecture.n ? (const char *)architecture.data : "no architecture");
}

const char *ss_gguf_model_type(const ss_gguf_family *family) {
    return family->model_type;
}

const char *ss_gguf_architecture(size_t i) {
    return i < FAMILIES_N ? families[i].architecture : NULL;
}

/* Returns true if the text matches the pattern; *number becomes the text at '#'. */
static bool matches(const char *pattern, ss_bytes text, ss_bytes *number) {
    size_t offset = 0;
    *number = (ss_bytes){text.data, 0};
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (offset == text.n || text.data[offset++] != (unsigned char)*pattern) return false;
            continue;
        }
        number->data = text.data + offset;
        while (offset < text.n && text.data[offset] >= '0' && text.data[offset] <= '9') offset++;
        number->n = (size_t)(text.data + offset - number->data);
        if (number->n == 0) return false;
    }
    return offset == text.n;
}

static const name *find_row(const ss_gguf_family *family, ss_bytes stem, ss_bytes *number) {
    for (int i = 0; i < 3 && family->tables[i]; i++)
        for (const name *row = family->tables[i]; row->gguf; row++)
            if (matches(row->gguf, stem, number)) return row;
    return NULL;
}

void ss_gguf_translate(char out[SS_GGUF_NAME_BYTES], const ss_gguf_family *family,
                       ss_bytes source) {
    ss_bytes stem = source, number;
    while (stem.n && stem.data[stem.n - 1] != '.') stem.n--;
    ss_bytes suffix = {stem.data + stem.n, source.n - stem.n};
    if (stem.n) stem.n--; /* drops the dot before the suffix */
    const name *row = find_row(family, stem, &number);
    if (!row) {
        snprintf(out, SS_GGUF_NAME_BYTES, "%.*s", (int)source.n, (const char *)source.data);
        return;
    }
    const char *hash = strchr(row->hugging_face, '#');
    int prefix_n = hash ? (int)(hash - row->hugging_face) : (int)strlen(row->hugging_face);
    snprintf(out, SS_GGUF_NAME_BYTES, "%.*s%.*s%s.%.*s", prefix_n, row->hugging_face, (int)number.n,
             (const char *)number.data, hash ? hash + 1 : "", (int)suffix.n,
             (const char *)suffix.data);
}
