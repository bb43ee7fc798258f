/* Products with weights in the format of their file. */
#include "math/matrix.h"
#include "math/scalar.h"

#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { IN_MAX = 1100, TOTAL = 24, ROWS = 8 };

/* The number of inputs; a row with many inputs is multiplied with several panels at a time. */
static size_t IN;
static float inputs[ROWS * IN_MAX];
static float sums[ROWS][TOTAL]; /* exact products of the inputs with all outputs of the tensor */

/* Returns a small integer, which is exact in every plain type, as the weight from input k to output
 * o. */
static float weight(size_t o, size_t k) {
    return (float)((int)((o * 31 + k * 7) % 15) - 7);
}

static void set_inputs(size_t in) {
    IN = in;
    for (size_t i = 0; i < ROWS * IN; i++) inputs[i] = (float)((int)(i % 9) - 4);
    memset(sums, 0, sizeof sums);
    for (size_t i = 0; i < ROWS * TOTAL * IN; i++) {
        size_t t = i / TOTAL / IN, o = i / IN % TOTAL, k = i % IN;
        sums[t][o] += inputs[t * IN + k] * weight(o, k);
    }
}

static void write_number(unsigned char *bytes, ss_dtype type, float x) {
    uint32_t bits = ss_bits_of_float(x), half = bits >> 16;
    if (type == SS_F16) half = (bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) - 0x38000000u) >> 13;
    if (type == SS_F16 && x == 0.0f) half = 0;
    if (type == SS_F32)
        for (int j = 0; j < 4; j++) bytes[j] = (unsigned char)(bits >> (8 * j));
    else
        bytes[0] = (unsigned char)half, bytes[1] = (unsigned char)(half >> 8);
}

/* Returns a tensor of TOTAL outputs and IN inputs, one byte off every alignment, in a block of
 * exact size. */
static unsigned char *make_tensor(ss_dtype type, bool in_out) {
    size_t width = ss_dtype_bytes(type, 1);
    unsigned char *block = malloc(1 + IN * TOTAL * width);
    if (!block) abort();
    for (size_t o = 0; o < TOTAL; o++)
        for (size_t k = 0; k < IN; k++)
            write_number(block + 1 + width * (in_out ? k * TOTAL + o : o * IN + k), type,
                         weight(o, k));
    return block;
}

/* Returns the index in the tensor of output n of the matrix, found by a search instead of a
 * formula. */
static size_t expected_place(const ss_matrix *w, size_t n) {
    size_t expected = n, heads = w->pair ? w->out / w->pair : 0;
    for (size_t h = 0; h < heads; h++)
        for (size_t half = 0, i = h * w->pair; half < 2; half++)
            for (size_t j = 0; j < (w->pair - w->unpaired) / 2; j++, i++)
                if (i == n) expected = h * w->pair + 2 * j + half;
    size_t o = w->first;
    for (size_t i = 0; i < expected; i++) o += (i + 1) % w->group ? 1 : w->step - w->group + 1;
    return o;
}

static void check_product(const ss_matrix *w, const ss_matrix *original, size_t T, bool with_bias) {
    float out[ROWS * TOTAL], bias[TOTAL];
    float *work = malloc(ss_matrix_work(ROWS, IN, 1) * sizeof *work);
    if (!work) abort();
    for (size_t n = 0; n < TOTAL; n++) bias[n] = (float)n;
    ss_matrix_times(out, inputs, w, with_bias ? bias : NULL, T, work, NULL);
    for (size_t n = 0; n < w->out; n++) {
        size_t place = expected_place(original, n);
        for (size_t t = 0; t < T; t++) {
            float sum = sums[t][place] + (with_bias ? bias[n] : 0.0f);
            if (check_failed(out[t * w->out + n] == sum, __FILE__, __LINE__, "product"))
                printf("    row %d, output %d\n", (int)t, (int)n);
        }
    }
    free(work);
}

static void check_parts(const ss_matrix *w) {
    float *row = malloc(17 * w->in * sizeof *row), *work = row + w->in;
    if (!row) abort();
    const float *panel = NULL;
    for (size_t n = 0; n < w->out; n++) {
        if (n % 8 == 0) panel = ss_matrix_panel(work, w, n);
        bool is_right = true, is_last = n + 1 == w->out;
        ss_matrix_unpack_output(row, w, n);
        for (size_t k = 0; k < w->in; k++) {
            is_right &= !memcmp(&panel[k * 8 + n % 8], row + k, sizeof *row);
            if ((k * 5 + n) % 7 < 5) continue;
            float weight = ss_matrix_weight(w, n, k);
            is_right &= !memcmp(&weight, row + k, sizeof weight);
        }
        for (size_t i = 0; is_last && i < 8 * w->in; i++)
            is_right &= i % 8 <= n % 8 || panel[i] == 0.0f;
        CHECK(is_right);
    }
    free(row);
}

