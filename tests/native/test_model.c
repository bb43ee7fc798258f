/*
 * Broken model files: each gives its code and place, and no byte outside the file is read (every
 * file is in a block of its exact size, so that the sanitizers detect it).
 */
#include "tables.h"

#include <math.h>
#if SS_ARENA_GAP
#include <sanitizer/asan_interface.h>
#endif

#define LLAMA "tests/golden/hf-llama-gqa"
#define GPT2 "tests/golden/hf-gpt2-plain"

static ss_bytes copy_of(const void *data, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) exit(2);
    memcpy(copy, data, n);
    return (ss_bytes){copy, n};
}

/* Returns a safetensors file with that header and data_n zero bytes of data. */
static ss_bytes file_of(const char *header, size_t data_n) {
    size_t n = strlen(header);
    unsigned char *bytes = calloc(8 + n + data_n, 1);
    if (!bytes) exit(2);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, n);
    return (ss_bytes){bytes, 8 + n + data_n};
}

static void check_container_headers(void) {
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "headers")) {
        CASE(text_in(row, 0));
        const cJSON *header = cJSON_GetArrayItem(row, 1);
        char *text = cJSON_IsString(header) ? NULL : cJSON_PrintUnformatted(header);
        size_t data_n = (size_t)cJSON_GetArrayItem(row, 2)->valueint;
        opened_file file = {.bytes = file_of(text ? text : header->valuestring, data_n)};
        ss_error err = {0};
        ss_status status = open_bytes(&file, &err);
        check_refusal(row, 3, status, &err);
        close_file(&file);
        cJSON_free(text);
    }
    CASE("data may end with the file, where a tensor of no elements may also begin");
    opened_file file = {
        .bytes = file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[12,12]}}",
                         12)};
    ss_error err = {0};
    CHECK_INT((int)open_bytes(&file, &err), SS_OK);
    CHECK_INT(ss_container_find(&file.container, "b")->end, 12);
    close_file(&file);
}

static void check_header_lengths(void) {
    CASE("a header length that exceeds the file is refused");
    const unsigned char lengths[][9] = {{9}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{'}};
    for (int i = 0; i < 2; i++) {
        opened_file file = {.bytes = copy_of(lengths[i], 9)};
        ss_error err = {0};
        CHECK_INT((int)open_bytes(&file, &err), SS_BAD_FILE);
        CHECK(!strcmp(err.where, "byte 0"));
        close_file(&file);
    }
    CASE("deep nesting is refused before the stack ends");
    scoped char *nested = malloc(200001);
    if (!nested) exit(2);
    memset(nested, '[', 200000);
    nested[200000] = 0;
    opened_file file = {.bytes = file_of(nested, 0)};
    ss_error err = {0};
    CHECK_INT((int)open_bytes(&file, &err), SS_BAD_FILE);
    close_file(&file);
    CASE("an empty table, metadata and a trailing space are accepted");
    file = (opened_file){.bytes = file_of("{\"__metadata__\":{\"format\":\"pt\"}}   ", 0)};
    CHECK_INT((int)open_bytes(&file, &err), SS_OK);
    CHECK(ss_container_find(&file.container, "__metadata__") == NULL);
    close_file(&file);
}

/* Number of blocks that cJSON holds now, and the largest number so far. */
static struct { int held, max_held; } pieces;

static void *count_malloc(size_t bytes) {
    if (++pieces.held > pieces.max_held) pieces.max_held = pieces.held;
    return malloc(bytes);
}

static void count_free(void *piece) {
    pieces.held -= piece != NULL;
    free(piece);
}

static void check_many_entries(void) {
    CASE("a header of ten thousand entries is read one at a time");
    enum { ENTRIES = 10000, ENTRY_BYTES = 64 };
    scoped char *header = malloc(ENTRIES * ENTRY_BYTES);
    if (!header) exit(2);
    size_t n = 0;
    for (int i = 0; i < ENTRIES; i++)
        n += (size_t)snprintf(header + n, ENTRY_BYTES,
                              "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                              i ? ',' : '{', i, i, i + 1);
    snprintf(header + n, ENTRY_BYTES, "}");
    scoped_file file = {.bytes = file_of(header, ENTRIES)};
    cJSON_InitHooks(&(cJSON_Hooks){count_malloc, count_free});
    ss_error err;
    must(open_bytes(&file, &err), &err, "many entries");
    cJSON_InitHooks(NULL);
    CHECK_INT(file.container.n, ENTRIES);
    CHECK_INT(ss_container_find(&file.container, "9999")->begin, 9999);
    CHECK(pieces.max_held > 0 && pieces.max_held < 100);
}

static void check_config_texts(void) {
    CASE("texts that are no config are refused");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "configs")) {
        scoped_bytes bytes = copy_of(text_in(row, 0), strlen(text_in(row, 0)));
        ss_arch arch;
        ss_error err = {0};
        ss_status status = ss_arch_read(&arch, bytes, &err);
        check_refusal(row, 1, status, &err);
    }
}

static unsigned char *find_in(ss_bytes file, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 8; i + n <= file.n; i++)
        if (!memcmp(file.data + i, text, n)) return (unsigned char *)(size_t)(file.data + i);
    printf("%s is not in the file\n", text);
    exit(2);
}

