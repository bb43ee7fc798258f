/*
 * strtod without 128-bit arithmetic, only for the binaries.
 *
 * musl's strtod reads numbers in long double, which wasm lacks: the routines that replace it are a
 * tenth of the download. This function computes with large integers and rounds once, to nearest,
 * ties to even, so that a config gives the same bits as in native builds
 * (tests/native/test_strtod.c). Digits after the 40th only count as "a little more". It reads
 * neither hexadecimal numbers nor infinity, which JSON lacks.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 40, EXPONENT_MAX = 400 };

/* Number of 32-bit words: the smallest doubles need the most bits, 2547 for 2^53 * 5^1074. */
enum { WORDS = 80 };

/* An integer. Its lowest 32 bits come first; words from n on are zero. */
typedef struct big_integer {
    uint32_t words[WORDS];
    int n;
} big_integer;

static void multiply_add(big_integer *x, uint32_t factor, uint32_t term) {
    uint64_t carry = term;
    for (int i = 0; i < x->n; i++) {
        carry += (uint64_t)x->words[i] * factor;
        x->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) x->words[x->n++] = (uint32_t)carry;
}

/* Computes x = x / divisor, rounded down, and returns the remainder. */
static uint32_t divide(big_integer *x, uint32_t divisor) {
    uint64_t remainder = 0;
    for (int i = x->n; i-- > 0;) {
        remainder = remainder << 32 | x->words[i];
        x->words[i] = (uint32_t)(remainder / divisor);
        remainder %= divisor;
    }
    while (x->n > 0 && !x->words[x->n - 1]) x->n--;
    return (uint32_t)remainder;
}

/* The parsed number, digits * 10^exponent; `has_rest`: a digit other than 0 was dropped. */
typedef struct decimal {
    char digits[DIGITS_MAX];
    int n, exponent;
    bool has_rest, has_digits;
} decimal;

static int bits_of(const big_integer *x) {
    return x->n ? 32 * x->n - __builtin_clz(x->words[x->n - 1]) : 0;
}

static bool bit_at(const big_integer *x, int i) {
    return i >= 0 && (x->words[i / 32] >> (i % 32) & 1);
}

/* Rounds x * 2^-shift to a double; with `has_rest` the value is a little larger. */
static double round_to_double(const big_integer *x, int shift, bool has_rest) {
    int bits = bits_of(x), exponent = bits - 1 - shift; /* 2^exponent <= value */
    if (bits == 0) return 0;
    if (exponent > 1023) return __builtin_inf();
    /* Subnormal doubles keep fewer than 53 bits. */
    int kept_bits = exponent >= -1022 ? 53 : 53 - (-1022 - exponent);
    uint64_t fraction = 0;
    int lowest_bit = bits - kept_bits; /* index of the lowest remaining bit */
    for (int i = 0; i < kept_bits; i++) fraction = fraction << 1 | bit_at(x, bits - 1 - i);
    bool has_half = kept_bits >= 0 && bit_at(x, lowest_bit - 1), is_above_half = has_rest;
    for (int i = 0; i < lowest_bit - 1 && !is_above_half; i++) is_above_half = bit_at(x, i);
    if (has_half && (is_above_half || (fraction & 1))) fraction++;
    /* A carry out of the fraction increments the exponent, as it must. */
    uint64_t biased_exponent = exponent >= -1022 ? (uint64_t)(exponent + 1022) : 0, result;
    result = (biased_exponent << 52) + fraction;
    double value;
    memcpy(&value, &result, sizeof value);
    return value;
}

static double exact_value(const decimal *number) {
    big_integer x = {.n = 0};
    bool has_rest = number->has_rest;
    int exponent = number->exponent, shift = 0;
    for (int i = 0; i < number->n; i++) multiply_add(&x, 10, (uint32_t)number->digits[i]);
    for (; exponent > 0; exponent--) multiply_add(&x, 10, 0);
    if (exponent < 0) {
        /* The shift leaves 64 bits after the division: 10/3 bits per decimal digit, and a few more.
         */
        shift = (64 + -exponent * 10 / 3 + 8) / 16 * 16;
        for (int i = 0; i < shift / 16; i++) multiply_add(&x, 1u << 16, 0);
    }
    for (; exponent < 0; exponent++) has_rest |= divide(&x, 10) != 0;
    return round_to_double(&x, shift, has_rest);
}

/* Returns the value of a parsed number. Up to 15 digits and 10^22 are exact in a double, so one
 * product or quotient rounds once (Clinger 1990). Nearly all numbers in files are of this kind. */
static double value_of(const decimal *number) {
    int exponent = number->exponent;
    if (number->n == 0) return 0;
    if (number->n <= 15 && exponent >= -22 && exponent <= 22) {
        double value = 0, power = 1;
        for (int i = 0; i < number->n; i++) value = value * 10 + number->digits[i];
        for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--) power *= 10;
        return exponent < 0 ? value / power : value * power;
    }
    if (exponent > EXPONENT_MAX) return __builtin_inf();
    return exponent < -EXPONENT_MAX ? 0 : exact_value(number);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *read_digits(const char *at, decimal *number) {
    for (bool is_after_point = false; is_digit(*at) || (*at == '.' && !is_after_point); at++) {
        if (*at == '.') {
            is_after_point = true;
            continue;
        }
        number->has_digits = true;
        if (number->n < DIGITS_MAX) {
            if (number->n > 0 || *at != '0') number->digits[number->n++] = (char)(*at - '0');
            number->exponent -= is_after_point;
        } else {
            number->has_rest |= *at != '0';
            number->exponent += !is_after_point;
        }
    }
    return at;
}

static const char *read_exponent(const char *at, int *exponent) {
    const char *sign = at + 1;
    if (*at != 'e' && *at != 'E') return at;
    const char *first = sign + (*sign == '+' || *sign == '-');
    if (!is_digit(*first)) return at;
    int value = 0;
    for (at = first; is_digit(*at); at++)
        if (value < 100000) value = value * 10 + *at - '0';
    *exponent += *sign == '-' ? -value : value;
    return at;
}

double strtod(const char *restrict text, char **restrict end) {
    const char *at = text;
    while (*at == ' ' || (*at >= '\t' && *at <= '\r')) at++;
    bool is_negative = *at == '-';
    at += *at == '-' || *at == '+';
    decimal number = {.n = 0};
    at = read_digits(at, &number);
    if (number.has_digits) at = read_exponent(at, &number.exponent);
    if (end) *end = (char *)(uintptr_t)(number.has_digits ? at : text);
    double value = number.has_digits ? value_of(&number) : 0;
    return is_negative && number.has_digits ? -value : value;
}
