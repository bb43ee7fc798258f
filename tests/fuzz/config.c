/* Fuzzes config.json against tiny weights with the tensors of every variant, so that accepted
 * configs run. */
#include "target.h"

/* Without additions, with one per head, and with additions that the heads share. */
static const char *const names[] = {"llama", "own", "shared"};
#define FILES (sizeof names / sizeof *names)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ss_bytes weights[FILES];
    for (size_t i = 0; i < FILES; i++)
        if (!weights[i].data) weights[i] = read_seed("safetensors", names[i], ".safetensors");
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read(&arch, (ss_bytes){data, size}, &err);
    check(status, &err);
    for (size_t i = 0; i < FILES && status == SS_OK; i++) fuzz_file(weights[i], &arch);
    return 0;
}