static void check_outputs(ss_matrix w, ss_matrix original) {
    check_parts(&w);
    for (size_t T = 1; T <= ROWS; T++) {
        check_product(&w, &original, T, true);
        if (T == 1 || T == ROWS) check_product(&w, &original, T, false);
    }
    float vector[IN_MAX];
    for (size_t n = 0; n < w.out && !w.in_out; n++) {
        ss_matrix_unpack_output(vector, &w, n);
        bool is_right = true;
        size_t place = expected_place(&original, n);
        for (size_t k = 0; k < IN; k++) is_right &= vector[k] == weight(place, k);
        CHECK(is_right);
    }
}

/* Repeats the check after interleaving the outputs, if they can be interleaved, in a block of their
 * own. */
static void check_interleaved(ss_matrix w, size_t offset) {
    const ss_matrix original = w;
    size_t bytes = ss_dtype_bytes(w.type, IN * TOTAL);
    unsigned char *block = malloc(bytes + offset);
    if (!block) abort();
    memcpy(block + offset, w.data, bytes);
    w.data = block + offset;
    bool forms_panels =
        w.first % 8 == 0 && w.pair % 8 == 0 && (w.group == w.out || w.group % 8 == 0);
    if (w.in_out) forms_panels &= w.out % 8 == 0 && w.pair == 0;
    forms_panels &= w.type != SS_F32 || offset == 0;
    size_t floats = ss_matrix_interleave_work(&w);
    CHECK((floats > 0) == forms_panels);
    float *work = malloc(floats * sizeof *work + 1);
    if (!work) abort();
    if (forms_panels && w.in_out && w.first > 0) {
        ss_matrix first_matrix =
            w; /* the matrix of output 0, whose call reorders the whole tensor */
        first_matrix.first = 0, first_matrix.out = first_matrix.group = first_matrix.step = w.first;
        ss_matrix_interleave(&first_matrix, work);
    }
    ss_matrix_interleave(&w, work);
    CHECK(w.interleaved == forms_panels);
    CHECK(w.in_out == (original.in_out && !forms_panels));
    check_outputs(w, original);
    ss_matrix_interleave(&w, work); /* the second call changes nothing */
    check_product(&w, &original, 1, true);
    free(block), free(work);
}

static void check_matrix(ss_matrix w) {
    check_outputs(w, w);
    check_interleaved(w, 0);
    check_interleaved(w, 1);
}

enum { QUANTIZED_IN = 512, QUANTIZED_OUT = 21 };

static size_t scale_offset(ss_dtype type) {
    return type == SS_Q6_K ? 208 : type == SS_Q3_K ? 108 : type == SS_Q2_K ? 80 : 0;
}

/* Returns blocks of random bytes whose scales, F16 or the exponents of MXFP4, are small numbers. */
static unsigned char *make_blocks(ss_dtype type, size_t in) {
    size_t n = ss_dtype_bytes(type, in * QUANTIZED_OUT), size = ss_dtype_block_bytes(type);
    unsigned char *blocks = malloc(n);
    uint32_t random = 7;
    if (!blocks) abort();
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        blocks[i] = (unsigned char)(random >> 24);
    }
    bool has_two_scales =
        type == SS_Q4_1 || type == SS_Q5_1 || type == SS_Q4_K || type == SS_Q5_K || type == SS_Q2_K;
    for (size_t offset = scale_offset(type); type != SS_I8 && offset < n; offset += size) {
        blocks[offset + (type != SS_MXFP4)] = 0x14 | (blocks[offset + 1] & 0x80);
        if (has_two_scales) blocks[offset + 3] &= 0x97;
    }
    return blocks;
}

/* Returns true if a sum is right. A product in integers must be near the exact sum and have the
 * bits of a product of one row; other products must have the bits of the unpacked numbers
 * multiplied in order. */
