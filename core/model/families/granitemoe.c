/* granitemoe: granite with experts, which are slices of two tensors; the first one holds gate and
 * up. In GGUF the experts have the layout of qwen3_moe. */
#include "family.h"

void ss_granitemoe_read(ss_arch *arch, ss_json *json) {
    ss_granite_read(arch, json);
    arch->ffn_bias = false;
    ss_read_experts(arch, json, "num_local_experts", 8, 2);
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

void ss_load_granitemoe_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    if (ss_load_is_format(loader, SS_GGUF)) {
        ss_load_llama_layer(layer, loader, arch);
        return;
    }
    ss_load_llama_attention(layer, loader, arch);
    ss_load_experts(layer, loader, arch, "layers.%d.block_sparse_moe.router.layer", false,
                    load_expert);
}
