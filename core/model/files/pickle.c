#include "pickle.h"

#include <stdio.h>
#include <string.h>

/* Upper bound of the rank of a tensor: torch's operations support no more dimensions. */
#define RANK_MAX 64

typedef enum name_use { USE_TABLE, USE_TENSOR, USE_PARAMETER, USE_STORAGE } name_use;

/* The names that a pickle may import: module and type.name. */
static const struct {
    const char *module;
    name_use use;
    ss_storage_type type; /* bytes and type are for USE_STORAGE only */
} names[] = {
    {"collections", USE_TABLE, {"OrderedDict", 0, -1}},
    {"torch._utils", USE_TENSOR, {"_rebuild_tensor_v2", 0, -1}},
    {"torch._utils", USE_PARAMETER, {"_rebuild_parameter", 0, -1}},
    {"torch", USE_STORAGE, {"FloatStorage", 4, SS_F32}},
    {"torch", USE_STORAGE, {"HalfStorage", 2, SS_F16}},
    {"torch", USE_STORAGE, {"BFloat16Storage", 2, SS_BF16}},
    {"torch", USE_STORAGE, {"IntStorage", 4, SS_I32}},
    {"torch", USE_STORAGE, {"DoubleStorage", 8, SS_F64}},
    {"torch", USE_STORAGE, {"LongStorage", 8, -1}},
    {"torch", USE_STORAGE, {"ShortStorage", 2, -1}},
    {"torch", USE_STORAGE, {"CharStorage", 1, -1}},
    {"torch", USE_STORAGE, {"ByteStorage", 1, -1}},
    {"torch", USE_STORAGE, {"BoolStorage", 1, -1}},
};

const ss_storage_type *ss_pickle_storage_type(const ss_pickle_value *name) {
    return &names[name->number].type;
}

typedef struct machine {
    ss_pickle *pickle;
    ss_pickle_value *stack, *memo; /* [capacity], one for each byte of the pickle */
    size_t capacity, depth, memo_n, opcode_offset, offset; /* offset: of the next byte */
    int opcode;                                            /* the opcode that is executed */
    int64_t tables_n;
    bool has_stopped;
    ss_status status;
    ss_error *err;
} machine;

static ss_bytes code_of(const machine *m) {
    return m->pickle->code;
}

static void fail(machine *m, ss_status code, const char *expected, const char *actual) {
    char where[48];
    snprintf(where, sizeof where, "data.pkl byte %lu", (unsigned long)m->opcode_offset);
    if (m->status == SS_OK)
        m->status = ss_fail(m->err, code, where, "expected %s, found %s", expected, actual);
}

static void push(machine *m, ss_pickle_value value) {
    if (m->status != SS_OK) return;
    if (m->depth == m->capacity)
        fail(m, SS_BAD_FILE, "fewer values than the pickle has bytes", "more");
    else
        m->stack[m->depth++] = value;
}

static ss_pickle_value pop(machine *m) {
    const ss_pickle_value nothing = {.kind = SS_PICKLE_NONE};
    if (m->depth == 0 || m->stack[m->depth - 1].kind == SS_PICKLE_MARK)
        fail(m, SS_BAD_FILE, "a value on the stack", "none");
    return m->status == SS_OK ? m->stack[--m->depth] : nothing;
}

static uint64_t take(machine *m, size_t width) {
    uint64_t value = 0;
    if (!ss_read_uint(&value, code_of(m), m->offset, width))
        fail(m, SS_BAD_FILE, "more bytes after the opcode", "the pickle's end");
    m->offset += m->status == SS_OK ? width : 0;
    return value;
}

static void push_number(machine *m, uint32_t kind, int64_t number) {
    push(m, (ss_pickle_value){.kind = kind, .number = number});
}

static void push_text(machine *m, uint64_t n) {
    if (m->status != SS_OK) return;
    if (n > code_of(m).n - m->offset) {
        fail(m, SS_BAD_FILE, "a text inside the pickle", "a longer one");
        return;
    }
    push(m, (ss_pickle_value){SS_PICKLE_TEXT, (uint32_t)n, (int64_t)m->offset});
    m->offset += (size_t)n;
}

static void push_tuple(machine *m, size_t n) {
    ss_pickle *pickle = m->pickle;
    if (m->status != SS_OK) return;
    SS_ASSERT(n <= m->depth && pickle->tuples_n + n <= m->capacity);
    size_t first = pickle->tuples_n;
    m->depth -= n;
    if (n) memcpy(pickle->tuples + first, m->stack + m->depth, n * sizeof *m->stack);
    pickle->tuples_n += n;
    push(m, (ss_pickle_value){SS_PICKLE_TUPLE, (uint32_t)n, (int64_t)first});
}

