/* Lists of edits from the EDIT table: no parameter makes a run read beyond the text, and an updated
 * run equals a new one under any two edits. */
#include "check.h"
#include "edit_lists.h"

#define LLAMA "tests/golden/hf-llama-gqa"
#define GPT2 "tests/golden/hf-gpt2-plain"
#define T_BORDERS 4

static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
#define T_UPDATES ((int)(sizeof prompt / sizeof *prompt))

static void check_list(const ss_model *model, const edit_list *list, outcome *result) {
    outcome repetition = run_list(model, list, prompt, T_BORDERS, 0x11);
    *result = run_list(model, list, prompt, T_BORDERS, 0xff); /* memory filled with NaN */
    bool is_same =
        result->status == repetition.status && result->bits == repetition.bits && result->finite;
    bool is_placed = result->status == SS_OK || (!strncmp(result->err.where, "edits[", 6) &&
                                                 strstr(result->err.text, "expected"));
    is_same &= result->status == SS_OK || !strcmp(result->err.text, repetition.err.text);
    if (check_failed(is_same && is_placed, __FILE__, __LINE__, "the same numbers, or a refusal"))
        printf("    %s %s: %s %s: %s\n", list->texts[0], list->n > 1 ? list->texts[1] : "",
               ss_status_name(result->status), result->err.where, result->err.text);
}

static void check_borders(const char *folder, int step) {
    CASE("edits at the limits of their integers give finite numbers that do not depend on "
         "uninitialized memory, or an error with its place");
    scoped_model model = open_model(folder);
    pins borders = pins_at_borders(T_BORDERS);
    int rows, accepted_n[64] = {0};
    const ss_edit_kind *table = ss_edits(&rows);
    CHECK(rows <= 64);
    for (int i = 0; i < border_lists(&borders); i += step) {
        outcome result;
        edit_list list = border_list(&borders, i, T_BORDERS);
        if (list.n == 0) continue;
        check_list(&model.model, &list, &result);
        for (int e = 0; e < list.n && result.status == SS_OK; e++)
            accepted_n[read_edit(list.texts[e]).kind]++;
    }
    for (int row = 0; row < rows; row++) {
        CASE(table[row].name);
        CHECK(accepted_n[row] > 140 / step);
    }
}

static void check_prompts(void) {
    CASE("a prompt that is longer than the text is refused by the edit and the parameter");
    scoped_model model = open_model(GPT2);
    const char *texts[] = {"quantize(what=keys,bits=3,by=tensor)",
                           "quantize(what=queries,bits=5,by=tensor,prompt=5)"};
    ss_edit edits[] = {read_edit(texts[0]), read_edit(texts[1])};
    ss_run_desc desc = {&model.model, 8, SS_FIELDS_ALL, edits, 2, NULL, 0, NULL, 0};
    scoped_run run = open_run(&desc);
    ss_error err;
    for (int T = 1; T < 5; T++) {
        CHECK_INT((int)ss_run_extend(&run.run, prompt, T, &err), SS_UNSUPPORTED);
        CHECK_TEXT(err.where, "edits[1].prompt");
        char expected[96];
        snprintf(expected, sizeof expected, "expected the 5 tokens of the prompt at once, found %d",
                 T);
        CHECK_TEXT(err.text, expected);
    }
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 5, &err), SS_OK);
    CHECK_INT((int)ss_run_update(&run.run, prompt, 4, &err), SS_UNSUPPORTED);
    CHECK_INT(run.run.trace.T, 5);
}

static void update_run(opened_run *run, const ss_run_desc *desc, uint32_t *state) {
    int32_t text[T_UPDATES];
    ss_error err;
    int T = run->run.trace.T, kept_n = draw_below(state, T + 1);
    int n = kept_n + draw_below(state, T_UPDATES + 1 - kept_n);
    if (n == 0) n = 1;
    for (int t = 0; t < n; t++)
        text[t] = t < kept_n ? ss_tokens(&run->run.trace)[t] : prompt[draw_below(state, T_UPDATES)];
    check_updated(run, ss_run_update(&run->run, text, n, &err), desc, text, n);
}