static bool is_right_sum(const ss_matrix *w, const float *a, const float *row, float actual,
                         float single_row_sum) {
    float sum = 0.0f;
    double exact = 0.0, size = 0.0;
    for (size_t k = 0; k < w->in; k++) {
        sum += a[k] * row[k];
        exact += (double)a[k] * (double)row[k];
        size += fabs((double)a[k] * (double)row[k]);
    }
    if (!ss_matrix_is_fixed(w)) return ss_bits_of_float(actual) == ss_bits_of_float(sum);
    return ss_bits_of_float(actual) == ss_bits_of_float(single_row_sum) &&
           is_within(fabs((double)actual - exact), 2e-7 * size);
}

/* Checks that interleaved rows have the same numbers and sums as before. The last five outputs are
 * not interleaved. */
static void check_interleaved_blocks(ss_matrix w, const float *a, float *work) {
    static float out[2][ROWS * QUANTIZED_OUT], row[2][QUANTIZED_IN];
    ss_matrix interleaved = w;
    size_t bytes = ss_dtype_bytes(w.type, w.in * w.total);
    unsigned char *block = malloc(bytes);
    float *interleave_work = malloc(8 * w.in * sizeof *interleave_work);
    if (!block || !interleave_work) abort();
    interleaved.data = memcpy(block, w.data, bytes);
    ss_matrix_interleave(&interleaved, interleave_work);
    bool is_interleavable = ss_matrix_is_fixed(&w) && w.first == 0;
    CHECK(interleaved.interleaved == is_interleavable);
    CHECK((memcmp(block, w.data, bytes) != 0) == is_interleavable);
    for (size_t T = 1; T <= ROWS; T++) {
        ss_matrix_times(out[0], a, &w, NULL, T, work, NULL);
        ss_matrix_times(out[1], a, &interleaved, NULL, T, work, NULL);
        CHECK(memcmp(out[0], out[1], T * w.out * sizeof *out[0]) == 0);
    }
    check_parts(&w);
    check_parts(&interleaved);
    for (size_t n = 0; n < w.out; n++) {
        ss_matrix_unpack_output(row[0], &w, n);
        ss_matrix_unpack_output(row[1], &interleaved, n);
        CHECK(memcmp(row[0], row[1], w.in * sizeof *row[0]) ==
              0); /* memcmp also compares the signs of zeros */
    }
    free(block), free(interleave_work);
}

static void check_quantized(ss_dtype type, size_t in) {
    static float ones[ROWS * QUANTIZED_OUT];
    static float a[ROWS * QUANTIZED_IN], row[QUANTIZED_IN], scales[QUANTIZED_OUT];
    static float out[ROWS * QUANTIZED_OUT];
    unsigned char *blocks = make_blocks(type, in);
    ss_matrix w = {.data = blocks, .type = type, .in = in, .out = QUANTIZED_OUT - 2, .first = 2};
    w.total = QUANTIZED_OUT, w.group = w.step = w.out;
    for (size_t i = 0; i < QUANTIZED_OUT; i++) scales[i] = 0.01f * (float)(i + 1);
    for (size_t i = 0; i < ROWS * in; i++) a[i] = (float)((int)(i * 37 % 101) - 50) * 0.013f;
    if (type == SS_I8) w.scales = scales;
    float *work = malloc(ss_matrix_work(ROWS, in, 1) * sizeof *work);
    if (!work) abort();
    CASE(ss_dtype_name(type));
    for (size_t t = 0; t < ROWS; t++)
        ss_matrix_times(ones + t * w.out, a + t * in, &w, NULL, 1, work, NULL);
    for (size_t T = 1; T <= ROWS; T++) {
        ss_matrix_times(out, a, &w, NULL, T, work, NULL);
        for (size_t n = 0; n < w.out; n++) {
            ss_matrix_unpack_output(row, &w, n);
            for (size_t t = 0; t < T; t++) {
                CHECK(is_right_sum(&w, a + t * in, row, out[t * w.out + n], ones[t * w.out + n]));
            }
        }
    }
    check_interleaved_blocks(w, a, work);
    w.first = 0, w.out = w.group = w.step = QUANTIZED_OUT;
    check_interleaved_blocks(w, a, work);
    free(work), free(blocks);
}

/* Checks the order of interleaved tensors [in][total], panel by panel and input by input: tensors
 * with many blocks of inputs, with one block, and with short blocks, since no larger number divides
 * the inputs. */