static void check_broken_weights(void) {
    scoped_bytes config = read_file(LLAMA, "config.json");
    scoped_bytes weights = read_file(LLAMA, "model.safetensors");
    ss_error err = {0};
    CASE("the unchanged file opens");
    CHECK_INT((int)try_open(config, weights, &err), SS_OK);

    CASE("a renamed tensor is missing under its expected name");
    ss_bytes broken_weights = copy_of(weights.data, weights.n);
    memcpy(find_in(broken_weights, "model.norm.weight"), "model.morn.weight", 17);
    CHECK_INT((int)try_open(config, broken_weights, &err), SS_BAD_TENSOR);
    CHECK(!strcmp(err.where, "model.norm.weight"));
    free((void *)(size_t)broken_weights.data);

    CASE("a config with other widths is refused at the first tensor, with expected and actual "
         "shapes");
    scoped_bytes changed_config = copy_of(config.data, config.n);
    unsigned char *width = find_in(changed_config, "\"hidden_size\": 32");
    memcpy(width, "\"hidden_size\": 48", 17);
    CHECK_INT((int)try_open(changed_config, weights, &err), SS_BAD_TENSOR);
    CHECK(strstr(err.text, "expected shape [64, 48], found [64, 32]") != NULL);

    CASE("a NaN and an infinity are refused with their index");
    const float not_finite[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        broken_weights = copy_of(weights.data, weights.n);
        memcpy((void *)(size_t)(broken_weights.data + broken_weights.n - 8), &not_finite[i], 4);
        CHECK_INT((int)try_open(config, broken_weights, &err), SS_BAD_TENSOR);
        CHECK(strstr(err.text, "NaN or infinite") != NULL);
        free((void *)(size_t)broken_weights.data);
    }

    CASE("a file truncated at any hundredth is a bad file, never a crash");
    for (size_t i = 0; i < 100; i++) {
        broken_weights = copy_of(weights.data, weights.n * i / 100);
        CHECK_INT((int)try_open(config, broken_weights, &err), SS_BAD_FILE);
        free((void *)(size_t)broken_weights.data);
    }

    CASE("ten thousand flipped bits, in the header and after it, give a status, never a crash");
    uint32_t state = 12345;
    size_t header_bytes = (size_t)weights.data[0] | (size_t)weights.data[1] << 8;
    int refused_n = 0;
    for (int i = 0; i < 10000; i++) {
        state = state * 1664525u + 1013904223u;
        size_t offset = state % (i % 2 ? header_bytes + 8 : weights.n);
        unsigned char *byte = (unsigned char *)(size_t)(weights.data + offset);
        unsigned char original = *byte;
        *byte = (unsigned char)(original ^ 1u << (state >> 29));
        refused_n += try_open(config, weights, &err) != SS_OK;
        *byte = original;
    }
    printf("  %d of 10000 were refused\n", refused_n);
    CHECK(refused_n > 3000);
}

/* Width of the embedding and of the head: more numbers than are compared at a time. */
#define TIED_D 300

static uint16_t half_of(int n) { /* returns n / 16 in F16, 0 < n < 32 */
    int power = 4;
    while (n >> power == 0) power--;
    return (uint16_t)((11 + power) << 10 | (n << (10 - power) & 1023));
}

