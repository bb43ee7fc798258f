#include "writer.h"

#include "../base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put_char(ss_writer *writer, char c) {
    if (writer->n < writer->bytes) writer->out[writer->n] = c;
    writer->n++;
}

static void put_quoted(ss_writer *writer, const char *text) {
    put_char(writer, '"');
    for (; *text; text++) {
        SS_ASSERT((unsigned char)*text >= 0x20);
        if (*text == '"' || *text == '\\') put_char(writer, '\\');
        put_char(writer, *text);
    }
    put_char(writer, '"');
}

static void begin_member(ss_writer *writer, const char *key) {
    if (writer->has_members) put_char(writer, ',');
    writer->has_members = true;
    if (!key) return;
    put_quoted(writer, key);
    put_char(writer, ':');
}

static void write_word(ss_writer *writer, const char *key, const char *word) {
    begin_member(writer, key);
    while (*word) put_char(writer, *word++);
}

void ss_write_begin(ss_writer *writer, const char *key, char bracket) {
    begin_member(writer, key);
    put_char(writer, bracket);
    writer->has_members = false;
}

void ss_write_end(ss_writer *writer, char bracket) {
    put_char(writer, bracket);
    writer->has_members = true;
}

void ss_write_text(ss_writer *writer, const char *key, const char *text) {
    if (!text) {
        write_word(writer, key, "null");
        return;
    }
    begin_member(writer, key);
    put_quoted(writer, text);
}

void ss_write_bool(ss_writer *writer, const char *key, bool value) {
    write_word(writer, key, value ? "true" : "false");
}

/* Writes a number with 15 digits if these give the same double when they are read, else with 17. */
void ss_write_number(ss_writer *writer, const char *key, double number) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.15g", number);
    if (strtod(digits, NULL) != number) snprintf(digits, sizeof digits, "%.17g", number);
    write_word(writer, key, isfinite(number) ? digits : "null");
}

void ss_write_decimal(ss_writer *writer, const char *key, float number) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.7g", (double)number);
    write_word(writer, key, isfinite(number) ? digits : "null");
}

bool ss_write_finish(ss_writer *writer) {
    put_char(writer, '\0');
    return writer->n <= writer->bytes;
}