static void check_interleaved_order(size_t in, size_t total, ss_dtype type) {
    size_t width = ss_dtype_bytes(type, 1), n = in * total;
    unsigned char *block = malloc(n * width), *expected = malloc(n * width);
    ss_matrix w = {.data = block, .type = type, .in = in, .out = total, .total = total};
    w.group = w.step = total, w.in_out = true;
    if (!block || !expected) abort();
    size_t unit = type == SS_F32 ? 1 : 2;
    for (size_t i = 0; i < n; i++) {
        size_t k = i / total, o = i % total;
        size_t target = o / 8 * 8 * in + (k / unit * 8 + o % 8) * unit + k % unit;
        for (size_t j = 0; j < width; j++)
            block[i * width + j] = expected[target * width + j] = (unsigned char)(i >> 8 * j);
    }
    float *work = malloc(ss_matrix_interleave_work(&w) * sizeof *work);
    if (!work) abort();
    ss_matrix_interleave(&w, work);
    CHECK(w.interleaved && memcmp(block, expected, n * width) == 0);
    free(block), free(expected), free(work);
}

static void check_order(void) {
    static const size_t sizes[][2] = {{768, 2304}, {3072, 768}, {1, 8},      {2, 40000},
                                      {1018, 768}, {6, 16},     {2000, 264}, {50, 20000}};
    CASE("tensors [in][total] are interleaved in place");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_interleaved_order(sizes[i][0], sizes[i][1], SS_F32);
        if (sizes[i][0] % 2 == 0) check_interleaved_order(sizes[i][0], sizes[i][1], SS_F16);
    }
    check_interleaved_order(1019, 256, SS_F32); /* 1019 is a prime number */
}

static void check_plain(void) {
    static const ss_dtype types[] = {SS_F32, SS_F16, SS_BF16};
    for (int i = 0; i < 6; i++) {
        ss_matrix w = {.type = types[i / 2], .in = IN, .total = TOTAL, .in_out = i % 2};
        unsigned char *block = make_tensor(w.type, w.in_out);
        w.data = block + 1;
        printf("-- %s, %s\n", ss_dtype_name(w.type), w.in_out ? "[in][out]" : "[out][in]");
        CASE("products with a matrix that is a whole tensor are exact");
        w.out = w.group = w.step = TOTAL;
        check_matrix(w);
        CASE("products with outputs from the middle of a tensor, in any number, are exact");
        w.first = 3, w.out = w.group = w.step = 13;
        check_matrix(w);
        CASE("products with the queries of a tensor of queries, keys and values by head are exact");
        w.first = 4, w.out = 8, w.group = 4, w.step = 12;
        check_matrix(w);
        CASE("products with every other output of a tensor are exact");
        w.first = 1, w.out = 12, w.group = 1, w.step = 2;
        check_matrix(w);
        CASE("products with adjacent rotary pairs are exact");
        w.first = 0, w.out = w.group = w.step = TOTAL, w.pair = 6;
        check_matrix(w);
        CASE("products with adjacent rotary pairs in the first part of a head are exact");
        w.unpaired = 2;
        check_matrix(w);
        CASE("products with rotary pairs of heads of whole panels, after other outputs, are exact");
        w.first = 8, w.out = w.group = w.step = 16, w.unpaired = 0, w.pair = 8;
        check_matrix(w);
        CASE("products with rotary pairs in the first part of heads of whole panels are exact");
        w.unpaired = 4;
        check_matrix(w);
        CASE("products with rotary pairs of heads that are not adjacent are exact");
        w.first = 2, w.out = 12, w.group = 6, w.step = 9, w.pair = 3, w.unpaired = 1;
        check_matrix(w);
        CASE("products with outputs that begin with a panel and end within one are exact");
        w.first = 8, w.out = w.group = w.step = 13, w.unpaired = w.pair = 0;
        check_matrix(w);
        CASE("products with heads of whole panels that are not adjacent are exact");
        w.first = 0, w.out = 16, w.group = 8, w.step = 16;
        check_matrix(w);
        free(block);
    }
}

int main(void) {
    for (int type = SS_Q8_0; type < SS_DTYPE_N; type++)
        check_quantized((ss_dtype)type, QUANTIZED_IN);
    check_quantized(SS_I8, 300); /* the last 12 inputs do not fill a group */
    set_inputs(300);
    check_plain();
    set_inputs(IN_MAX);
    check_plain();
    check_order();
    return check_done();
}
