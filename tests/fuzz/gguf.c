/* GGUF: metadata and tensors. */
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_arch arch = fuzz_arch("{\"model_type\":\"llama\"," TINY_SIZES "}");
    fuzz_file((ss_bytes){data, size}, &arch);
    return 0;
}
