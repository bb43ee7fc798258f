/* exaone4: llama whose blocks read the residual stream without a norm, and norm their outputs
 * before the sum, as olmo2's; queries and keys are normed head by head. In models with a window,
 * the layers that see all keys do not rotate. */
#include "family.h"

/* As in transformers, the pattern is only used with a window and without layer_types. */
void ss_exaone4_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 32, .norm_eps = 1e-5});
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->branch_norms = true;
    arch->branch_only = true;
    arch->window = ss_read_window(json, 4096);
    bool has_pattern = arch->window && !ss_json_item(json, "layer_types");
    int pattern =
        has_pattern ? ss_json_int(json, "sliding_window_pattern", 4, 1, SS_LAYERS_MAX) : 4;
    ss_read_window_pattern(arch, json, pattern);
    for (int l = 0; l < arch->L; l++) arch->unrotated[l] = arch->window && !arch->windowed[l];
}
