/* GGUF: metadata, tensors, and a model of what the metadata says. */
#include "target.h"

#include "model/gguf/gguf.h"

static void read_tokens(ss_bytes file) {
    ss_bytes value;
    ss_error err;
    int type;
    uint64_t count;
    ss_status status = ss_gguf_value(&value, &type, &count, file, "tokenizer.ggml.tokens", &err);
    check(status, &err);
    /* All of the value is the file's: the sanitizer sees a byte beyond it. */
    unsigned sum = 0;
    for (size_t i = 0; status == SS_OK && i < value.n; i++) sum += value.data[i];
    if (status == SS_OK && sum == 1 && value.n == 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_bytes file = {data, size};
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read_gguf(&arch, file, &err);
    check(status, &err);
    fuzz_file(file, status == SS_OK ? &arch : NULL);
    read_tokens(file);
    return 0;
}
