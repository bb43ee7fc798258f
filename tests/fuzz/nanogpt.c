/* Fuzzes nanoGPT's ckpt.pt, whose architecture is in the file: reads it, and runs the models that
 * open. */
#include "torch_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_bytes file = torch_zip(data, size);
    size_t bytes = ss_container_size(&file, 1);
    if (bytes > ARENA_BYTES(file.n)) abort();
    ss_arena arena = fuzz_arena(bytes);
    ss_arch arch;
    ss_error err;
    ss_status status = ss_arch_read_nanogpt(&arch, file, &arena, &err);
    check(status, &err);
    free(arena.block);
    if (status == SS_OK) fuzz_file(file, &arch);
    free((void *)(uintptr_t)file.data);
    return 0;
}
