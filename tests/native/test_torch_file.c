/*
 * pytorch_model.bin: files of torch.save are read; pickles that call functions or corrupt the
 * stack, and damaged files, are refused with a code and a place.
 */
#include "check.h"
#include "zips.h"

#define PLAIN "tests/golden/torch-gpt2-plain"
#define TIED "tests/golden/torch-llama-tied"

static ss_status open_pickle(opened_file *file, const char *pickle, size_t n, ss_error *err) {
    const zip_part records[] = {{.name = "m/data.pkl", .data = pickle, .n = n},
                                {.name = "m/data/0", .data = storage, .n = sizeof storage}};
    *file = (opened_file){.bytes = zip_of(records, 2, false)};
    *err = (ss_error){0};
    return open_bytes(file, err);
}

static void check_good_pickles(void) {
    static const struct {
        const char *name, *pickle;
        size_t n, tensors;
    } table[] = {
        {"a table of one tensor", TABLE(KEY("a") GOOD "s"), 1},
        {"an OrderedDict of two, with the modules' versions",
         PICKLE("\x80\2" HOOKS "(" KEY("a") GOOD KEY("b") GOOD "u}" KEY("v") HOOKS "sb."), 2},
        {"one tensor under two names, out of the memo",
         TABLE("q\0(" KEY("a") GOOD "q\1" KEY("b") "h\1u"), 2},
        {"by a number, as LitGPT and Lightning write the keys of storages",
         TABLE(KEY("a") REBUILD "(" STORAGE_AT("K\0", "\4") "K\0" TWO ONE "\x89" HOOKS "tRs"), 1},
        {"a parameter",
         TABLE(KEY("a") "ctorch._utils\n_rebuild_parameter\n(" GOOD "\x88" HOOKS "tRs"), 1},
        {"tensors of rank 0, of no numbers, and of one row whatever its stride",
         TABLE("(" KEY("a") TENSOR("0", "\4", "\3", ")", ")") KEY("b")
                   TENSOR("0", "\4", "\4", "K\0\x85", "K\1\x85") KEY("c")
                       TENSOR("0", "\4", "\0", "K\1K\2\x86", "K\7K\1\x86") "u"),
         3},
        {"beside what is no tensor",
         TABLE("(" KEY("a") GOOD KEY("b") "J\xff\xff\xff\xff" KEY("c") "N" KEY("d") "](K\1K\2e" KEY(
             "e") "]K\1au"),
         1},
        {"in state_dict", TABLE("(" KEY("s") "K\1X\12\0\0\0state_dict}" KEY("a") GOOD "su"), 1},
        {"in frames, by names that were joined on the stack",
         PICKLE("\x80\4\x95\0\0\0\0\0\0\0\0\x8c\13"
                "collections\x94\x8c\13"
                "OrderedDict\x94\x93)R" KEY("a") GOOD "s."),
         1},
        {"beside one of more dimensions than a weight has",
         TABLE("(" KEY("a") GOOD KEY("b")
                   TENSOR("0", "\4", "\0", "(" ONES_64 "t", "(" ONES_64 "t") "u"),
         2},
        {"a table that holds itself", TABLE("q\0(" KEY("t") "h\0" KEY("a") GOOD "u"), 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CASE(table[i].name);
        opened_file file;
        ss_error err;
        CHECK_INT((int)open_pickle(&file, table[i].pickle, table[i].n, &err), SS_OK);
        if (err.code) printf("    %s: %s\n", err.where, err.text);
        CHECK_INT(file.container.n, table[i].tensors);
        const ss_entry *a = ss_container_find(&file.container, "a");
        CHECK(a && a->readable && a->tensor.type == SS_F32 && a->end <= file.bytes.n);
        close_file(&file);
    }
}

static void check_bad_pickles(void) {
    static const struct {
        const char *pickle;
        size_t n;
        ss_status status;
        const char *text; /* expected part of the error */
    } table[] = {
        /* These pickles name or call functions that are not allowed, or build objects wrongly. */
        {PICKLE("\x80\2cos\nsystem\nX\2\0\0\0hi\x85R."), SS_UNSUPPORTED, "os.system"},
        {PICKLE("\x80\2"
                "cbuiltins\neval\nX\1\0\0\0"
                "1\x85R."),
         SS_UNSUPPORTED, "builtins.eval"},
        {PICKLE("\x80\4\x8c\2os\x8c\6system\x93."), SS_UNSUPPORTED, "os.system"},
        {PICKLE("\x80\2"
                "ctorch\n_load_global_deps\n."),
         SS_UNSUPPORTED, "_load_global_deps"},
        {PICKLE("\x80\2"
                "ctorch._utils\n_rebuild_tensor_v3\n."),
         SS_UNSUPPORTED, "tensor_v3"},
        {PICKLE("\x80\2(ios\nsystem\n."), SS_UNSUPPORTED, "0x69"},
        {PICKLE("\x80\2(o."), SS_UNSUPPORTED, "0x6f"},
        {PICKLE("\x80\2)\x81."), SS_UNSUPPORTED, "0x81"},
        {PICKLE("\x80\2\x82\1."), SS_UNSUPPORTED, "0x82"},
        {PICKLE("\x80\2Pid\n."), SS_UNSUPPORTED, "0x50"},
        {PICKLE("\x80\2K\1)R."), SS_BAD_FILE, "a name and a tuple"},
        {PICKLE("\x80\2"
                "ccollections\nOrderedDict\n(K\1tR."),
         SS_BAD_FILE, "arguments"},
        {PICKLE("\x80\2"
                "ctorch\nFloatStorage\n)R."),
         SS_BAD_FILE, "arguments"},
        {PICKLE("\x80\2" REBUILD ")R."), SS_BAD_FILE, "arguments"},
        {PICKLE("\x80\2N}b."), SS_UNSUPPORTED, "a table to build"},
        {PICKLE("\x80\2}}b}b" GOOD "}b."), SS_UNSUPPORTED, "a table to build"},
        /* These pickles are truncated, or have invalid opcodes or stack operations. */
        {PICKLE(""), SS_BAD_FILE, "the pickle's end"},
        {PICKLE("\x80"), SS_BAD_FILE, "the pickle's end"},
        {PICKLE("\x80\5}."), SS_UNSUPPORTED, "protocol 2 to 4"},
        {PICKLE("\x80\2}"), SS_BAD_FILE, "the pickle's end"},
        {PICKLE("\x80\2]."), SS_BAD_FILE, "one table"},
        {PICKLE("\x80\2}}."), SS_BAD_FILE, "one table"},
        {PICKLE("\x80\2."), SS_BAD_FILE, "a value on the stack"},
        {PICKLE("\x80\2(."), SS_BAD_FILE, "a value on the stack"},
        {PICKLE("\x80\2\x87."), SS_BAD_FILE, "enough values"},
        {PICKLE("\x80\2(K\1\x86."), SS_BAD_FILE, "a mark"},
        {PICKLE("\x80\2s."), SS_BAD_FILE, "values to set"},
        {PICKLE("\x80\2K\1K\1K\1s."), SS_BAD_FILE, "a table and pairs"},
        {PICKLE("\x80\2}(K\1u."), SS_BAD_FILE, "a table and pairs"},
        {PICKLE("\x80\2}u."), SS_BAD_FILE, "a mark on the stack"},
        {PICKLE("\x80\2t."), SS_BAD_FILE, "a mark on the stack"},
        {PICKLE("\x80\2}K\1a."), SS_BAD_FILE, "a list"},
        {PICKLE("\x80\2h\1."), SS_BAD_FILE, "the memo"},
        {PICKLE("\x80\2j\xff\xff\xff\xff."), SS_BAD_FILE, "the memo"},
        {PICKLE("\x80\2}r\xff\xff\xff\x7f."), SS_BAD_FILE, "the memo"},
        {PICKLE("\x80\2X\xff\xff\xff\xff"
                "a."),
         SS_BAD_FILE, "a text"},
        {PICKLE("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                "a."),
         SS_BAD_FILE, "a text"},
        {PICKLE("\x80\2"
                "cos"),
         SS_BAD_FILE, "ends with a line"},
        {PICKLE("\x80\2\x8a\11aaaaaaaaa."), SS_UNSUPPORTED, "at most 8 bytes"},
        {PICKLE("\x80\2\x8b\4\0\0\0\1\0\0\0."), SS_UNSUPPORTED, "0x8b"},
        {PICKLE("\x80\2I7\n."), SS_UNSUPPORTED, "0x49"},
        {PICKLE("\x80\2G\0\0\0\0\0\0\0\0."), SS_BAD_FILE, "one table of tensors"},
        {PICKLE("\x80\2G\0\0."), SS_BAD_FILE, "more bytes"},
        /* These pickles have impossible tensors. */
        {PICKLE("\x80\2K\1Q."), SS_BAD_FILE, "\"storage\""},
        {PICKLE("\x80\2(K\1K\1K\1K\1K\1tQ."), SS_BAD_FILE, "\"storage\""},
        {PICKLE("\x80\2(X\7\0\0\0storageccollections\nOrderedDict\n" KEY("0") KEY("c") "K\4tQ."),
         SS_BAD_FILE, "\"storage\""},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "J\xff\xff\xff\xff\x85", ONE) "s"), SS_BAD_FILE,
         "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "\x8a\1\xff\x85", ONE) "s"), SS_BAD_FILE,
         "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "\x8a\2\0\xff\x85", ONE) "s"), SS_BAD_FILE,
         "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", TWO, "K\1K\1\x86") "s"), SS_BAD_FILE, "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "N", ONE) "s"), SS_BAD_FILE, "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "(" ONES_64 "K\1t", "(" ONES_64 "K\1t") "s"),
         SS_BAD_FILE, "arguments"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", HUGE_NUMBER HUGE_NUMBER "\x86", "K\1K\1\x86") "s"),
         SS_BAD_FILE, "fits this machine"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", HUGE_NUMBER "\x85", ONE) "s"), SS_BAD_FILE,
         "inside its storage"},
        {TABLE(KEY("a") TENSOR("1", "\4", "\0", TWO, ONE) "s"), SS_BAD_FILE, "its storage"},
        {TABLE(KEY("a") REBUILD "(" STORAGE_AT("K\1", "\4") "K\0" TWO ONE "\x89" HOOKS "tRs"),
         SS_BAD_FILE, "its storage"},
        /* torch adds a seventh argument where the numbers are to be negated or conjugated. */
        {TABLE(KEY("a") REBUILD "(" STORAGE_AT(KEY("0"), "\4") "K\0" TWO ONE "\x89" HOOKS "}tRs"),
         SS_BAD_FILE, "arguments"},
        {PICKLE("\x80\2" STORAGE_AT("J\xff\xff\xff\xff", "\4") "."), SS_BAD_FILE, "\"storage\""},
        {PICKLE("\x80\2" STORAGE_AT("J\x40\x42\x0f\0", "\4") "."), SS_BAD_FILE, "\"storage\""},
        {TABLE(KEY("a") TENSOR("0", "\5", "\0", TWO, ONE) "s"), SS_BAD_FILE, "a storage of 5"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\3", TWO, ONE) "s"), SS_BAD_FILE, "inside its storage"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", TWO, TWO) "s"), SS_UNSUPPORTED, "strides"},
        {TABLE(KEY("a") TENSOR("0", "\4", "\0", "K\2K\2\x86", "K\1K\2\x86") "s"), SS_UNSUPPORTED,
         "strides"},
        /* These tables have objects other than tensors. */
        {TABLE("(" KEY("a") GOOD KEY("a") GOOD "u"), SS_BAD_FILE, "each name once"},
        {TABLE("K\1" GOOD "s"), SS_BAD_FILE, "with names"},
        {TABLE(KEY("\0") GOOD "s"), SS_BAD_FILE, "NUL"},
        {TABLE(""), SS_BAD_FILE, "a table of tensors"},
        {TABLE("q\0" KEY("t") "h\0s"), SS_BAD_FILE, "a table of tensors"},
        {TABLE(KEY("s") "}" KEY("a") GOOD "ss"), SS_BAD_FILE, "a table of tensors"},
    };
    CASE("pickles that call functions, corrupt the stack, or hold no tensors are refused");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        opened_file file;
        ss_error err;
        int status = (int)open_pickle(&file, table[i].pickle, table[i].n, &err);
        CHECK_INT(status, table[i].status);
        CHECK(err.where[0] && strstr(err.text, table[i].text));
        if (!strstr(err.text, table[i].text) || status != (int)table[i].status)
            printf("    row %lu: %s: %s\n", (unsigned long)i, err.where, err.text);
        close_file(&file);
    }
}

