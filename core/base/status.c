#include "status.h"

#include "doc.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *meaning;
} codes[SS_STATUS_N] = {
    [SS_OK] = {"ok", SS_DOC("nothing went wrong")},
    [SS_BAD_FILE] = {"bad_file", SS_DOC("the bytes of a model file contradict themselves")},
    [SS_BAD_CONFIG] = {"bad_config", SS_DOC("a key of config.json is missing or out of range")},
    [SS_BAD_TENSOR] = {"bad_tensor",
                       SS_DOC("a tensor is missing or not as the architecture needs it")},
    [SS_BAD_TOKEN] = {"bad_token", SS_DOC("a token id is outside the vocabulary")},
    [SS_BAD_REQUEST] = {"bad_request", SS_DOC("the requested item does not exist")},
    [SS_TOO_LONG] = {"too_long", SS_DOC("more tokens than there is room for")},
    [SS_NO_MEMORY] = {"no_memory", SS_DOC("there is not enough memory")},
    [SS_UNSUPPORTED] = {"unsupported", SS_DOC("well formed, but this build does not compute it")},
    [SS_DIVERGED] = {"diverged", SS_DOC("a training has left the finite numbers")},
};

const char *ss_status_name(ss_status code) {
    return (unsigned)code < SS_STATUS_N ? codes[code].name : "unknown";
}

const char *ss_status_meaning(ss_status code) {
    return (unsigned)code < SS_STATUS_N ? codes[code].meaning : "unknown";
}

/* Replaces control and non-ASCII bytes, since text from a file may be shown on a page. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e) *text = '?';
}

ss_status ss_fail(ss_error *err, ss_status code, const char *where, const char *text, ...) {
    if (!err) return code;
    err->code = code;
    snprintf(err->where, sizeof err->where, "%s", *where ? where : "\"\"");
    va_list args;
    va_start(args, text);
    vsnprintf(err->text, sizeof err->text, text, args);
    va_end(args);
    make_printable(err->where);
    make_printable(err->text);
    return code;
}

ss_where ss_where_byte(size_t at) {
    ss_where where;
    snprintf(where.text, sizeof where.text, "byte %lu", (unsigned long)at);
    return where;
}

ss_where ss_where_name(ss_bytes name) {
    ss_where where;
    int n = name.n < sizeof where.text ? (int)name.n : (int)sizeof where.text - 1;
    snprintf(where.text, sizeof where.text, "%.*s", n, (const char *)name.data);
    return where;
}