static size_t take_mark(machine *m) {
    size_t n = 0;
    while (n < m->depth && m->stack[m->depth - 1 - n].kind != SS_PICKLE_MARK) n++;
    if (n == m->depth) fail(m, SS_BAD_FILE, "a mark on the stack", "none");
    if (m->status != SS_OK) return 0;
    ss_pickle_value *mark = m->stack + m->depth - 1 - n;
    memmove(mark, mark + 1, n * sizeof *mark);
    m->depth--;
    return n;
}

static void op_protocol(machine *m) {
    uint64_t version = take(m, 1);
    if (version < 2 || version > 4) fail(m, SS_UNSUPPORTED, "pickle protocol 2 to 4", "another");
}

static void op_frame(machine *m) {
    take(m, 8);
}

static void op_constant(machine *m) {
    switch (m->opcode) {
    case '(': push_number(m, SS_PICKLE_MARK, 0); break;
    case ']': push_number(m, SS_PICKLE_LIST, 0); break;
    case '}': push_number(m, SS_PICKLE_TABLE, m->tables_n++); break;
    case ')': push_tuple(m, 0); break;
    case 'N': push_number(m, SS_PICKLE_NONE, 0); break;
    default: push_number(m, SS_PICKLE_BOOL, m->opcode == 0x88);
    }
}

static void op_number(machine *m) {
    size_t width = m->opcode == 'K' ? 1 : m->opcode == 'M' ? 2 : 4;
    uint64_t bits = take(m, width);
    push_number(m, SS_PICKLE_NUMBER, m->opcode == 'J' ? (int32_t)bits : (int64_t)bits);
}

/* Pushes a LONG1: a number in two's complement after its length. Every negative number becomes -1,
 * since sizes and offsets are not negative. */
static void op_long(machine *m) {
    uint64_t n = take(m, 1);
    if (n > 8) fail(m, SS_UNSUPPORTED, "a number of at most 8 bytes", "a longer one");
    if (m->status != SS_OK) return;
    uint64_t bits = n ? take(m, (size_t)n) : 0;
    push_number(m, SS_PICKLE_NUMBER, n && bits >> (8 * n - 1) ? -1 : (int64_t)bits);
}

/* Pushes a BINFLOAT: eight bytes, whose value is dropped, since no size is a fraction. */
static void op_real(machine *m) {
    take(m, 8);
    push_number(m, SS_PICKLE_REAL, 0);
}

static void op_text(machine *m) {
    push_text(m, take(m, m->opcode == 0x8c ? 1 : m->opcode == 'X' ? 4 : 8));
}

static void op_get(machine *m) {
    uint64_t i = take(m, m->opcode == 'h' ? 1 : 4);
    if (m->status == SS_OK && (i >= m->capacity || m->memo[i].kind == SS_PICKLE_UNSET))
        fail(m, SS_BAD_FILE, "a place of the memo that was put", "another");
    if (m->status == SS_OK) push(m, m->memo[i]);
}

static void op_put(machine *m) {
    uint64_t i = m->opcode == 0x94 ? m->memo_n : take(m, m->opcode == 'q' ? 1 : 4);
    if (i >= m->capacity)
        fail(m, SS_BAD_FILE, "a place of the memo below the pickle's size", "another");
    ss_pickle_value value = pop(m);
    push(m, value);
    if (m->status != SS_OK) return;
    m->memo[i] = value;
    m->memo_n++;
}

static void op_tuple(machine *m) {
    size_t n = m->opcode == 't' ? take_mark(m) : (size_t)m->opcode - 0x84;
    if (m->depth < n) fail(m, SS_BAD_FILE, "enough values for a tuple", "fewer");
    for (size_t i = 0; m->status == SS_OK && i < n; i++)
        if (m->stack[m->depth - 1 - i].kind == SS_PICKLE_MARK)
            fail(m, SS_BAD_FILE, "enough values for a tuple", "a mark");
    push_tuple(m, n);
}

static void push_name(machine *m, ss_bytes module, ss_bytes name) {
    if (m->status != SS_OK) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ss_bytes_equal(module, names[i].module) && ss_bytes_equal(name, names[i].type.name)) {
            push_number(m, SS_PICKLE_NAME, (int64_t)i);
            return;
        }
    char actual[128];
    snprintf(actual, sizeof actual, "%.*s.%.*s, which is not called",
             module.n < 48 ? (int)module.n : 48, (const char *)module.data,
             name.n < 48 ? (int)name.n : 48, (const char *)name.data);
    fail(m, SS_UNSUPPORTED, "a table of plain tensors", actual);
}