/* Opens a tied model of two tokens whose file also has a head, in F16, or in I8 with a scale for
 * each row. Number (row, column) of the head differs from the embedding. */
static ss_status open_tied(const char *type, int row, int column, ss_error *err) {
    static const struct {
        const char *name;
        int rows, columns;
    } other_tensors[] = {{"self_attn.q_proj", 4, TIED_D},        {"self_attn.k_proj", 4, TIED_D},
                         {"self_attn.v_proj", 4, TIED_D},        {"self_attn.o_proj", TIED_D, 4},
                         {"mlp.gate_proj", 1, TIED_D},           {"mlp.up_proj", 1, TIED_D},
                         {"mlp.down_proj", TIED_D, 1},           {"input_layernorm", TIED_D, 0},
                         {"post_attention_layernorm", TIED_D, 0}};
    static unsigned char data[100000];
    char header[2048];
    bool is_int8 = !strcmp(type, "I8");
    size_t offset = (size_t)TIED_D * 2 * 4, head = (size_t)TIED_D * 2 * (is_int8 ? 1 : 2);
    memset(data, 0, sizeof data);
    for (int i = 0; i < 2 * TIED_D; i++) {
        int n = 1 + i % 31;
        float number = (float)n / 16.0f;
        memcpy(data + 4 * i, &number, sizeof number);
        /* At the tested places n is not 16, so the number differs. */
        int head_number = i == row * TIED_D + column ? 32 - n : n;
        uint16_t head_half = half_of(head_number);
        if (is_int8)
            data[offset + (size_t)i] = (unsigned char)head_number;
        else
            memcpy(data + offset + 2 * (size_t)i, &head_half, sizeof head_half);
    }
    int header_n =
        snprintf(header, sizeof header,
                 "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,%d],"
                 "\"data_offsets\":[0,%d]},\"lm_head.weight\":{\"dtype\":\"%s\",\"shape\":"
                 "[2,%d],\"data_offsets\":[%d,%d]}",
                 TIED_D, (int)offset, type, TIED_D, (int)offset, (int)(offset + head));
    offset += head;
    if (is_int8) {
        memcpy(data + offset, (float[]){1.0f / 16.0f, 1.0f / 16.0f}, 8);
        header_n += snprintf(header + header_n, sizeof header - (size_t)header_n,
                             ",\"lm_head.weight_scale\":{\"dtype\":\"F32\",\"shape\":[2,1],"
                             "\"data_offsets\":[%d,%d]}",
                             (int)offset, (int)offset + 8);
        offset += 8;
    }
    for (size_t i = 0; i <= sizeof other_tensors / sizeof *other_tensors; i++) {
        bool is_norm = i == sizeof other_tensors / sizeof *other_tensors;
        int rows = is_norm ? TIED_D : other_tensors[i].rows,
            columns = is_norm ? 0 : other_tensors[i].columns;
        size_t n = (size_t)rows * (size_t)(columns ? columns : 1) * 2;
        char shape[32];
        snprintf(shape, sizeof shape, columns ? "%d,%d" : "%d", rows, columns);
        header_n += snprintf(header + header_n, sizeof header - (size_t)header_n,
                             ",\"model.%s%s.weight\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_"
                             "offsets\":[%d,%d]}",
                             is_norm ? "" : "layers.0.", is_norm ? "norm" : other_tensors[i].name,
                             shape, (int)offset, (int)(offset + n));
        offset += n;
    }
    snprintf(header + header_n, sizeof header - (size_t)header_n, "}");
    scoped_bytes file = file_of(header, offset);
    memcpy((unsigned char *)(size_t)file.data + file.n - offset, data, offset);
    char config[512];
    int n = snprintf(config, sizeof config,
                     "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"num_attention_heads\":1,"
                     "\"num_key_value_heads\":1,\"head_dim\":4,\"hidden_size\":%d,"
                     "\"intermediate_size\":1,\"vocab_size\":2,\"tie_word_embeddings\":true}",
                     TIED_D);
    ss_status status = try_open((ss_bytes){(const unsigned char *)config, (size_t)n}, file, err);
    return status;
}

