/*
 * Pickle: the part of Python's format that a table of tensors is written in; it executes nothing.
 *
 * A pickle is a program for a stack machine. This one knows constants, containers and a list of
 * seven kinds of names; a "call" of one of those makes a value below and no more. Any other opcode
 * and any other name is refused, with its place and what it asks for.
 *
 * Whatever is made points into the pickle or into the arena. Containers are never walked, so that
 * one that holds itself causes no endless loop; time and memory are linear in the pickle's bytes.
 */
#ifndef SS_MODEL_PICKLE_H
#define SS_MODEL_PICKLE_H

#include "../../base/arena.h"
#include "../../base/bytes.h"
#include "../../base/status.h"
#include "../../base/tensor.h"

/* Longest pickle: a table of ten thousand tensors has about two million bytes. */
#define SS_PICKLE_BYTES_MAX 4194304

typedef enum ss_pickle_kind {
    SS_PICKLE_UNSET, /* a place of the memo that nothing was put in */
    SS_PICKLE_MARK,
    SS_PICKLE_NONE,
    SS_PICKLE_TRUTH,
    SS_PICKLE_NUMBER,
    SS_PICKLE_TEXT,
    SS_PICKLE_LIST, /* its elements are dropped */
    SS_PICKLE_TUPLE,
    SS_PICKLE_TABLE,   /* a dict or an OrderedDict; its items are in the list of all */
    SS_PICKLE_NAME,    /* of something that Python would import */
    SS_PICKLE_STORAGE, /* ("storage", its type's name, key, device, numbers) */
    SS_PICKLE_TENSOR   /* (storage, first number, shape, strides, ..) */
} ss_pickle_kind;

typedef struct ss_pickle_value {
    uint32_t kind;
    uint32_t n; /* bytes of a text, elements of a tuple */
    int64_t
        number; /* also: where a text begins, which value is a tuple's first, which table or name */
} ss_pickle_value;

typedef struct ss_pickle_item {
    int64_t table;
    ss_pickle_value key, value;
} ss_pickle_item;

typedef struct ss_pickle {
    ss_bytes code;
    ss_pickle_value *tuples; /* elements of all tuples */
    ss_pickle_item *items;   /* of all tables, in the order in which they were set */
    size_t tuples_n, items_n;
    int64_t table; /* the one that the whole pickle is */
} ss_pickle;

/* A type of storage that torch knows. */
typedef struct ss_storage_type {
    const char *name;
    size_t bytes; /* of a number */
    int type;     /* ss_dtype, or -1 for those that no weight has */
} ss_storage_type;

/* Bytes of arena that ss_pickle_read takes for a pickle of n bytes. */
size_t ss_pickle_size(size_t n);

/* SS_BAD_FILE with the byte; SS_UNSUPPORTED for opcodes and names that are not on the list. */
ss_status ss_pickle_read(ss_pickle *pickle, ss_bytes code, ss_arena *arena, ss_error *err);

/* The text of a value of that kind. */
ss_bytes ss_pickle_text(const ss_pickle *pickle, const ss_pickle_value *value);

/* The type that a storage's second element names. */
const ss_storage_type *ss_pickle_storage_type(const ss_pickle_value *name);

#endif
