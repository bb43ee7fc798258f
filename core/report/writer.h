/*
 * Writer: JSON text into a caller's bytes, member by member.
 *
 * `key` is the name of an object's member, and NULL for an array's element. Text that does not fit
 * is counted and dropped, so that only ss_write_finish needs a check. Texts have no control
 * characters.
 */
#ifndef SS_REPORT_WRITER_H
#define SS_REPORT_WRITER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ss_writer {
    char *out;
    size_t bytes, n;  /* n: length of the text, also of the part that does not fit */
    bool has_members; /* the open object or array has a member */
} ss_writer;

/* ss_write_begin begins an object or an array with its opening bracket, ss_write_end ends it with
 * the closing one. */
void ss_write_begin(ss_writer *writer, const char *key, char bracket);
void ss_write_end(ss_writer *writer, char bracket);

/* Write a member; NULL, NaN and infinity become null. */
void ss_write_text(ss_writer *writer, const char *key, const char *text);
void ss_write_number(ss_writer *writer, const char *key, double number);
void ss_write_bool(ss_writer *writer, const char *key, bool value);

/* Writes a float with the digits of a float: 0.3f is 0.3, not the double 0.300000012. */
void ss_write_decimal(ss_writer *writer, const char *key, float number);

/* Ends the text with a NUL; returns false if it did not fit. */
bool ss_write_finish(ss_writer *writer);

#endif
