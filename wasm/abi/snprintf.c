/*
 * The printf family without 128-bit arithmetic and streams, for the binaries only, where the
 * functions of the C library would be a twentieth of the download. Numbers are printed from all
 * decimal digits and rounded once, to nearest, ties to even, as in native builds
 * (tests/native/test_snprintf.c).
 *
 * It supports the formats that the core uses: %s %d %u %lu %ld %x %g %f %%, precisions of %s, %g
 * and %f (* of %s), and widths of unsigned integers. Any other format traps.
 */
#include "big_integer.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The output; n also counts text that does not fit. */
typedef struct output {
    char *text;
    size_t bytes, n;
} output;

static void put(output *out, char c) {
    if (out->n + 1 < out->bytes) out->text[out->n] = c;
    out->n++;
}

static void put_integer(output *out, unsigned long value, unsigned base, int width, char pad) {
    char digits[24];
    int n = 0;
    for (; value > 0 || n == 0; value /= base) digits[n++] = "0123456789abcdef"[value % base];
    for (int i = n; i < width; i++) put(out, pad);
    while (n > 0) put(out, digits[--n]);
}

/* A decimal number 0.d1 d2 ... dn * 10^point, where dn is not 0. */
typedef struct decimal {
    char digits[9 * 86];
    int first, n, point;
} decimal;

static char digit_at(const decimal *x, int i) {
    return i >= 0 && i < x->n ? x->digits[x->first + i] : 0;
}

static void strip_zeros(decimal *x) {
    while (x->n > 0 && !digit_at(x, x->n - 1)) x->n--;
}

static void compute_digits(decimal *out, double value) {
    uint64_t fraction;
    memcpy(&fraction, &value, sizeof value);
    int power = fraction >> 52 & 0x7ff;
    fraction &= ((uint64_t)1 << 52) - 1;
    if (power)
        fraction |= (uint64_t)1 << 52;
    else
        power = 1; /* subnormal numbers have the exponent of the smallest normal number */
    power -= 1075;
    for (; fraction && !(fraction & 1); power++) fraction >>= 1;
    big_integer x = {.words = {(uint32_t)fraction, (uint32_t)(fraction >> 32)}, .n = 2};
    out->point = power < 0 ? power : 0;
    for (int i = power; i > 0; i -= i < 16 ? i : 16) multiply_add(&x, 1u << (i < 16 ? i : 16), 0);
    /* fraction / 2^i = fraction * 5^i / 10^i */
    for (; power <= -13; power += 13) multiply_add(&x, 1220703125, 0);
    for (; power < 0; power++) multiply_add(&x, 5, 0);
    out->first = sizeof out->digits;
    while (x.n > 0) {
        uint32_t nine_digits = divide(&x, 1000000000);
        for (int i = 0; i < 9; i++, nine_digits /= 10)
            out->digits[--out->first] = (char)(nine_digits % 10);
    }
    while (out->first < (int)sizeof out->digits && !out->digits[out->first]) out->first++;
    out->n = (int)sizeof out->digits - out->first;
    out->point = out->n ? out->point + out->n : 1;
    strip_zeros(out);
}

static void round_to(decimal *x, int digits) {
    if (digits >= x->n) return;
    char next_digit = digit_at(x, digits);
    bool rounds_tie_up = digits + 1 < x->n || (digit_at(x, digits - 1) & 1);
    x->n = digits < 0 ? 0 : digits;
    if (digits >= 0 && (next_digit > 5 || (next_digit == 5 && rounds_tie_up))) {
        while (x->n > 0 && digit_at(x, x->n - 1) == 9) x->n--;
        if (x->n == 0) {
            x->digits[x->first] = 0;
            x->n = 1;
            x->point++;
        }
        x->digits[x->first + x->n - 1]++;
    }
    strip_zeros(x);
}

static void put_fraction(output *out, const decimal *x, int begin, int end) {
    if (begin < end) put(out, '.');
    for (; begin < end; begin++) put(out, (char)('0' + digit_at(x, begin)));
}

static void put_fixed(output *out, const decimal *x, int decimals) {
    if (x->point < 1) put(out, '0');
    for (int i = 0; i < x->point; i++) put(out, (char)('0' + digit_at(x, i)));
    put_fraction(out, x, x->point, x->point + decimals);
}

static void put_exponential(output *out, const decimal *x) {
    int exponent = x->point - 1;
    put(out, (char)('0' + digit_at(x, 0)));
    put_fraction(out, x, 1, x->n);
    put(out, 'e');
    put(out, exponent < 0 ? '-' : '+');
    put_integer(out, (unsigned long)(exponent < 0 ? -exponent : exponent), 10, 2, '0');
}

static void put_text(output *out, const char *text, size_t bytes_max) {
    for (; bytes_max > 0 && *text; bytes_max--) put(out, *text++);
}

/* Writes a value by %g, with `precision` digits in all, or by %f, with `precision` digits after the
 * point. */
static void put_number(output *out, double value, bool is_general, int precision) {
    if (signbit(value) && !isnan(value)) put(out, '-');
    if (!isfinite(value)) {
        put_text(out, isnan(value) ? "nan" : "inf", 3);
        return;
    }
    decimal x;
    if (precision == 0 && is_general) precision = 1;
    compute_digits(&x, value);
    round_to(&x, is_general ? precision : x.point + precision);
    if (!is_general)
        put_fixed(out, &x, precision);
    else if (x.point < -3 || x.point > precision)
        put_exponential(out, &x);
    else
        put_fixed(out, &x, x.n > x.point ? x.n - x.point : 0);
}

static int read_count(const char **at) {
    int count = -1;
    for (; **at >= '0' && **at <= '9'; ++*at) count = (count < 0 ? 0 : count) * 10 + **at - '0';
    return count;
}

int vsnprintf(char *restrict text, size_t bytes, const char *restrict format, va_list list) {
    output out = {text, bytes, 0};
    for (const char *at = format; *at; at++) {
        if (*at != '%') {
            put(&out, *at);
            continue;
        }
        char pad = *++at == '0' ? '0' : ' ';
        int width = read_count(&at), precision = -1;
        if (*at == '.' && *++at == '*') {
            precision = va_arg(list, int);
            at++;
        } else if (at[-1] == '.') {
            precision = read_count(&at);
        }
        bool is_long = *at == 'l';
        at += is_long;
        switch (*at) {
        case '%': put(&out, '%'); break;
        case 's': put_text(&out, va_arg(list, const char *), (size_t)precision); break;
        case 'd': {
            long value = is_long ? va_arg(list, long) : va_arg(list, int);
            if (value < 0) put(&out, '-');
            put_integer(&out, value < 0 ? -(unsigned long)value : (unsigned long)value, 10, width,
                        pad);
            break;
        }
        case 'u':
        case 'x': {
            unsigned long value =
                is_long ? va_arg(list, unsigned long) : va_arg(list, unsigned int);
            put_integer(&out, value, *at == 'x' ? 16 : 10, width, pad);
            break;
        }
        case 'f':
        case 'g':
            put_number(&out, va_arg(list, double), *at == 'g', precision < 0 ? 6 : precision);
            break;
        default: __builtin_trap();
        }
    }
    if (bytes) text[out.n < bytes ? out.n : bytes - 1] = '\0';
    return (int)out.n;
}

int snprintf(char *restrict text, size_t bytes, const char *restrict format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, bytes, format, list);
    va_end(list);
    return n;
}
