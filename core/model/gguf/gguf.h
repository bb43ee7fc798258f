/*
 * GGUF: the model format of llama.cpp, versions 2 and 3, little-endian.
 *
 *     "GGUF", u32 version, u64 tensors, u64 pairs
 *     pairs:    text key, u32 type, value               text: u64 bytes, UTF-8
 *     tensors:  text name, u32 rank, u64 dims[rank], u32 type, u64 offset     fastest dim first
 *     padding to a multiple of general.alignment (32), then the data that offsets count from
 *
 * walk.c walks a file and checks every length; entries.c makes entries of the tensors; names.c
 * translates their names to those of Hugging Face; source.c collects the pairs, and config.c
 * translates them to the keys of config.json. A family file therefore reads one set of names for
 * every container.
 *
 * Converters change tensors; the family files, which ask the loader for the format, undo this:
 *
 *     llama      rows of q and k (and their biases) are permuted within each head: those of a
 *                rotary pair, j and K/2 + j, are adjacent
 *     gpt2       Conv1D matrices are transposed, to [out][in]
 *     gptneox    q, k, v of each head become all of q, all of k, all of v; also in bloom
 *     falcon     the same with q, k, v of each group of heads
 *     gemma2     norms store 1 + w; also in gemma3 and nemotron
 *     qwen3moe   the experts of a layer are one tensor; also in hunyuan-moe, olmoe and granitemoe
 */
#ifndef SS_MODEL_GGUF_H
#define SS_MODEL_GGUF_H

#include "../arch.h"
#include "../files/container.h"

typedef enum ss_gguf_type {
    SS_GGUF_U8,
    SS_GGUF_I8,
    SS_GGUF_U16,
    SS_GGUF_I16,
    SS_GGUF_U32,
    SS_GGUF_I32,
    SS_GGUF_F32,
    SS_GGUF_BOOL,
    SS_GGUF_TEXT,
    SS_GGUF_ARRAY,
    SS_GGUF_U64,
    SS_GGUF_I64,
    SS_GGUF_F64,
    SS_GGUF_TYPE_N
} ss_gguf_type;

typedef struct ss_gguf_pair {
    ss_bytes key;
    ss_gguf_type type; /* type of an element, never SS_GGUF_ARRAY */
    bool is_array;
    uint64_t count; /* number of elements; 1 if the value is not an array */
    ss_bytes value; /* bytes of all elements; a text has a u64 length, then its bytes */
} ss_gguf_pair;

typedef struct ss_gguf_tensor {
    ss_bytes name;
    int rank;
    size_t dims[SS_RANK_MAX]; /* fastest first */
    uint32_t type;
    uint64_t offset; /* offset from the beginning of the data */
} ss_gguf_tensor;

/* An iterator: call begin once, then next_pair pairs_n times, then next_tensor tensors_n times. */
typedef struct ss_gguf {
    ss_bytes file;
    size_t offset; /* of the next byte to read */
    uint64_t tensors_n, pairs_n;
    size_t alignment; /* alignment of the data, known after all pairs */
} ss_gguf;

/* Iterate over a file. They return SS_BAD_FILE with the key, the tensor's name or the byte;
 * SS_UNSUPPORTED for other versions. */
ss_status ss_gguf_begin(ss_gguf *gguf, ss_bytes file, ss_error *err);
ss_status ss_gguf_next_pair(ss_gguf *gguf, ss_gguf_pair *pair, ss_error *err);
ss_status ss_gguf_next_tensor(ss_gguf *gguf, ss_gguf_tensor *tensor, ss_error *err);

/* Returns the data, once all tensors are read; empty if the file has none. */
ss_bytes ss_gguf_data(const ss_gguf *gguf);

/* The names that Hugging Face has for a general.architecture and its tensors. */
typedef struct ss_gguf_family ss_gguf_family;

ss_status ss_gguf_find_family(const ss_gguf_family **family, ss_bytes architecture, ss_error *err);
const char *ss_gguf_model_type(const ss_gguf_family *family);

/* Returns the name of architecture i; NULL after the last. */
const char *ss_gguf_architecture(size_t i);

/* Upper bound of the bytes of a tensor's name, in GGUF and in Hugging Face, with a NUL. */
#define SS_GGUF_NAME_BYTES 128

/* Writes the Hugging Face name of a tensor, or the name unchanged if the table lacks it. name has
 * at most SS_GGUF_NAME_BYTES / 2 bytes, none of them NUL. */
void ss_gguf_translate(char out[SS_GGUF_NAME_BYTES], const ss_gguf_family *family, ss_bytes name);

/* Reads the architecture from the pairs of a GGUF file, like ss_arch_read. Returns SS_BAD_CONFIG
 * for a missing or mistyped key; SS_UNSUPPORTED with the key for an unknown architecture or any
 * untranslated key that changes the arithmetic. */
ss_status ss_arch_read_gguf(ss_arch *arch, ss_bytes file, ss_error *err);

#endif
