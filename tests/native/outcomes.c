/*
 * outcomes MODEL_FOLDER STEP
 *
 * Runs every STEP-th list of edits of edit_lists.h and prints a line for each, which the wasm
 * builds must print, too. The columns of a line, separated by tabs, are the edits, the status, and
 * the bits of the run or the place and sentence of the error.
 */
#include "edit_lists.h"

int main(int argc, char **argv) {
    static const int32_t tokens[] = {3, 1, 4, 1};
    enum { T = sizeof tokens / sizeof *tokens };
    if (argc != 3) {
        printf("usage: outcomes MODEL_FOLDER STEP\n");
        return 2;
    }
    opened_model model = open_model(argv[1]);
    pins border_pins = pins_at_borders(T);
    int step = (int)strtol(argv[2], NULL, 10);
    for (int i = 0; i < border_lists(&border_pins); i += step) {
        edit_list list = border_list(&border_pins, i, T);
        if (list.n == 0) continue;
        outcome result = run_list(&model.model, &list, tokens, T, 0);
        printf("%s%s%s\t%s\t", list.texts[0], list.n > 1 ? " " : "",
               list.n > 1 ? list.texts[1] : "", ss_status_name(result.status));
        if (result.status == SS_OK)
            printf("%08lx\n", (unsigned long)result.bits);
        else
            printf("%s\t%s\n", result.err.where, result.err.text);
    }
    close_model(&model);
    return 0;
}
