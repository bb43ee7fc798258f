/* The binary's own strtod against the C library's, bit by bit. */
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

double ss_strtod(const char *restrict text, char **restrict end);

static uint64_t state = 1;

static uint64_t random_bits(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static bool reads_same(const char *text) {
    char *end, *expected_end;
    double actual = ss_strtod(text, &end), expected = strtod(text, &expected_end);
    bool is_right = !memcmp(&actual, &expected, sizeof actual) && end == expected_end;
    if (!is_right) printf("    %s: expected %.17g, found %.17g\n", text, expected, actual);
    return is_right;
}

static bool reads_same_printed(int digits) {
    uint64_t bits = random_bits();
    double number;
    memcpy(&number, &bits, sizeof number);
    if (!isfinite(number)) return true;
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits, number);
    return reads_same(text);
}

int main(void) {
    static const char texts[] =
        "0|-0|1|0.1|1e-5|1e-05|1e-6|10000.0|500000|0.044715|1e22|1e23|9007199254740993|"
        "9007199254740992.5|9007199254740991.5|5e-324|2e-324|3e-324|2.2250738585072011e-308|"
        "2.2250738585072014e-308|1.7976931348623157e308|1.7976931348623159e308|1e309|1e400|"
        "1e401|1e99999|1e-400|1e-99999|0e99999|"
        "0.000000000000000000000000000000000000000000000000001|"
        "100000000000000000000000000000000000000000000000000000000000000000000|"
        "123456789012345678901234567890123456789012345678901234567890|1.3465735902799727|"
        "9.999999747378752e-06|  12|+3.5|.5|5.|1e|1e+|1e5x|x||-|.|-.e1";
    CASE("numbers in configs, limits, and texts that are not numbers are read like in the C "
         "library");
    const char *rest = texts;
    for (size_t n = 0; rest; rest = rest[n] ? rest + n + 1 : NULL) {
        char text[80];
        n = strcspn(rest, "|");
        snprintf(text, sizeof text, "%.*s", (int)n, rest);
        CHECK(reads_same(text));
    }
    CASE("a hundred thousand doubles, printed with 1 to 21 digits, are read like in the C library");
    long wrong_n = 0;
    for (int i = 0, n = check_trials(100000); i < n; i++) wrong_n += !reads_same_printed(i % 21);
    CHECK_INT(wrong_n, 0);
    return check_done();
}
