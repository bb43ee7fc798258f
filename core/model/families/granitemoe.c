/*
 * granitemoe: granite with experts, which are slices of two tensors; the first one holds gate and
 * up. In GGUF the experts have the layout of qwen3_moe.
 */
#include "family.h"

void ss_granitemoe_read(ss_arch *arch, ss_json *json) {
    ss_granite_read(arch, json);
    arch->ffn_bias = false;
    arch->E = ss_json_int(json, "num_local_experts", 8, 1, SS_EXPERTS_MAX);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", 2, 1, arch->E);
}

static void load_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    const char *inputs = "layers.%d.block_sparse_moe.input_linear";
    ss_place place = {
        .in = D, .out = F, .total = 2 * F, .slices = (size_t)arch->E, .slice = (size_t)e};
    ss_load_linear_at(loader, &expert->gate, inputs, false, &place);
    place.first = F;
    ss_load_linear_at(loader, &expert->up, inputs, false, &place);
    place = (ss_place){.in = F, .out = D, .slices = place.slices, .slice = place.slice};
    ss_load_linear_at(loader, &expert->down, "layers.%d.block_sparse_moe.output_linear", false,
                      &place);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_load_linear(loader, &layer->router, "layers.%d.block_sparse_moe.router.layer", false,
                   (size_t)arch->D, (size_t)arch->E);
    layer->experts = ss_load_experts(loader, arch, load_expert);
}

void ss_granitemoe_load(ss_model *model, ss_loader *loader) {
    if (ss_load_is_format(loader, SS_GGUF)) {
        ss_qwen_moe_load(model, loader);
        return;
    }
    ss_load_llama_ends(model, loader);
    ss_load_layers(loader, model, load_layer);
}
