/* Every quantized type against the numbers that the `gguf` package reads from the same blocks. */
#include "check.h"
#include "files.h"
#include "math/unpack.h"

#include <stdint.h>

#define FOLDER "tests/golden/unpack"

static const ss_tensor *tensor_of(const opened_file *file, ss_dtype type, const char *part) {
    char name[32];
    snprintf(name, sizeof name, "%s.%s", ss_dtype_name(type), part);
    const ss_entry *entry = ss_container_find(&file->container, name);
    if (!entry) {
        printf("no %s in the golden\n", name);
        exit(2);
    }
    return &entry->tensor;
}

/* Exponents that floats or the kernels cannot hold are found, except below a block of zeros. */
static void check_exponents(const unsigned char *source, unsigned char *block, size_t n,
                            size_t index) {
    static const struct {
        unsigned char exponent, numbers;
        bool is_good;
    } cases[] = {{252, 0x77, true}, {253, 0x77, false}, {255, 0x00, false}, {3, 0x11, true},
                 {2, 0x11, false},  {2, 0x80, true},    {0, 0x10, false},   {0, 0x88, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(block, cases[i].numbers, ss_dtype_block_bytes(SS_MXFP4));
        *block = cases[i].exponent;
        CHECK_INT(ss_first_not_finite(source, SS_MXFP4, n), cases[i].is_good ? SIZE_MAX : index);
    }
}

static void check_type(const opened_file *file, ss_dtype type) {
    const ss_tensor *blocks = tensor_of(file, type, "blocks");
    const ss_tensor *numbers = tensor_of(file, type, "numbers");
    size_t n = numbers->dims[0], bytes = ss_dtype_bytes(type, n);
    CHECK_INT(blocks->dims[0], bytes);
    /* A source of exact size lets a sanitizer detect reads and writes beyond it. */
    unsigned char *source = malloc(bytes);
    float *out = malloc(n * sizeof *out), *pieces = malloc(n * sizeof *out);
    if (!source || !out || !pieces) exit(2);
    memcpy(source, blocks->data, bytes);

    CASE(ss_dtype_name(type));
    ss_unpack(out, source, type, n);
    CHECK_BITS(out, numbers->data, n * sizeof *out);
    CHECK(ss_first_not_finite(source, type, n) == SIZE_MAX);

    size_t block_n = ss_dtype_block(type), block_bytes = ss_dtype_block_bytes(type);
    for (size_t i = 0; i < n / block_n; i++)
        ss_unpack(pieces + i * block_n, source + i * block_bytes, type, block_n);
    CHECK_BITS(pieces, out, n * sizeof *out);

    size_t bad_block = n / block_n - 1;
    size_t scale = type == SS_Q6_K ? 208 : type == SS_Q3_K ? 108 : type == SS_Q2_K ? 80 : 0;
    unsigned char *block = source + bad_block * block_bytes;
    if (type == SS_MXFP4) {
        check_exponents(source, block, n, bad_block * block_n);
    } else {
        block[scale] = 0x00;
        block[scale + 1] = 0xfc; /* minus infinity */
        CHECK_INT(ss_first_not_finite(source, type, n), bad_block * block_n);
    }
    free(source), free(out), free(pieces);
}

static void check_doubles(void) {
    const double numbers[] = {0.1, -3.0, 3.4028234663852886e38, 1e-300};
    const float nearest[] = {0.1f, -3.0f, 3.4028234663852886e38f, 0.0f};
    const double large[] = {1.0, 3.5e38, 1.0};
    float out[4];
    CASE("doubles become the nearest floats");
    ss_unpack(out, (const unsigned char *)numbers, SS_F64, 4);
    CHECK_BITS(out, nearest, sizeof nearest);
    CHECK(ss_first_not_finite((const unsigned char *)numbers, SS_F64, 4) == SIZE_MAX);
    CHECK_INT(ss_first_not_finite((const unsigned char *)large, SS_F64, 3), 1);
}

int main(void) {
    scoped_file file = open_file(FOLDER, "golden.safetensors");
    for (int type = SS_Q8_0; type < SS_DTYPE_N; type++) check_type(&file, (ss_dtype)type);
    check_doubles();
    return check_done();
}