static void check_places_of_errors(void) {
    CASE("a refusal names the byte of its opcode");
    static const char pickle[] = "\x80\2}(K\1K\2cposix\nsystem\n.";
    opened_file file;
    ss_error err;
    CHECK_INT((int)open_pickle(&file, pickle, sizeof pickle - 1, &err), SS_UNSUPPORTED);
    CHECK(!strcmp(err.where, "data.pkl byte 8"));
    CHECK(strstr(err.text, "posix.system, which is not called") != NULL);
    close_file(&file);
}

/* Checks that a pickle with n copies of opcodes after other opcodes is read to its end. */
static void check_repeated_opcodes(const char *before, const char *opcodes, size_t width,
                                   size_t n) {
    size_t first = strlen(before);
    scoped char *pickle = malloc(first + n * width);
    if (!pickle) exit(2);
    memcpy(pickle, before, first);
    for (size_t i = 0; i < n; i++) memcpy(pickle + first + i * width, opcodes, width);
    opened_file file;
    ss_error err;
    CHECK(open_pickle(&file, pickle, first + n * width, &err) != SS_OK);
    CHECK(err.where[0]);
    CHECK(strstr(err.text, "found the pickle's end") != NULL);
    close_file(&file);
}

static void check_long_pickles(void) {
    CASE("deep and long pickles give an error, not a stack overflow");
    check_repeated_opcodes("\x80\2", "(", 1, 60000);
    check_repeated_opcodes("\x80\2}", "\x85", 1, 60000);
    check_repeated_opcodes("\x80\2}\x94", "h\0", 2, 20000);
    check_repeated_opcodes("\x80\2", "]q\1", 3, 20000);
    check_repeated_opcodes("\x80\2}", "(t", 2, 30000);
}

