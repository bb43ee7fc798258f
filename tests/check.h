/*
 * The test harness: a case is a sentence; a failed check prints what it expected, and the test
 * continues.
 *
 *     CASE("an empty row has no entropy");
 *     CHECK(isnan(entropy));
 *     return check_done();   // prints "N passed, N failed"
 */
#ifndef SS_TEST_CHECK_H
#define SS_TEST_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *sentence;
    long passed, failed;
    double difference, allowed; /* of the comparison that is nearest to its tolerance */
} check_state;

#define CASE(text) (check_state.sentence = (text), (void)printf("- %s\n", check_state.sentence))

/* Returns how often a test draws at random: n times, or n * $SINKSCOPE_TRIALS times where that is
 * set. */
static inline int check_trials(int n) {
    const char *factor = getenv("SINKSCOPE_TRIALS");
    return factor ? n * atoi(factor) : n;
}

/* Counts a check; returns true if it failed, so that the caller prints what differs. */
static inline bool check_failed(bool passed, const char *file, int line, const char *what) {
    if (passed) {
        check_state.passed++;
        return false;
    }
    check_state.failed++;
    printf("%s:%d: in \"%s\": %s\n", file, line, check_state.sentence ? check_state.sentence : "",
           what);
    return true;
}

/* Checks that `row` has the golden `what`; otherwise prints the row and the command that writes
 * goldens, a script of models/reference/goldens and its arguments. */
static inline void check_has_golden(bool has_golden, const char *row, const char *what,
                                    const char *command) {
    if (check_failed(has_golden, __FILE__, __LINE__, what))
        printf("    %s: python -m models.reference.goldens.%s\n", row, command);
}

#define CHECK(condition) (void)check_failed((condition), __FILE__, __LINE__, #condition)

/* Returns whether a difference is within its tolerance; tests/margins.py lists the worst. */
static inline bool is_within(double difference, double allowed) {
    if (allowed > 0 && (!(check_state.allowed > 0) ||
                        difference * check_state.allowed > check_state.difference * allowed))
        check_state.difference = difference, check_state.allowed = allowed;
    return difference <= allowed;
}

#define CHECK_NEAR(actual, expected, tolerance)                                                    \
    do {                                                                                           \
        double check_a = (double)(actual), check_e = (double)(expected);                           \
        if (check_failed(is_within(fabs(check_a - check_e), (double)(tolerance)), __FILE__,        \
                         __LINE__, #actual " is near " #expected))                                 \
            printf("    expected %.9g within %g, found %.9g\n", check_e, (double)(tolerance),      \
                   check_a);                                                                       \
    } while (0)

#define CHECK_INT(actual, expected)                                                                \
    do {                                                                                           \
        long long check_a = (long long)(actual), check_e = (long long)(expected);                  \
        if (check_failed(check_a == check_e, __FILE__, __LINE__, #actual " is " #expected))        \
            printf("    expected %lld, found %lld\n", check_e, check_a);                           \
    } while (0)

#define CHECK_TEXT(actual, expected)                                                               \
    do {                                                                                           \
        const char *check_a = (actual), *check_e = (expected);                                     \
        if (check_failed(!strcmp(check_a, check_e), __FILE__, __LINE__, #actual))                  \
            printf("    expected %s\n    found    %s\n", check_e, check_a);                        \
    } while (0)

static inline void check_bits(const void *actual, const void *expected, size_t n, const char *file,
                              int line, const char *what) {
    const unsigned char *a = actual, *e = expected;
    size_t i = 0;
    while (i < n && a[i] == e[i]) i++;
    if (check_failed(i == n, file, line, what))
        printf("    of %lu bytes, byte %lu is the first that differs: expected %02x, found %02x\n",
               (unsigned long)n, (unsigned long)i, e[i], a[i]);
}

#define CHECK_BITS(actual, expected, n)                                                            \
    check_bits((actual), (expected), (n), __FILE__, __LINE__, #actual " has the bits of " #expected)

static inline int check_done(void) {
    if (getenv("SINKSCOPE_MARGINS"))
        printf("margin %g %g\n", check_state.difference, check_state.allowed);
    printf("%ld passed, %ld failed\n", check_state.passed, check_state.failed);
    return check_state.failed != 0;
}

#endif
