/*
 * GGUF files: valid ones are read, broken ones are refused with a place.
 *
 * Small files are written in a language of words: "4:7" is the number 7 in four bytes, "t:abc" a
 * text after its length, "r:abc" the bare bytes, "z:9" nine zero bytes, "p:32" zero bytes up to the
 * next multiple of 32, "$abc" the words of that name in gguf.json, and "$abc@def" these with def
 * in place of each %.
 */
#include "tables.h"

#include <math.h>

typedef struct written {
    unsigned char bytes[4096];
    size_t n;
} written;

static void append(written *file, const char *bytes, size_t n) {
    if (file->n + n > sizeof file->bytes) exit(2);
    memcpy(file->bytes + file->n, bytes, n);
    file->n += n;
}

static void put_number(written *file, uint64_t value, size_t width) {
    char bytes[8];
    for (size_t i = 0; i < width; i++) bytes[i] = (char)(value >> (8 * i));
    append(file, bytes, width);
}

static void put_zeros(written *file, size_t n) {
    for (size_t i = 0; i < n; i++) append(file, "", 1);
}

static void put_words(written *file, const char *words);

static void put_piece(written *file, const char *name, const char *part, size_t part_n) {
    const cJSON *piece = cJSON_GetObjectItem(cJSON_GetObjectItem(tables, "pieces"), name);
    char words[1024];
    size_t n = 0;
    if (!piece) exit(2);
    for (const char *c = piece->valuestring; *c && n + part_n < sizeof words - 1; c++)
        n += (size_t)(*c == '%' ? snprintf(words + n, sizeof words - n, "%.*s", (int)part_n, part)
                                : snprintf(words + n, sizeof words - n, "%c", *c));
    words[n] = 0;
    put_words(file, words);
}

static void put_word(written *file, const char *word, size_t n) {
    const char *rest = word + 2;
    size_t number = (size_t)strtoull(rest, NULL, 10);
    switch (word[0]) {
    case 't': put_number(file, n - 2, 8); /* fall through */
    case 'r': append(file, rest, n - 2); break;
    case '$': {
        const char *at = memchr(word, '@', n);
        size_t name_n = at ? (size_t)(at - word) : n;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)name_n - 1, word + 1);
        put_piece(file, name, at ? at + 1 : "%", at ? n - name_n - 1 : 1);
        break;
    }
    case 'z': put_zeros(file, number); break;
    case 'p': put_zeros(file, (number - file->n % number) % number); break;
    default: put_number(file, number, (size_t)(word[0] - '0'));
    }
}

static void put_words(written *file, const char *words) {
    while (*words) {
        size_t n = strcspn(words, " ");
        if (n) put_word(file, words, n);
        words += n + strspn(words + n, " ");
    }
}

/* Writes the file that the words describe, in a block of its exact size. */
static ss_bytes write_file(const char *words) {
    written file = {.n = 0};
    put_words(&file, words);
    unsigned char *copy = malloc(file.n ? file.n : 1);
    if (!copy) exit(2);
    memcpy(copy, file.bytes, file.n);
    return (ss_bytes){copy, file.n};
}

static int runs_n;

/* Opens the architecture and the tensors of a file and, if with_model, runs a token. */
static ss_status open_gguf(ss_bytes bytes, bool with_model, ss_error *err) {
    ss_arch arch;
    opened_model opened = {.weights.bytes = bytes};
    ss_status status = ss_arch_read_gguf(&arch, bytes, err);
    ss_status container = open_bytes(&opened.weights, status == SS_OK ? err : NULL);
    if (status == SS_OK) status = container;
    if (status == SS_OK && with_model) {
        status = try_model(&opened, &arch, err);
        if (status == SS_OK) {
            scoped_run run = run_tokens(&opened.model, (int32_t[]){0}, 1, NULL, 0);
            runs_n++;
        }
    }
    free(opened.weights.arena.block);
    free(opened.arena.block);
    return status;
}

static void check_files(void) {
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "files")) {
        CASE(text_in(row, 0));
        scoped_bytes file = write_file(text_in(row, 1));
        ss_error err = {0};
        ss_status status = open_gguf(file, false, &err);
        check_refusal(row, 2, status, &err);
        if (!strncmp(err.text, "GGUF metadata", 13))
            CHECK((strstr(err.text, "record") != NULL) == (status == SS_UNSUPPORTED));
    }
}