static ss_bytes take_line(machine *m) {
    ss_bytes code = code_of(m), line = {code.data + m->offset, 0};
    while (m->offset < code.n && code.data[m->offset] != '\n') m->offset++;
    line.n = (size_t)(code.data + m->offset - line.data);
    if (m->offset == code.n)
        fail(m, SS_BAD_FILE, "a name that ends with a line", "the pickle's end");
    m->offset += m->offset < code.n;
    return line;
}

static void op_global(machine *m) {
    ss_bytes module = take_line(m), name = take_line(m);
    push_name(m, module, name);
}

static void op_stack_global(machine *m) {
    ss_pickle_value name = pop(m), module = pop(m);
    if (name.kind != SS_PICKLE_TEXT || module.kind != SS_PICKLE_TEXT)
        fail(m, SS_BAD_FILE, "two texts that make a name", "something else");
    if (m->status == SS_OK)
        push_name(m, ss_pickle_text(m->pickle, &module), ss_pickle_text(m->pickle, &name));
}

/* Checks the persistent id of a storage: ("storage", type, key, device, numbers). */
static bool is_storage(const machine *m, const ss_pickle_value *id) {
    if (id->kind != SS_PICKLE_TUPLE || id->n != 5) return false;
    const ss_pickle_value *parts = m->pickle->tuples + id->number;
    return parts[0].kind == SS_PICKLE_TEXT &&
           ss_bytes_equal(ss_pickle_text(m->pickle, &parts[0]), "storage") &&
           parts[1].kind == SS_PICKLE_NAME && names[parts[1].number].use == USE_STORAGE &&
           (parts[2].kind == SS_PICKLE_TEXT ||
            (parts[2].kind == SS_PICKLE_NUMBER && parts[2].number >= 0 &&
             parts[2].number <= SS_PICKLE_KEY_MAX)) &&
           parts[3].kind == SS_PICKLE_TEXT && parts[4].kind == SS_PICKLE_NUMBER &&
           parts[4].number >= 0;
}

static void op_storage(machine *m) {
    ss_pickle_value id = pop(m);
    if (!is_storage(m, &id))
        fail(m, SS_BAD_FILE, "(\"storage\", type, key, device, numbers)", "something else");
    push(m, (ss_pickle_value){SS_PICKLE_STORAGE, 5, id.number});
}

/* Checks sizes or strides: non-negative integers. The length is bounded because many tensors may
 * share one tuple, which is read for each of them. */
static bool is_shape(const machine *m, const ss_pickle_value *value) {
    if (value->kind != SS_PICKLE_TUPLE || value->n > RANK_MAX) return false;
    const ss_pickle_value *numbers = m->pickle->tuples + value->number;
    for (uint32_t i = 0; i < value->n; i++)
        if (numbers[i].kind != SS_PICKLE_NUMBER || numbers[i].number < 0) return false;
    return true;
}

/* Checks the arguments of torch._utils._rebuild_tensor_v2, whose hooks are ignored. torch adds
 * metadata only where the numbers are to be negated or conjugated. */
static bool is_tensor(const machine *m, const ss_pickle_value *args) {
    const ss_pickle_value *parts = m->pickle->tuples + args->number;
    return args->n == 6 && parts[0].kind == SS_PICKLE_STORAGE &&
           parts[1].kind == SS_PICKLE_NUMBER && parts[1].number >= 0 && is_shape(m, &parts[2]) &&
           is_shape(m, &parts[3]) && parts[2].n == parts[3].n;
}

static void op_reduce(machine *m) {
    ss_pickle_value args = pop(m), name = pop(m);
    if (args.kind != SS_PICKLE_TUPLE || name.kind != SS_PICKLE_NAME)
        fail(m, SS_BAD_FILE, "a name and a tuple of arguments", "something else");
    if (m->status != SS_OK) return;
    const ss_pickle_value *parts = m->pickle->tuples + args.number;
    name_use use = names[name.number].use;
    if (use == USE_TABLE && args.n == 0)
        push_number(m, SS_PICKLE_TABLE, m->tables_n++);
    else if (use == USE_TENSOR && is_tensor(m, &args))
        push(m, (ss_pickle_value){SS_PICKLE_TENSOR, args.n, args.number});
    else if (use == USE_PARAMETER && args.n == 3 && parts[0].kind == SS_PICKLE_TENSOR)
        push(m, parts[0]);
    else
        fail(m, SS_BAD_FILE, "the arguments that torch writes", "others");
}

/* Handles a BUILD, whose state of an OrderedDict has no weights and is dropped. */
static void op_build(machine *m) {
    pop(m);
    ss_pickle_value table = pop(m);
    if (table.kind != SS_PICKLE_TABLE) fail(m, SS_UNSUPPORTED, "a table to build", "another value");
    push(m, table);
}

