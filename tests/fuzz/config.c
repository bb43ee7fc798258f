/* config.json, against tiny weights with all that a variant may have, so that what it says runs. */
#include "target.h"

#include <stdio.h>

#define WEIGHTS_MAX 65536

/* Additions of each head, or shared by all; without any, what they are for is missing. */
static const char *const names[] = {"llama", "own", "shared"};
#define FILES (sizeof names / sizeof *names)

static ss_bytes read_weights(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "tests/fuzz/seeds/safetensors/%s.safetensors", name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(WEIGHTS_MAX);
    if (!file || !data) abort(); /* run from the repository's root */
    size_t n = fread(data, 1, WEIGHTS_MAX, file);
    fclose(file);
    return (ss_bytes){data, n};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ss_bytes weights[FILES];
    for (size_t i = 0; i < FILES; i++)
        if (!weights[i].data) weights[i] = read_weights(names[i]);
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read(&arch, (ss_bytes){data, size}, &err);
    check(status, &err);
    for (size_t i = 0; i < FILES && status == SS_OK; i++) fuzz_file(weights[i], &arch);
    return 0;
}
