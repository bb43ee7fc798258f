/*
 * The zip files around a pickle: records that lie about their sizes, places and names, ends that
 * lie about the directory, with and without zip64; and several files that are one model.
 */
#include "check.h"
#include "zips.h"

static void zip_files(void) {
    static const char pickle[] = "\x80\2}" KEY("a") GOOD "s.";
    const size_t n = sizeof pickle - 1;
    const zip_part whole = {.name = "m/data.pkl", .data = pickle, .n = n};
    const zip_part part = {.name = "m/data/0", .data = storage, .n = sizeof storage};
    const struct {
        const char *name;
        zip_part records[3];
        int n;
        ss_status status;
        const char *text;
    } table[] = {
        {"a good file", {whole, part}, 2, SS_OK, ""},
        {"little-endian", {whole, part, {"m/byteorder", "little", 6, 0, 0, 0}}, 3, SS_OK, ""},
        {"big-endian",
         {whole, part, {"m/byteorder", "big", 3, 0, 0, 0}},
         3,
         SS_UNSUPPORTED,
         "little-endian"},
        {"no pickle", {part}, 1, SS_BAD_FILE, "found none"},
        {"no records", {whole}, 0, SS_BAD_FILE, "found none"},
        {"no storage", {whole}, 1, SS_BAD_FILE, "storage"},
        {"two pickles", {whole, part, {"n/data.pkl", pickle, n, 0, 0, 0}}, 3, SS_BAD_FILE, "two"},
        {"one name twice", {whole, part, part}, 3, SS_BAD_FILE, "each record once"},
        {"compressed",
         {whole, {"m/data/0", storage, 16, 8, 0, 0}},
         2,
         SS_UNSUPPORTED,
         "compressed"},
        {"compressed from the first record on",
         {{"m/data.pkl", pickle, n, 8, 0, 0}, part},
         2,
         SS_UNSUPPORTED,
         "compressed"},
        {"encrypted", {whole, {"m/data/0", storage, 16, 0, 1, 0}}, 2, SS_UNSUPPORTED, "encrypted"},
        {"a record that claims the next one's bytes",
         {{"m/data/0", storage, 16, 0, 0, 80}, whole},
         2,
         SS_BAD_FILE,
         "inside"},
        {"a record that claims the directory",
         {whole, {"m/data/0", storage, 16, 0, 0, 100}},
         2,
         SS_BAD_FILE,
         "before the directory"},
        {"a record that claims no end",
         {whole, {"m/data/0", storage, 16, 0, 0, 0xfffffffe}},
         2,
         SS_BAD_FILE,
         "directory"},
        {"a record that claims zip64 sizes it does not have",
         {whole, {"m/data/0", storage, 16, 0, 0, 0xffffffff}},
         2,
         SS_BAD_FILE,
         "zip64"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int zip64 = 0; zip64 < 2; zip64++) {
            CASE(table[i].name);
            opened_file file = {.bytes = zip_of(table[i].records, table[i].n, zip64)};
            /* An empty archive begins with its end, and is no torch file by its first bytes. */
            if (table[i].n == 0) memcpy((void *)(size_t)file.bytes.data, "PK\3\4", 4);
            ss_error err = {0};
            int status = (int)open_bytes(&file, &err);
            if (table[i].n) CHECK_INT(status, table[i].status);
            CHECK(table[i].n == 0 ? status != SS_OK : strstr(err.text, table[i].text) != NULL);
            if (table[i].n && !strstr(err.text, table[i].text)) printf("    %s\n", err.text);
            close_file(&file);
        }
}

/* Each byte of the end records is another one, counted from the file's end. */
static void lying_ends(void) {
    static const char pickle[] = "\x80\2}" KEY("a") GOOD "s.";
    const zip_part records[] = {{.name = "m/data.pkl", .data = pickle, .n = sizeof pickle - 1},
                                {.name = "m/data/0", .data = storage, .n = sizeof storage}};
    CASE("end records whose counts, sizes and offsets lie");
    for (int zip64 = 0; zip64 < 2; zip64++)
        for (size_t back = 1; back <= (zip64 ? 105 : 29); back++) {
            opened_file file = {.bytes = zip_of(records, 2, zip64)};
            unsigned char *at = (unsigned char *)(size_t)(file.bytes.data + file.bytes.n - back);
            *at ^= 0x81;
            ss_error err = {0};
            ss_status status = open_bytes(&file, &err);
            CHECK(status == SS_OK || (err.where[0] && strlen(err.text) > 10));
            close_file(&file);
        }
}

static void shards(void) {
    static const char *const pickles[] = {
        "\x80\2}" KEY("a") GOOD "s.", "\x80\2}" KEY("b") GOOD "s.", "\x80\2}" KEY("c") GOOD "s."};
    const size_t n = sizeof "\x80\2}" KEY("a") GOOD "s." - 1;
    ss_bytes files[3];
    for (int i = 0; i < 3; i++) {
        const zip_part records[] = {{.name = "m/data.pkl", .data = pickles[i], .n = n},
                                    {.name = "m/data/0", .data = storage, .n = sizeof storage}};
        files[i] = zip_of(records, 2, i == 1);
    }
    CASE("three shards are one table");
    ss_arena arena = arena_of(ss_container_size(files, 3));
    ss_container container = {.n = 0};
    ss_error err = {0};
    CHECK_INT((int)ss_container_open(&container, files, 3, &arena, &err), SS_OK);
    if (err.code) printf("    %s: %s\n", err.where, err.text);
    CHECK_INT(container.n, 3);
    const ss_entry *c = ss_container_find(&container, "c");
    CHECK(c && !memcmp(c->tensor.data, storage, 2 * sizeof *storage));
    for (int i = 0; i < 3; i++) free((void *)(size_t)files[i].data);
    free(arena.block);
}

int main(void) {
    zip_files();
    lying_ends();
    shards();
    return check_done();
}