static void check_scalings(void) {
    static const struct {
        const char *name, *words, *scaling;
    } table[] = {
        {"a factor and no type", "8:8 $pairs t:llama.rope.scaling.factor 4:6 4:1082130432",
         "{\"rope_type\":\"linear\",\"factor\":4}"},
        {"the key of early converters", "8:8 $pairs t:llama.rope.scale_linear 4:6 4:1073741824",
         "{\"rope_type\":\"linear\",\"factor\":2}"},
        {"a factor of 1", "8:8 $pairs t:llama.rope.scaling.factor 4:6 4:1065353216", "null"},
        {"a factor of 0", "8:8 $pairs t:llama.rope.scaling.factor 4:6 4:0", "null"},
        {"YaRN with its defaults", "8:9 $pairs $yarn",
         "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":16,"
         "\"beta_fast\":32,\"beta_slow\":1}"},
        {"YaRN with a first context and bounds",
         "8:14 $pairs $yarn t:llama.rope.scaling.original_context_length 4:4 4:8 "
         "t:llama.rope.scaling.yarn_beta_fast 4:6 4:1098907648 "
         "t:llama.rope.scaling.yarn_beta_slow 4:6 4:1073741824 "
         "t:llama.rope.scaling.attn_factor 4:6 4:1065353216 "
         "t:llama.rope.scaling.yarn_attn_factor 4:6 4:1065353216",
         "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":8,"
         "\"beta_fast\":16,\"beta_slow\":2}"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CASE(table[i].name);
        char words[2048], config[512];
        snprintf(words, sizeof words, "r:GGUF 4:3 8:1 %s $end", table[i].words);
        int n = snprintf(config, sizeof config,
                         "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":4,"
                         "\"num_attention_heads\":2,\"intermediate_size\":6,\"vocab_size\":8,"
                         "\"max_position_embeddings\":16,\"rope_scaling\":%s}",
                         table[i].scaling);
        scoped_bytes file = write_file(words);
        ss_arch actual, expected;
        ss_error err;
        must(ss_arch_read_gguf(&actual, file, &err), &err, table[i].name);
        must(ss_arch_read(&expected, (ss_bytes){(const unsigned char *)config, (size_t)n}, &err),
             &err, table[i].scaling);
        const ss_rotary *a = &actual.rotary, *b = &expected.rotary;
        CHECK_INT((int)a->scaling, (int)b->scaling);
        CHECK_NEAR(a->factor, b->factor, 0);
        CHECK_NEAR(a->original_context, b->original_context, 0);
        CHECK_NEAR(a->low, b->low, 0);
        CHECK_NEAR(a->high, b->high, 0);
        CHECK_INT(a->truncate, b->truncate);
        CHECK_NEAR((double)a->attention_factor, (double)b->attention_factor, 0);
    }
}

static ss_status open_two(const char *first, const char *second, size_t *entries, ss_error *err) {
    ss_bytes files[] = {write_file(first), write_file(second)};
    ss_arena arena = arena_of(ss_container_size(files, 2));
    ss_container container = {.n = 0};
    ss_status status = ss_container_open(&container, files, 2, &arena, err);
    *entries = container.n;
    free(arena.block);
    for (int i = 0; i < 2; i++) free((void *)(size_t)files[i].data);
    return status;
}

static void check_shards(void) {
    const char *file_words = "r:GGUF 4:3 8:1 8:7 $pairs $end";
    const char *second_words =
        "r:GGUF 4:3 8:1 8:1 t:general.architecture 4:8 t:llama t:a 4:1 8:1 4:0 8:0 p:32 z:4";
    const char *shard_words = "r:GGUF 4:3 8:0 8:1 t:split.count 4:2 2:2";
    ss_error err = {0};
    size_t entries;
    CASE("the tensors of two files form one table");
    CHECK_INT((int)open_two(file_words, second_words, &entries, &err), SS_OK);
    CHECK_INT(entries, 2);
    CASE("a name in two files, a part of a file, and files of two formats are refused");
    CHECK_INT((int)open_two(file_words, file_words, &entries, &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "model.embed_tokens.weight"));
    CHECK_INT((int)open_two(shard_words, shard_words, &entries, &err), SS_UNSUPPORTED);
    CHECK(!strcmp(err.where, "split.count"));
    CHECK_INT((int)open_two(file_words, "8:2 r:{}", &entries, &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "byte 0"));
}

static ss_status find_pair(ss_gguf_pair *pair, ss_bytes file, const char *key, ss_error *err) {
    ss_gguf gguf;
    ss_status status = ss_gguf_begin(&gguf, file, err);
    for (uint64_t i = 0; status == SS_OK && i < gguf.pairs_n; i++) {
        status = ss_gguf_next_pair(&gguf, pair, err);
        if (status == SS_OK && ss_bytes_equal(pair->key, key)) return SS_OK;
    }
    return status == SS_OK ? SS_BAD_REQUEST : status;
}

static void check_values(void) {
    CASE("an array in the metadata is found with its type, count and bytes");
    scoped_bytes file = write_file("r:GGUF 4:3 8:1 8:8 $pairs t:list 4:9 4:8 8:2 t:ab t:c $end");
    ss_error err = {0};
    ss_gguf_pair pair;
    CHECK_INT((int)find_pair(&pair, file, "list", &err), SS_OK);
    CHECK(pair.is_array && pair.type == SS_GGUF_TEXT);
    CHECK_INT(pair.count, 2);
    CHECK_INT(pair.value.n, 8 + 2 + 8 + 1);
    CHECK(pair.value.data[0] == 2 && !memcmp(pair.value.data + 8, "ab", 2) &&
          pair.value.data[18] == 'c');
    CASE("a number in the metadata has one element");
    CHECK_INT((int)find_pair(&pair, file, "llama.block_count", &err), SS_OK);
    CHECK(!pair.is_array && pair.type == SS_GGUF_U32 && pair.count == 1 && pair.value.n == 4 &&
          pair.value.data[0] == 1);
    CASE("a part of a key finds nothing, and a file that is not GGUF gives an error");
    CHECK_INT((int)find_pair(&pair, file, "lis", &err), SS_BAD_REQUEST);
    ss_bytes broken_file = {(const unsigned char *)"GGML", 4};
    CHECK_INT((int)find_pair(&pair, broken_file, "list", &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "byte 0"));
}

static void check_counts(void) {
    CASE("a count may be as large as the following bytes allow, and no larger");
    static const struct {
        const char *words, *text;
    } table[] = {
        {"r:GGUF 4:3 8:2 8:3 z:48", NULL},
        {"r:GGUF 4:3 8:3 8:3 z:48", "at most 2 tensors, found 3"},
        {"r:GGUF 4:3 8:3 8:3 z:71", "at most 2 tensors, found 3"},
        {"r:GGUF 4:3 8:1 8:4 z:48", "at most 3 keys, found 4"},
        {"r:GGUF 4:3 8:1 8:4 z:52", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        scoped_bytes file = write_file(table[i].words);
        ss_gguf gguf;
        ss_error err = {0};
        CHECK_INT((int)ss_gguf_begin(&gguf, file, &err), table[i].text ? SS_BAD_FILE : SS_OK);
        if (table[i].text) CHECK(strstr(err.text, table[i].text));
    }
    CASE("the last element of an array may end with the file");
    static const char *const ends[] = {"t:x 4:9 4:3 8:3 z:6", "t:x 4:9 4:3 8:3 z:5"};
    for (int i = 0; i < 2; i++) {
        scoped_bytes bytes = write_file(ends[i]);
        ss_gguf gguf = {.file = bytes, .alignment = 32};
        ss_gguf_pair pair;
        ss_error err = {0};
        CHECK_INT((int)ss_gguf_next_pair(&gguf, &pair, &err), i ? SS_BAD_FILE : SS_OK);
        if (i) CHECK(strstr(err.text, "at most 2 elements"));
    }
}

static void check_type_names(void) {
    CASE("an unsupported type is refused by ggml's name for its number");
    static const struct {
        int type;
        const char *name;
    } table[] = {
        {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
        {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {24, "I8"},     {25, "I16"},
        {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},
        {40, "NVFP4"}, {4, "others"}, {5, "others"},   {31, "others"}, {38, "others"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char words[1024], end[64];
        snprintf(words, sizeof words,
                 "r:GGUF 4:3 8:2 8:7 $pairs $tensor t:a 4:1 8:256 4:%d 8:128 p:32 z:128",
                 table[i].type);
        scoped_bytes file = write_file(words);
        ss_error err = {0};
        CHECK_INT((int)open_gguf(file, false, &err), SS_UNSUPPORTED);
        int n = snprintf(end, sizeof end, ", found %s (type %d)", table[i].name, table[i].type);
        size_t size = strlen(err.text);
        CHECK_TEXT(err.text + (size > (size_t)n ? size - (size_t)n : 0), end);
    }
}

#define GOLDEN "tests/golden/"
static const char *const models[] = {GOLDEN "gguf-gemma3-bf16",       GOLDEN "gguf-gpt_neox-q8_0",
                                     GOLDEN "gguf-llama3-f16",        GOLDEN "gguf-gpt2-plain-f16",
                                     GOLDEN "gguf-falcon-groups-f16", GOLDEN "gguf-qwen3_moe-q8_0"};
#define MODELS_N (sizeof models / sizeof *models)

static ss_bytes first_bytes(ss_bytes file, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) exit(2);
    memcpy(copy, file.data, n);
    return (ss_bytes){copy, n};
}

static bool has_text_and_place(ss_status status, const ss_error *err) {
    return err->code == status && err->where[0] && strlen(err->text) > 10;
}

static void check_cuts(const char *folder) {
    CASE("a truncated file is refused at every length");
    scoped_bytes whole_file = read_file(folder, "model.gguf");
    for (size_t percent = 1; percent < 100; percent++) {
        scoped_bytes cut_file = first_bytes(whole_file, whole_file.n * percent / 100);
        ss_error err = {0};
        ss_status status = open_gguf(cut_file, true, &err);
        CHECK(status == SS_BAD_FILE && has_text_and_place(status, &err));
    }
}

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Flips one to four bits, mostly in the metadata and the offsets of tensors. */
static void flip_bits(unsigned char *bytes, size_t n, uint32_t *state) {
    for (uint32_t flips = 1 + next_random(state) % 4; flips > 0; flips--) {
        size_t range = next_random(state) % 8 ? 4096 : n;
        size_t offset = next_random(state) % (range < n ? range : n);
        bytes[offset] ^= (unsigned char)(1u << (next_random(state) % 8));
    }
}

static void check_flips(const char *folder, int rounds, uint32_t *state) {
    CASE("a file with flipped bits runs, or is refused with a place and a reason");
    scoped_bytes whole_file = read_file(folder, "model.gguf");
    int status_counts[SS_STATUS_N] = {0};
    runs_n = 0;
    for (int i = 0; i < rounds; i++) {
        scoped_bytes flipped_file = first_bytes(whole_file, whole_file.n);
        flip_bits((unsigned char *)(size_t)flipped_file.data, flipped_file.n, state);
        ss_error err = {0};
        ss_status status = open_gguf(flipped_file, true, &err);
        status_counts[status]++;
        CHECK(status == SS_OK || has_text_and_place(status, &err));
    }
    for (int status = 0; status < SS_STATUS_N; status++)
        if (status_counts[status])
            printf("  %d %s\n", status_counts[status], ss_status_name((ss_status)status));
    CHECK_INT(runs_n, status_counts[SS_OK]);
    CHECK(status_counts[SS_OK] < rounds && status_counts[SS_BAD_FILE] > 0);
}

int main(void) {
    open_tables("gguf.json");
    check_files();
    check_scalings();
    check_shards();
    check_values();
    check_counts();
    check_type_names();
    uint32_t state = 20240607;
    for (size_t i = 0; i < MODELS_N; i++) {
        check_cuts(models[i]);
        check_flips(models[i], 10000 / (int)MODELS_N, &state);
    }
    close_tables("gguf.json");
    return check_done();
}
