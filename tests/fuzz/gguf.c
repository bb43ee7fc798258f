/* Fuzzes GGUF: reads the metadata and the tensors of an input, and opens the model in it. */
#include "target.h"

#include "model/gguf/gguf.h"

static void read_values(ss_bytes file) {
    ss_gguf gguf;
    ss_gguf_pair pair = {0};
    ss_error err;
    ss_status status = ss_gguf_begin(&gguf, file, &err);
    /* Reads every byte of each value, so that the sanitizer detects a byte beyond the file. */
    volatile unsigned sum = 0;
    for (uint64_t p = 0; status == SS_OK && p < gguf.pairs_n; p++) {
        status = ss_gguf_next_pair(&gguf, &pair, &err);
        for (size_t i = 0; status == SS_OK && i < pair.value.n; i++) sum = sum + pair.value.data[i];
    }
    check(status, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_bytes file = {data, size};
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read_gguf(&arch, file, &err);
    check(status, &err);
    fuzz_file(file, status == SS_OK ? &arch : NULL);
    read_values(file);
    return 0;
}
