/*
 * Writer: JSON text into a caller's bytes, member by member.
 *
 * A member of an object has a key, one of an array NULL. What does not fit is counted and left out,
 * so that only the end has to be checked. Texts have no control characters.
 */
#ifndef SS_REPORT_WRITER_H
#define SS_REPORT_WRITER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ss_writer {
    char *out;
    size_t bytes, n; /* n of the text, whether it fits or not */
    bool begun;      /* whatever is open has a member already */
} ss_writer;

/* Begins an object or an array, by its bracket, and ends it. */
void ss_write_begin(ss_writer *writer, const char *key, char bracket);
void ss_write_end(ss_writer *writer, char bracket);

/* NULL becomes null, and so do NaN and what is infinite. */
void ss_write_text(ss_writer *writer, const char *key, const char *text);
void ss_write_number(ss_writer *writer, const char *key, double number);
void ss_write_bool(ss_writer *writer, const char *key, bool value);

/* A float as it was written: 0.3f is 0.3, not the double that it widens to. */
void ss_write_decimal(ss_writer *writer, const char *key, float number);

/* Ends the text with a NUL; false where it did not fit. */
bool ss_write_done(ss_writer *writer);

#endif
