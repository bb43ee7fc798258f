/* config.json, against the tiny weights of every family, so that what it says is tried on a file.
 */
#include "target.h"

#include <stdio.h>

#define WEIGHTS_MAX 65536

static ss_bytes read_weights(void) {
    static uint8_t data[WEIGHTS_MAX];
    FILE *file = fopen("tests/fuzz/seeds/safetensors/llama.safetensors", "rb");
    if (!file) abort(); /* run from the repository's root */
    size_t n = fread(data, 1, sizeof data, file);
    fclose(file);
    return (ss_bytes){data, n};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ss_bytes weights;
    if (!weights.data) weights = read_weights();
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read(&arch, (ss_bytes){data, size}, &err);
    check(status, &err);
    if (status == SS_OK) fuzz_file(weights, &arch);
    return 0;
}
