/* Fuzzes pytorch_model.bin: the zip file and the pickle in it. */
#include "torch_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_arch arch = fuzz_arch(TINY_CONFIG(""));
    ss_bytes file = torch_zip(data, size);
    fuzz_file(file, &arch);
    free((void *)(uintptr_t)file.data);
    return 0;
}