/* Updates a run several times under edits with these pins; returns false if the model refuses the
 * edits. */
static bool follow_updates(const ss_model *model, const pin *a, const pin *b, uint32_t state) {
    ss_edit edits[2];
    char texts[2][256];
    ss_run_desc desc = {model, T_UPDATES + 1, SS_FIELDS_ALL, edits, 2, NULL, 0, NULL, 0};
    ss_error err;
    if (!draw_edit(&edits[0], texts[0], model, T_UPDATES + 1, a, &state) ||
        !draw_edit(&edits[1], texts[1], model, T_UPDATES + 1, b, &state) ||
        try_run(&desc, &err) != SS_OK)
        return false;
    scoped_run run = open_run(&desc);
    long failed_before = check_state.failed;
    bool began = ss_run_extend(&run.run, prompt, 7, &err) == SS_OK;
    for (int i = 0; i < 4 && began; i++) update_run(&run, &desc, &state);
    if (check_state.failed > failed_before) printf("    %s %s\n", texts[0], texts[1]);
    return true;
}

static void check_pairs_continue(const char *folder, bool has_all) {
    CASE("an updated run equals a new one under any two edits, with every policy and in both "
         "orders");
    scoped_model model = open_model(folder);
    pins choices = choice_pins();
    int rows;
    const ss_edit_kind *table = ss_edits(&rows);
    int uses[512] = {0}, draws_n = check_trials(1), every = 1;
#ifdef __SANITIZE_ADDRESS__
    if (draws_n == 1) every = 6; /* a pair takes ten times as long */
#endif
    for (int a = 0; a < choices.n; a++)
        for (int b = 0; b < choices.n; b++)
            for (int draw = 0; draw < (table[choices.pins[a].row].replays ? 2 : 1) * draws_n;
                 draw++) { /* an edit that has state gets twice as many draws */
                uint32_t state = (uint32_t)((a * choices.n + b) * 8 + draw) * 2654435761u + 3;
                if ((state >> 8) % (uint32_t)every) continue;
                bool runs = follow_updates(&model.model, &choices.pins[a], &choices.pins[b], state);
                uses[a] += runs;
                uses[b] += runs;
            }
    for (int i = 0; i < choices.n && has_all; i++)
        if (check_failed(uses[i] > choices.n / every, __FILE__, __LINE__, "most lists can be run"))
            printf("    %d of choice %ld of row %d\n", uses[i], choices.pins[i].value,
                   choices.pins[i].row);
}

static void check_table_of_pairs(void) {
    CASE("the table lets an updated run continue under any two edits, except park after evict");
    int rows;
    const ss_edit_kind *table = ss_edits(&rows);
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < rows; b++) {
            bool stops_updates = !strcmp(table[a].name, "evict") && !strcmp(table[b].name, "park");
            if (check_failed(ss_edits_continue(&table[a], &table[b]) == !stops_updates, __FILE__,
                             __LINE__, "which pairs continue"))
                printf("    %s, then %s\n", table[a].name, table[b].name);
        }
    for (int a = 0; a < rows; a++) CHECK(!(table[a].replays & ~table[a].hook_points));
}

int main(void) {
    check_prompts();
    check_borders(LLAMA, 7);
    check_borders(GPT2, 23);
    check_borders("tests/golden/hf-deepseek_v2", 17); /* values narrower than keys */
    check_borders("tests/golden/hf-gemma4", 17); /* layers whose heads differ in width and number */
    check_table_of_pairs();
    check_pairs_continue(LLAMA, true);
#ifdef __SANITIZE_ADDRESS__
    if (check_trials(1) == 1) return check_done(); /* every pair takes ten times as long */
#endif
    check_pairs_continue(GPT2, false);
    return check_done();
}
