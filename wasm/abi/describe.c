/* Writes sinkscope.describe.json: the description of a native build, with the texts that the
 * binaries leave out. */
#include "bindings.h"

#include <stdio.h>

int main(int n, char **args) {
    static char text[SS_DESCRIBE_BYTES];
    FILE *file = n == 2 ? fopen(args[1], "w") : NULL;
    bool is_written = file && ss_describe(text, sizeof text, WASM_ABI_VERSION, NULL) == SS_OK &&
                      fputs(text, file) >= 0;
    return file && !fclose(file) && is_written ? 0 : 1;
}
