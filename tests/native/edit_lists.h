/*
 * Lists of edits that are generated from the EDIT table, so that a new row is tested automatically:
 * every integer at the limits of a text of T tokens, and every pair of edits.
 */
#ifndef SS_TEST_EDIT_LISTS_H
#define SS_TEST_EDIT_LISTS_H

#include "traces.h"

#include <limits.h>

/* A parameter of an edit and the value to which a list sets it; for a choice, the value is the
 * index of a word. */
typedef struct pin {
    int row, parameter; /* parameter -1 pins nothing */
    long value;
} pin;

typedef struct edit_list {
    char texts[2][256];
    int n;
} edit_list;

typedef struct pins {
    pin pins[512];
    int n;
} pins;

static inline int draw_below(uint32_t *state, int n) {
    return (int)((next_random(state) >> 8) % (uint32_t)n);
}

static inline bool is_integer(const ss_edit_parameter *parameter) {
    return parameter->type == SS_EDIT_INTEGER || parameter->type == SS_EDIT_INDEX;
}

static inline void add_pin(pins *list, pin new_pin) {
    if (list->n == (int)(sizeof list->pins / sizeof *list->pins)) exit(2);
    list->pins[list->n++] = new_pin;
}

/* Returns pins of every integer of every row at 0, T-1, T, T+1, its highest value and 2^31-1. */
static inline pins pins_at_borders(int T) {
    int rows;
    const ss_edit_kind *table = ss_edits(&rows);
    pins list = {.n = 0};
    for (int row = 0; row < rows; row++)
        for (int p = 0; p < SS_EDIT_PARAMETERS && table[row].parameters[p].name; p++)
            if (is_integer(&table[row].parameters[p])) {
                long high = (long)table[row].parameters[p].high;
                long values[] = {0, T - 1, T, T + 1, INT_MAX, high};
                for (int i = 0; i < 5 + (high > 0); i++) add_pin(&list, (pin){row, p, values[i]});
            }
    return list;
}

/* Returns pins of every word of the first choice of every row, such as the policies of an eviction;
 * a row without a choice gets an empty pin. */
static inline pins choice_pins(void) {
    int rows;
    const ss_edit_kind *table = ss_edits(&rows);
    pins list = {.n = 0};
    for (int row = 0; row < rows; row++) {
        const ss_edit_parameter *parameters = table[row].parameters;
        int p = 0;
        while (p < SS_EDIT_PARAMETERS && parameters[p].name && !parameters[p].choices) p++;
        bool has_choice = p < SS_EDIT_PARAMETERS && parameters[p].name;
        for (int i = 0; has_choice ? parameters[p].choices[i] != NULL : i < 1; i++)
            add_pin(&list, (pin){row, has_choice ? p : -1, i});
    }
    return list;
}

static inline size_t write_parameter(char *out, size_t room, const ss_edit_parameter *parameter,
                                     const long *pin_value, int T, uint32_t *state) {
    int n, count = 0;
    const ss_operation *operations = ss_operations(&n);
    while (parameter->choices && parameter->choices[count]) count++;
    if (parameter->choices) {
        long i = pin_value ? *pin_value : draw_below(state, count);
        return (size_t)snprintf(out, room, "%s=%s,", parameter->name, parameter->choices[i]);
    }
    if (parameter->type == SS_EDIT_OPERATION)
        return (size_t)snprintf(out, room, "%s=%s,", parameter->name,
                                operations[draw_below(state, n)].name);
    if (parameter->type == SS_EDIT_NUMBER)
        return (size_t)snprintf(out, room, "%s=%s,", parameter->name,
                                (const char *[]){"0", "0.5", "2", "-1"}[draw_below(state, 4)]);
    long value = (long[]){0, 1, 2, T / 2, T - 1}[draw_below(state, 5)];
    if (value < (long)parameter->low) value = (long)parameter->low;
    return (size_t)snprintf(out, room, "%s=%ld,", parameter->name, pin_value ? *pin_value : value);
}

/* Writes an edit of a row with the pinned parameters. Other parameters are drawn at random: the
 * required ones always, the optional ones half of the time. */
static inline void write_edit(char *out, size_t room, int row, const pin *edit_pins, int pins_n,
                              int T, uint32_t *state) {
    int rows;
    const ss_edit_kind *kind = &ss_edits(&rows)[row];
    size_t used = (size_t)snprintf(out, room, "%s(", kind->name);
    for (int p = 0; p < SS_EDIT_PARAMETERS && kind->parameters[p].name; p++) {
        const ss_edit_parameter *parameter = &kind->parameters[p];
        const long *value = NULL;
        for (int i = 0; i < pins_n; i++)
            if (edit_pins[i].parameter == p) value = &edit_pins[i].value;
        if (value || parameter->required || draw_below(state, 2))
            used += write_parameter(out + used, room - used, parameter, value, T, state);
    }
    if (used >= room) exit(2);
    bool has_values = out[used - 1] == ',';
    snprintf(out + used - (has_values ? 1 : 0), 2, ")");
}

