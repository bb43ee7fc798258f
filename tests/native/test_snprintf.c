/* The binary's own snprintf against the C library's, byte by byte. */
#include "check.h"

#include <stdint.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) int ss_snprintf(char *restrict text, size_t bytes,
                                                      const char *restrict format, ...);

/* Compares the text and its length between the two functions, and checks that nothing is written
 * beyond `bytes`. */
#define SAME_IN(bytes, ...)                                                                        \
    do {                                                                                           \
        char actual[512], expected[512];                                                           \
        memset(actual, '#', sizeof actual);                                                        \
        memset(expected, '#', sizeof expected);                                                    \
        int n = ss_snprintf(actual, bytes, __VA_ARGS__);                                           \
        CHECK_INT(n, snprintf(expected, bytes, __VA_ARGS__));                                      \
        CHECK(!memcmp(actual, expected, sizeof actual));                                           \
    } while (0)
#define SAME(...) SAME_IN(400, __VA_ARGS__)

static uint64_t state = 1;

static uint64_t random_bits(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static bool prints_same(const char *format, double number) {
    char actual[512], expected[512];
    int digits = (int)(random_bits() % 20);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    ss_snprintf(actual, sizeof actual, format, digits, number);
    snprintf(expected, sizeof expected, format, digits, number);
#pragma GCC diagnostic pop
    bool is_right = !strcmp(actual, expected);
    if (!is_right) printf("    %s, %d: expected %s, found %s\n", format, digits, expected, actual);
    return is_right;
}

int main(void) {
    static const double edges[] = {
        0.0,      -0.0,      1.0,       -1.0,         0.1,           0.5,
        1.5,      2.5,       9.5,       99.5,         0.05,          0.25,
        999999.5, 9999995,   0.0001,    0.00001,      0.00099999995, 1e22,
        1e23,     5e-324,    1e-308,    0x1p-1022,    0x1p1023,      0x1.fffffffffffffp1023,
        HUGE_VAL, -HUGE_VAL, 123456789, 4294967296.0, 0x1p53};
    static const char *const formats[] = {"%.*g", "%.*f"};

    CASE("the formats of the core give the texts of the C library");
    SAME("%s: expected %s, found \"%.*s\"", "key", "", 3, "abcdef");
    SAME("%.60s|%.80s|%.0s", "short", "also", "none");
    SAME("%d %d %d %d", 0, -17, INT32_MAX, INT32_MIN);
    SAME("%ld %ld %lu %u", -5L, 0L, (unsigned long)UINT32_MAX, 7u);
    SAME("opcode 0x%02x u%04x %x 100%%", 5u, 0x2028u, 0xdeadbeefu);
    SAME("%3d|%2d", 7, 123);
    SAME("%1.15g %1.17g %.7g %g %.0f", 0.1, 0.1, 0.30000001192092896, 1e-5, 1e15);

    CASE("texts that do not fit are cut like those of the C library");
    for (size_t bytes = 0; bytes < 12; bytes++) SAME_IN(bytes, "%s-%d", "123456", 78);

    CASE("numbers at the limits of their types are printed like in the C library");
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (int digits = 0; digits < 20; digits++) {
            SAME("%.*g", digits, edges[i]);
            SAME("%.*f", digits, edges[i]);
        }
    SAME("%g %f", (double)NAN, (double)NAN);

    CASE("half a million random doubles, and as many short ones and ties, are printed like in the "
         "C library");
    long wrong_n = 0;
    for (int i = 0; i < 500000; i++) {
        uint64_t bits = random_bits();
        double number, tie = (double)(int64_t)(bits >> 44) / (double)(1 << bits % 24);
        memcpy(&number, &bits, sizeof number);
        if (isfinite(number)) wrong_n += !prints_same(formats[0], number);
        wrong_n += !prints_same(formats[i % 2], tie);
    }
    CHECK_INT(wrong_n, 0);
    return check_done();
}
