/*
 * Pickle: the subset of Python's format that stores a table of tensors; it executes nothing.
 *
 * A pickle is a program for a stack machine. This machine knows constants, containers and a
 * few names; a "call" of such a name only makes a value of one of the kinds below. All other
 * opcodes and names are refused, and the error says where they are.
 *
 * Values point into the pickle or the arena. Containers are never traversed, so a container that
 * contains itself causes no endless loop; time and memory are linear in the bytes of the pickle.
 */
#ifndef SS_MODEL_PICKLE_H
#define SS_MODEL_PICKLE_H

#include "../../base/arena.h"
#include "../../base/bytes.h"
#include "../../base/status.h"
#include "../../base/tensor.h"

/* Upper bound of the bytes of a pickle: a table of ten thousand tensors has about two million. */
#define SS_PICKLE_BYTES_MAX 4194304

/* Largest key of a storage that is a number, as LitGPT and Lightning write keys. */
#define SS_PICKLE_KEY_MAX 999999

typedef enum ss_pickle_kind {
    SS_PICKLE_UNSET,
    SS_PICKLE_MARK,
    SS_PICKLE_NONE,
    SS_PICKLE_BOOL,
    SS_PICKLE_NUMBER,
    SS_PICKLE_REAL, /* a float, whose value is dropped */
    SS_PICKLE_TEXT,
    SS_PICKLE_LIST, /* a list, whose elements are dropped */
    SS_PICKLE_TUPLE,
    SS_PICKLE_TABLE,   /* a dict or an OrderedDict; its items are in `items` */
    SS_PICKLE_NAME,    /* a function or class that Python would import */
    SS_PICKLE_STORAGE, /* ("storage", type, key, device, numbers) */
    SS_PICKLE_TENSOR   /* (storage, first number, shape, strides, ..) */
} ss_pickle_kind;

typedef struct ss_pickle_value {
    uint32_t kind;
    uint32_t n;     /* bytes of a text, or elements of a tuple */
    int64_t number; /* the value of a number; the offset of a text, the first element of a tuple,
                       the index of a table or name */
} ss_pickle_value;

typedef struct ss_pickle_item {
    int64_t table;
    ss_pickle_value key, value;
} ss_pickle_item;

typedef struct ss_pickle {
    ss_bytes code;
    ss_pickle_value *tuples;
    ss_pickle_item *items; /* items of all tables, in the order of assignment */
    size_t tuples_n, items_n;
    int64_t table; /* the table that the pickle evaluates to */
} ss_pickle;

typedef struct ss_storage_type {
    const char *name;
    size_t bytes; /* bytes of a number */
    int type;     /* the ss_dtype, or -1 for a type that weights never have */
} ss_storage_type;

/* Returns the arena bytes that ss_pickle_read takes for a pickle of n bytes. */
size_t ss_pickle_size(size_t n);

/* Evaluates a pickle: SS_BAD_FILE with the byte; SS_UNSUPPORTED for opcodes and names. */
ss_status ss_pickle_read(ss_pickle *pickle, ss_bytes code, ss_arena *arena, ss_error *err);

ss_bytes ss_pickle_text(const ss_pickle *pickle, const ss_pickle_value *value);

const ss_storage_type *ss_pickle_storage_type(const ss_pickle_value *name);

#endif
