/*
 * Fuzzes safetensors. An input that begins with '{' is a header without its length: otherwise the
 * reader would refuse every mutation that changes the length of the header, and the rest of the
 * header would never be read.
 */
#include "target.h"

#define DATA_BYTES 1024

static void fuzz_with_length(const uint8_t *data, size_t size, const ss_arch *arch) {
    uint8_t *file = calloc(1, 8 + size + DATA_BYTES);
    if (!file) abort();
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)size >> 8 * i);
    memcpy(file + 8, data, size);
    fuzz_file((ss_bytes){file, 8 + size + DATA_BYTES}, arch);
    free(file);
}

#define ADDITIONS                                                                                  \
    ",\"sinkscope\":{\"attention\":{\"operation\":\"mlp_kernel\"},\"bias_key\":\"head\","          \
    "\"bias_key_value\":\"head\",\"value_bias\":\"head\",\"gate\":\"output_element\"}"

static bool has_additions(const uint8_t *data, size_t size) {
    const char name[] = "bias_key";
    for (size_t i = 0; i + sizeof name <= size; i++)
        if (!memcmp(data + i, name, sizeof name - 1)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool with_additions = has_additions(data, size);
    ss_arch arch = fuzz_arch(with_additions ? TINY_CONFIG(ADDITIONS) : TINY_CONFIG(""));
    if (size && data[0] == '{')
        fuzz_with_length(data, size, &arch);
    else
        fuzz_file((ss_bytes){data, size}, &arch);
    return 0;
}