static void set_items(machine *m, size_t n, bool pairs) {
    if (m->status != SS_OK) return;
    m->depth -= n;
    const ss_pickle_value *values = m->stack + m->depth;
    ss_pickle_value owner = pop(m);
    if (owner.kind != (pairs ? SS_PICKLE_TABLE : SS_PICKLE_LIST) || (pairs && n % 2))
        fail(m, SS_BAD_FILE, pairs ? "a table and pairs" : "a list", "something else");
    for (size_t i = 0; pairs && m->status == SS_OK && i < n; i += 2) {
        SS_ASSERT(m->pickle->items_n < m->capacity / 2 + 1);
        m->pickle->items[m->pickle->items_n++] =
            (ss_pickle_item){owner.number, values[i], values[i + 1]};
    }
    push(m, owner);
}

static void op_set(machine *m) {
    bool pairs = m->opcode == 'u' || m->opcode == 's';
    size_t n = m->opcode == 's' ? 2 : 1;
    if (m->opcode == 'u' || m->opcode == 'e') n = take_mark(m);
    if (m->depth < n) fail(m, SS_BAD_FILE, "values to set", "fewer");
    set_items(m, n, pairs);
}

static void op_stop(machine *m) {
    ss_pickle_value result = pop(m);
    if (result.kind != SS_PICKLE_TABLE || m->depth)
        fail(m, SS_BAD_FILE, "one table of tensors", "something else");
    m->pickle->table = result.number;
    m->has_stopped = true;
}

typedef void operation(machine *m);

static operation *const operations[256] = {
    [0x80] = op_protocol, [0x95] = op_frame,    ['G'] = op_real,     ['('] = op_constant,
    [']'] = op_constant,  ['}'] = op_constant,  [')'] = op_constant, ['N'] = op_constant,
    [0x88] = op_constant, [0x89] = op_constant, ['K'] = op_number,   ['M'] = op_number,
    ['J'] = op_number,    [0x8a] = op_long,     ['X'] = op_text,     [0x8c] = op_text,
    [0x8d] = op_text,     ['h'] = op_get,       ['j'] = op_get,      ['q'] = op_put,
    ['r'] = op_put,       [0x94] = op_put,      ['t'] = op_tuple,    [0x85] = op_tuple,
    [0x86] = op_tuple,    [0x87] = op_tuple,    ['c'] = op_global,   [0x93] = op_stack_global,
    ['Q'] = op_storage,   ['R'] = op_reduce,    ['b'] = op_build,    ['s'] = op_set,
    ['u'] = op_set,       ['a'] = op_set,       ['e'] = op_set,      ['.'] = op_stop,
};

static void step(machine *m) {
    m->opcode_offset = m->offset;
    m->opcode = (int)take(m, 1);
    if (m->status == SS_OK && !operations[m->opcode]) {
        char actual[32];
        snprintf(actual, sizeof actual, "opcode 0x%02x", (unsigned)m->opcode);
        fail(m, SS_UNSUPPORTED, "what a table of plain tensors is written in", actual);
    }
    if (m->status == SS_OK) operations[m->opcode](m);
}

/* Takes memory for the machine. An opcode pushes at most one value, so the length of the pickle
 * bounds every array. */
static machine lay_out(ss_pickle *pickle, size_t n, ss_arena *arena) {
    machine m = {.pickle = pickle, .capacity = n};
    m.stack = ss_arena_take(arena, n, sizeof *m.stack);
    m.memo = ss_arena_take(arena, n, sizeof *m.memo);
    pickle->tuples = ss_arena_take(arena, n, sizeof *pickle->tuples);
    pickle->items = ss_arena_take(arena, n / 2 + 1, sizeof *pickle->items);
    return m;
}

size_t ss_pickle_size(size_t n) {
    ss_arena arena = ss_arena_measure();
    ss_pickle pickle;
    lay_out(&pickle, n, &arena);
    return arena.used;
}

ss_bytes ss_pickle_text(const ss_pickle *pickle, const ss_pickle_value *value) {
    return (ss_bytes){pickle->code.data + value->number, value->n};
}

ss_status ss_pickle_read(ss_pickle *pickle, ss_bytes code, ss_arena *arena, ss_error *err) {
    *pickle = (ss_pickle){.code = code};
    if (code.n > SS_PICKLE_BYTES_MAX)
        return ss_fail(err, SS_UNSUPPORTED, "data.pkl", "expected at most %d bytes, found %lu",
                       SS_PICKLE_BYTES_MAX, (unsigned long)code.n);
    machine m = lay_out(pickle, code.n, arena);
    m.err = err;
    if (arena->full) return ss_fail(err, SS_NO_MEMORY, "data.pkl", "no room to read it");
    if (code.n) memset(m.memo, 0, code.n * sizeof *m.memo);
    while (m.status == SS_OK && !m.has_stopped) step(&m);
    return m.status;
}
