/*
 * Zip files with a pickle: records with wrong sizes, offsets and names, end records with a wrong
 * directory, with and without zip64; and models in several files.
 */
#include "check.h"
#include "zips.h"

#define DATA(method, flags, claimed, zip64)                                                        \
    { "m/data/0", storage, 16, method, flags, claimed, zip64 }
#define NAMED(name, text, n)                                                                       \
    { name, text, n, 0, 0, 0, 0 }

static void check_zip_files(void) {
    static const char pickle[] = "\x80\2}" KEY("a") GOOD "s.";
    const size_t n = sizeof pickle - 1;
    const zip_part pickle_part = {.name = "m/data.pkl", .data = pickle, .n = n};
    const zip_part part = {.name = "m/data/0", .data = storage, .n = sizeof storage};
    const struct {
        const char *name;
        zip_part records[3];
        ss_status status;
        const char *text;
    } table[] = {
        {"a good file", {pickle_part, part}, SS_OK, ""},
        {"little-endian", {pickle_part, part, NAMED("m/byteorder", "little", 6)}, SS_OK, ""},
        {"big", {pickle_part, part, NAMED("m/byteorder", "big", 3)}, SS_UNSUPPORTED, "little-"},
        {"no pickle", {part}, SS_BAD_FILE, "found none"},
        {"no records", {{0}}, SS_BAD_FILE, "found none"},
        {"no storage", {pickle_part}, SS_BAD_FILE, "storage"},
        {"two pickles", {pickle_part, part, NAMED("n/data.pkl", pickle, n)}, SS_BAD_FILE, "two"},
        {"one name twice", {pickle_part, part, part}, SS_BAD_FILE, "each record once"},
        {"compressed", {pickle_part, DATA(8, 0, 0, 0)}, SS_UNSUPPORTED, "compressed"},
        {"both", {{"m/data.pkl", pickle, n, 8, 0, 0, 0}, part}, SS_UNSUPPORTED, "compressed"},
        {"encrypted", {pickle_part, DATA(0, 1, 0, 0)}, SS_UNSUPPORTED, "encrypted"},
        {"claims the next bytes", {DATA(0, 0, 80, 0), pickle_part}, SS_BAD_FILE, "inside m/data/0"},
        {"claims its end", {pickle_part, DATA(0, 0, 100, 0)}, SS_BAD_FILE, "before the directory"},
        {"claims no end", {pickle_part, DATA(0, 0, 0xfffffffe, 0)}, SS_BAD_FILE, "directory"},
        {"claims zip64 sizes", {pickle_part, DATA(0, 0, 0xffffffff, 0)}, SS_BAD_FILE, "zip64"},
        {"a zip64 size and place", {pickle_part, DATA(0, 0, 0, 3)}, SS_OK, ""},
        {"a zip64 size alone", {pickle_part, DATA(0, 0, 0, 2)}, SS_BAD_FILE, "zip64"},
        {"nearly 2^64", {pickle_part, DATA(0, 0, SIZE_MAX - 8, 3)}, SS_BAD_FILE, "before the dir"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int zip64 = 0; zip64 < 2; zip64++) {
            CASE(table[i].name);
            int records_n = 0;
            while (records_n < 3 && table[i].records[records_n].name) records_n++;
            scoped_file file = {.bytes = zip_of(table[i].records, records_n, zip64)};
            /* An empty archive begins with its end record, so its first bytes are not those of a
             * torch file. */
            if (records_n == 0) memcpy((void *)(size_t)file.bytes.data, "PK\3\4", 4);
            ss_error err = {0};
            int status = (int)open_bytes(&file, &err);
            if (records_n) CHECK_INT(status, table[i].status);
            CHECK(records_n == 0 ? status != SS_OK : strstr(err.text, table[i].text) != NULL);
            if (records_n && !strstr(err.text, table[i].text)) printf("    %s\n", err.text);
        }
}

static ss_status open_flipped(opened_file *file, size_t bit) {
    unsigned char *byte = (unsigned char *)(size_t)(file->bytes.data + bit / 8);
    *byte ^= (unsigned char)(1u << bit % 8);
    ss_error err = {0};
    ss_status status = open_bytes(file, &err);
    if (status != SS_OK) CHECK(err.where[0] && strlen(err.text) > 10 && status != SS_NO_MEMORY);
    free(file->arena.block);
    *byte ^= (unsigned char)(1u << bit % 8);
    return status;
}

static void check_flipped_bits(void) {
    static const char pickle[] = "\x80\2}" KEY("a") GOOD "s.";
    for (int zip64 = 0; zip64 < 2; zip64++) {
        const zip_part records[] = {
            {.name = "m/data.pkl", .data = pickle, .n = sizeof pickle - 1},
            {.name = "m/data/0", .data = storage, .n = sizeof storage, .in_zip64 = zip64 ? 3 : 0}};
        CASE("each flipped bit of a zip file gives a status, never a crash");
        opened_file file = {.bytes = zip_of(records, 2, zip64)};
        size_t bits = 8 * file.bytes.n, refused_n = 0;
        for (size_t bit = 0; bit < bits; bit++) refused_n += open_flipped(&file, bit) != SS_OK;
        printf("  %lu of %lu were refused\n", (unsigned long)refused_n, (unsigned long)bits);
        CHECK(refused_n > bits / 2);
        free((void *)(size_t)file.bytes.data);
    }
}

static void check_shards(void) {
    static const char *const pickles[] = {
        "\x80\2}" KEY("a") GOOD "s.", "\x80\2}" KEY("b") GOOD "s.", "\x80\2}" KEY("c") GOOD "s."};
    const size_t n = sizeof "\x80\2}" KEY("a") GOOD "s." - 1;
    ss_bytes files[3];
    for (int i = 0; i < 3; i++) {
        const zip_part records[] = {{.name = "m/data.pkl", .data = pickles[i], .n = n},
                                    {.name = "m/data/0", .data = storage, .n = sizeof storage}};
        files[i] = zip_of(records, 2, i == 1);
    }
    CASE("the tensors of three shards form one table");
    ss_arena arena = arena_of(ss_container_size(files, 3));
    ss_container container = {.n = 0};
    ss_error err = {0};
    CHECK_INT((int)ss_container_open(&container, files, 3, &arena, &err), SS_OK);
    if (err.code) printf("    %s: %s\n", err.where, err.text);
    CHECK_INT(container.n, 3);
    const ss_entry *entry = ss_container_find(&container, "c");
    CHECK(entry && !memcmp(entry->tensor.data, storage, 2 * sizeof *storage));
    for (int i = 0; i < 3; i++) free((void *)(size_t)files[i].data);
    free(arena.block);
}

int main(void) {
    check_zip_files();
    check_flipped_bits();
    check_shards();
    return check_done();
}