static void check_tied_heads(void) {
    CASE("a tied model's file may have a head that holds the embedding's numbers, in any type");
    static const char *const types[] = {"F16", "I8"};
    for (int i = 0; i < 2; i++) {
        ss_error err = {0};
        CHECK_INT((int)open_tied(types[i], -1, 0, &err), SS_OK);
        /* The first and last columns, and columns on each side of a block's border. */
        static const int places[][2] = {{0, 0}, {0, TIED_D - 1}, {1, 255}, {1, 256}, {1, 0}};
        for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
            char place[64];
            snprintf(place, sizeof place, "row %d, column %d:", places[j][0], places[j][1]);
            CHECK_INT((int)open_tied(types[i], places[j][0], places[j][1], &err), SS_BAD_TENSOR);
            CHECK(!strcmp(err.where, "lm_head.weight") && strstr(err.text, place));
        }
    }
}

static void check_conv1d(void) {
    CASE("gpt2: a fused matrix of the wrong shape is refused, and buffers are ignored");
    scoped_bytes config = read_file(GPT2, "config.json");
    scoped_bytes weights = read_file(GPT2, "model.safetensors");
    ss_error err = {0};
    CHECK_INT((int)try_open(config, weights, &err), SS_OK);
    scoped_bytes broken_weights = copy_of(weights.data, weights.n);
    memcpy(find_in(broken_weights, "h.0.attn.c_attn.bias"), "h.0.attn.c_attn.sabi", 20);
    CHECK_INT((int)try_open(config, broken_weights, &err), SS_BAD_TENSOR);
    CHECK(!strcmp(err.where, "h.0.attn.c_attn.bias"));
}

static void check_operations(void) {
    CASE("an operation or parameter that the table does not have is refused when the model opens");
    scoped_model opened = open_model(LLAMA);
    ss_attention *attention = &opened.model.arch.attention;
    ss_choice choice;
    ss_error err;
    CHECK_INT((int)ss_operation_own(&choice, &opened.model, &err), SS_OK);
    strcpy(attention->operation, "sink_logit"); /* the model has no tensor self_attn.sinks */
    CHECK_INT((int)ss_operation_own(&choice, &opened.model, &err), SS_BAD_CONFIG);
    attention->parameters_n = 1;
    strcpy(attention->parameters[0].name, "logit");
    attention->parameters[0].value = 1.5f;
    CHECK_INT((int)ss_operation_own(&choice, &opened.model, &err), SS_OK);
    CHECK_NEAR(choice.parameters[0], 1.5, 0);
    strcpy(attention->parameters[0].name, "slope");
    CHECK_INT((int)ss_operation_own(&choice, &opened.model, &err), SS_BAD_CONFIG);
    strcpy(attention->operation, "hardmax");
    CHECK_INT((int)ss_operation_own(&choice, &opened.model, &err), SS_UNSUPPORTED);
}

static void check_arenas(void) {
    CASE("a measuring arena counts the bytes of its pieces, and refuses an overflow");
    ss_arena measure = ss_arena_measure();
    ss_arena_take(&measure, 3, 1);
    CHECK_INT(measure.used == SS_ARENA_OVERHEAD, 1);
    ss_arena_take(&measure, SIZE_MAX / 2, 4);
    CHECK(measure.full);
    ss_arena arena = arena_of(SS_ARENA_ALIGN + SS_ARENA_OVERHEAD);
    unsigned char *piece = ss_arena_take(&arena, 1, 65);
    CHECK(piece != NULL);
#if SS_ARENA_GAP
    CHECK(!__asan_address_is_poisoned(piece + 64) && __asan_address_is_poisoned(piece + 65));
#endif
    CHECK(ss_arena_take(&arena, 1, 1) == NULL && arena.full);
    free(arena.block);

    CASE("an error quotes text of a file in printable ASCII only");
    ss_error err;
    ss_fail(&err, SS_BAD_FILE, "a\x01\xff", "%s", "b\n\x80");
    CHECK(!strcmp(err.where, "a??") && !strcmp(err.text, "b??"));

    CASE("the place of a tensor with an empty name is not empty");
    ss_fail(&err, SS_BAD_FILE, "", "found nothing");
    CHECK(!strcmp(err.where, "\"\""));
}

int main(void) {
    open_tables("model.json");
    check_container_headers();
    check_header_lengths();
    check_many_entries();
    check_config_texts();
    check_broken_weights();
    check_tied_heads();
    check_conv1d();
    check_operations();
    check_arenas();
    close_tables("model.json");
    return check_done();
}
