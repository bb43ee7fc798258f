/* Fuzzes config.json: opens models under each input with sets of tiny weights, and runs the models
 * that are accepted. */
#include "target.h"

/* Weights without the tensors of variants, with tensors of each head, with tensors that heads
 * share, and with the tensors of each mixer. */
static const char *const paths[] = {
    "tests/fuzz/seeds/safetensors/llama.safetensors",
    "tests/fuzz/seeds/safetensors/own.safetensors",
    "tests/fuzz/seeds/safetensors/shared.safetensors",
    "tests/golden/hf-lfm2-indices/model.safetensors",
    "tests/golden/hf-qwen3_5/model.safetensors",
    "tests/golden/hf-falcon_h1/model.safetensors",
};
#define FILES (sizeof paths / sizeof *paths)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ss_bytes weights[FILES];
    for (size_t i = 0; i < FILES; i++)
        if (!weights[i].data) weights[i] = read_path(paths[i]);
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read(&arch, (ss_bytes){data, size}, &err);
    check(status, &err);
    for (size_t i = 0; i < FILES && status == SS_OK; i++) fuzz_file(weights[i], &arch);
    return 0;
}
