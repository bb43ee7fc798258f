/*
 * outcomes MODEL_FOLDER STEP
 *
 * Every STEP-th list of edits of edit_lists.h, with what becomes of it: what the wasm builds must
 * say as well. A line each, with tabs between: the edits, separated by spaces; then the status, and
 * the bits of a run or the place and the sentence of a refusal.
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
    pins borders = border_pins(T);
    int step = (int)strtol(argv[2], NULL, 10);
    for (int i = 0; i < border_lists(&borders); i += step) {
        edit_list list = border_list(&borders, i, T);
        if (list.n == 0) continue;
        outcome found = run_list(&model.model, &list, tokens, T, 0);
        printf("%s%s%s\t%s\t", list.texts[0], list.n > 1 ? " " : "",
               list.n > 1 ? list.texts[1] : "", ss_status_name(found.status));
        if (found.status == SS_OK)
            printf("%08lx\n", (unsigned long)found.bits);
        else
            printf("%s\t%s\n", found.err.where, found.err.text);
    }
    close_model(&model);
    return 0;
}