static void check_legacy_files(void) {
    CASE("the format before torch 1.6 is recognized and refused");
    scoped_file file = {.bytes = copy_of("\x80\2\x8a\nl\xfc\x9c"
                                         "F\xf9 j\xa8P\x19.",
                                         14)};
    ss_error err = {0};
    CHECK_INT((int)open_bytes(&file, &err), SS_UNSUPPORTED);
    CHECK(strstr(err.text, "older format") != NULL);
}

static void check_damaged_files(const char *folder) {
    scoped_bytes config = read_file(folder, "config.json");
    scoped_bytes weights = read_file(folder, "pytorch_model.bin");
    ss_error err = {0};
    CASE(folder);
    CHECK_INT((int)try_open(config, weights, &err), SS_OK);

    CASE("a file truncated at any hundredth is a bad file, never a crash");
    for (size_t i = 0; i < 100; i++) {
        scoped_bytes cut_file = copy_of(weights.data, weights.n * i / 100);
        CHECK_INT((int)try_open(config, cut_file, &err), SS_BAD_FILE);
    }

    CASE("five thousand flipped bits, a third in the first 2 KB and a third in the last 4 KB, give "
         "a status");
    uint32_t state = 54321;
    int refused_n = 0;
    for (int i = 0; i < 5000; i++) {
        state = state * 1664525u + 1013904223u;
        size_t range = i % 3 == 0 ? 2048 : i % 3 == 1 ? 4096 : weights.n;
        size_t offset = state % range;
        if (i % 3 == 1) offset = weights.n - 1 - offset;
        unsigned char *byte = (unsigned char *)(size_t)(weights.data + offset);
        unsigned char saved_byte = *byte;
        *byte = (unsigned char)(saved_byte ^ 1u << (state >> 29));
        err = (ss_error){0};
        ss_status status = try_open(config, weights, &err);
        CHECK(status == SS_OK || (err.where[0] && strlen(err.text) >= 10));
        CHECK(status != SS_NO_MEMORY);
        refused_n += status != SS_OK;
        *byte = saved_byte;
    }
    printf("  %d of 5000 were refused\n", refused_n);
    CHECK(refused_n > 1000);
}

int main(void) {
    check_good_pickles();
    check_bad_pickles();
    check_places_of_errors();
    check_long_pickles();
    check_legacy_files();
    check_damaged_files(PLAIN);
    check_damaged_files(TIED);
    return check_done();
}
