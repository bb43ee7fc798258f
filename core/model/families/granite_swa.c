/* granite_swa: granite with a sink logit per head, a window in all layers but every fourth, and a
 * base of rotary positions for each layer, 0 where it does not rotate. */
#include "family.h"

#include <stdio.h>

/* Reads a list with a base for each layer. An ss_arch holds only two bases, so the layers that see
 * all keys must share one, and the layers with a window must share one. */
static void read_bases(ss_arch *arch, ss_json *json) {
    const cJSON *list = ss_json_item(json, "layer_rope_theta"), *item;
    double bases[2] = {0.0, 0.0};
    if (!list) return;
    int l = 0;
    cJSON_ArrayForEach(item, list) {
        double base = cJSON_IsNumber(item) ? item->valuedouble : -1.0;
        if (l++ >= arch->L) continue;
        double *kind_base = &bases[arch->windowed[l - 1]];
        arch->unrotated[l - 1] = base <= 0.0;
        bool is_valid = base == 0.0 || (base >= 1.0 && base <= 1e12);
        if (!is_valid ||
            (base > 0.0 && *kind_base > 0.0 && (*kind_base < base || *kind_base > base)))
            ss_json_refuse(json, "layer_rope_theta",
                           "0 or one base for layers with a window, and one for the others",
                           "another list");
        if (base > 0.0) *kind_base = base;
    }
    if (l != arch->L)
        ss_json_refuse(json, "layer_rope_theta", "a number for each layer",
                       "another number of them");
    if (bases[0] > 0.0 || bases[1] > 0.0) arch->rotary.base = bases[bases[0] <= 0.0];
    if (bases[0] <= 0.0 || bases[1] <= 0.0 || bases[0] == bases[1]) return;
    arch->has_window_rotary = true;
    arch->window_rotary = arch->rotary;
    arch->window_rotary.base = bases[1];
}

void ss_granite_swa_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 4, .context = 8192, .norm_eps = 1e-5, .tied = true};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_llama_biases(arch, json);
    ss_read_granite_factors(arch, json);
    snprintf(arch->attention.operation, sizeof arch->attention.operation, "sink_logit");
    arch->window = ss_read_window(json, 128);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && l % 4;
    ss_read_layer_types(arch, json);
    read_bases(arch, json);
}