/* Draws an edit with this pin whose other parameters are valid in a run of T tokens; returns false
 * if a hundred draws give none. */
static inline bool draw_edit(ss_edit *edit, char text[256], const ss_model *model, int T,
                             const pin *edit_pins, uint32_t *state) {
    ss_error err;
    ss_run_desc desc = {model, T, SS_FIELDS_ALL, edit, 1, NULL, 0, NULL, 0};
    for (int i = 0; i < 100; i++) {
        write_edit(text, 256, edit_pins->row, edit_pins, 1, 8, state);
        *edit = read_edit(text);
        if (try_run(&desc, &err) == SS_OK) return true;
    }
    return false;
}

static inline edit_list list_of_two(pin a, pin b, int T, uint32_t *state) {
    edit_list list = {.n = 2};
    write_edit(list.texts[0], sizeof *list.texts, a.row, &a, 1, T, state);
    write_edit(list.texts[1], sizeof *list.texts, b.row, &b, 1, T, state);
    return list;
}

#define DRAWS_ALONE 12

static inline int border_lists(const pins *borders) {
    return borders->n * (DRAWS_ALONE + 2 * borders->n);
}

/* Returns list i: one pin, two pins of one edit, or two edits with a pin each. The list is empty
 * where two pins do not fit one edit. */
static inline edit_list border_list(const pins *borders, int i, int T) {
    uint32_t state = (uint32_t)i * 2654435761u + 17;
    edit_list list = {.n = 0};
    int single_lists = borders->n * DRAWS_ALONE;
    if (i < single_lists) {
        const pin *pin_alone = &borders->pins[i / DRAWS_ALONE];
        write_edit(list.texts[0], sizeof *list.texts, pin_alone->row, pin_alone, 1, T, &state);
        list.n = 1;
        return list;
    }
    i -= single_lists;
    pin pair[] = {borders->pins[i / 2 % borders->n], borders->pins[i / 2 / borders->n]};
    if (i % 2) return list_of_two(pair[0], pair[1], T, &state);
    if (pair[0].row != pair[1].row || pair[0].parameter == pair[1].parameter) return list;
    write_edit(list.texts[0], sizeof *list.texts, pair[0].row, pair, 2, T, &state);
    list.n = 1;
    return list;
}

/* The result of a run under a list of edits: an error, or a hash of the run's bits. */
typedef struct outcome {
    ss_status status;
    ss_error err;
    uint32_t bits; /* FNV-1a of the hidden states and the last logits */
    bool finite;
} outcome;

static inline void add_bits(outcome *result, const float *numbers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &numbers[i], sizeof word);
        for (int byte = 0; byte < 4; byte++)
            result->bits = (result->bits ^ (word >> 8 * byte & 255)) * 16777619u;
        result->finite &= isfinite(numbers[i]) != 0;
    }
}

static inline outcome run_list(const ss_model *model, const edit_list *list, const int32_t *tokens,
                               int T, int filling) {
    ss_edit edits[2];
    outcome result = {.bits = 2166136261u, .finite = true};
    for (int i = 0; i < list->n; i++) edits[i] = read_edit(list->texts[i]);
    ss_run_desc desc = {model, T + 1, SS_FIELDS_ALL, edits, list->n, NULL, 0, NULL, 0};
    ss_run run;
    size_t bytes;
    result.status = ss_run_size(&bytes, &desc, &result.err);
    if (result.status != SS_OK) return result;
    ss_arena arena = arena_of(bytes);
    memset(arena.block, filling, bytes);
    result.status = ss_run_init(&run, &desc, &arena, &result.err);
    if (result.status == SS_OK) result.status = ss_run_extend(&run, tokens, T, &result.err);
    const ss_arch *arch = &model->arch;
    for (int l = 0; l <= arch->L && result.status == SS_OK; l++)
        add_bits(&result, ss_row(&run.trace, SS_FIELD_HIDDEN, l, 0), (size_t)(T * arch->D));
    if (result.status == SS_OK)
        add_bits(&result, ss_floats(&run.trace, SS_FIELD_NEXT), (size_t)arch->V);
    free(arena.block);
    return result;
}

#endif
