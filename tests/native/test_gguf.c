/*
 * GGUF files: valid ones are read, broken ones are refused with a place.
 *
 * Small files are written in a language of words: "4:7" is the number 7 in four bytes, "t:abc" a
 * text after its length, "r:abc" the bare bytes, "z:9" nine zero bytes, "p:32" zero bytes up to the
 * next multiple of 32.
 */
#include "check.h"
#include "files.h"

#include <math.h>

typedef struct written {
    unsigned char bytes[4096];
    size_t n;
} written;

static void append(written *file, const char *bytes, size_t n) {
    if (file->n + n > sizeof file->bytes) exit(2);
    memcpy(file->bytes + file->n, bytes, n);
    file->n += n;
}

static void put_number(written *file, uint64_t value, size_t width) {
    char bytes[8];
    for (size_t i = 0; i < width; i++) bytes[i] = (char)(value >> (8 * i));
    append(file, bytes, width);
}

static void put_zeros(written *file, size_t n) {
    for (size_t i = 0; i < n; i++) append(file, "", 1);
}

static void put_word(written *file, const char *word, size_t n) {
    const char *rest = word + 2;
    size_t number = (size_t)strtoull(rest, NULL, 10);
    switch (word[0]) {
    case 't': put_number(file, n - 2, 8); /* fall through */
    case 'r': append(file, rest, n - 2); break;
    case 'z': put_zeros(file, number); break;
    case 'p': put_zeros(file, (number - file->n % number) % number); break;
    default: put_number(file, number, (size_t)(word[0] - '0'));
    }
}

/* Writes the file that the words describe, in a block of its exact size. */
static ss_bytes write_file(const char *words) {
    written file = {.n = 0};
    while (*words) {
        size_t n = strcspn(words, " ");
        if (n) put_word(&file, words, n);
        words += n + strspn(words + n, " ");
    }
    unsigned char *copy = malloc(file.n ? file.n : 1);
    if (!copy) exit(2);
    memcpy(copy, file.bytes, file.n);
    return (ss_bytes){copy, file.n};
}

static int runs_n;

/* Opens the architecture and the tensors of a file and, if with_model, runs a token. */
static ss_status open_gguf(ss_bytes bytes, bool with_model, ss_error *err) {
    ss_arch arch;
    opened_model opened = {.weights.bytes = bytes};
    ss_status status = ss_arch_read_gguf(&arch, bytes, err);
    ss_status container = open_bytes(&opened.weights, status == SS_OK ? err : NULL);
    if (status == SS_OK) status = container;
    if (status == SS_OK && with_model) {
        status = try_model(&opened, &arch, err);
        if (status == SS_OK) {
            opened_run run = run_tokens(&opened.model, (int32_t[]){0}, 1, NULL, 0);
            close_run(&run);
            runs_n++;
        }
    }
    free(opened.weights.arena.block);
    free(opened.arena.block);
    return status;
}

#define KEY_OF(architecture, name, type, value) " t:" architecture "." name " 4:" type " " value
#define KEY(name, type, value) KEY_OF("llama", name, type, value)
#define COUNTS(tensors, pairs) "r:GGUF 4:3 8:" tensors " 8:" pairs
#define LLAMA " t:general.architecture 4:8 t:llama"
#define SIZES                                                                                      \
    KEY("block_count", "4", "4:1")                                                                 \
    KEY("embedding_length", "4", "4:4")                                                            \
    KEY("feed_forward_length", "4", "4:6")                                                         \
    KEY("attention.head_count", "4", "4:2")                                                        \
    KEY("attention.layer_norm_rms_epsilon", "6", "4:925353388")
#define PAIRS LLAMA SIZES KEY("context_length", "4", "4:16")
#define EMBEDDING " t:token_embd.weight 4:2 8:4 8:8 4:0 8:0"
#define DATA " p:32 z:128"

/* Two pairs that describe YaRN; the factor is given as the bits of a float. */
#define YARN(factor)                                                                               \
    KEY("rope.scaling.type", "8", "t:yarn")                                                        \
    KEY("rope.scaling.factor", "6", "4:" factor)

/* Variants of one file: with one more pair, at byte 313, or with one more tensor, at byte 370,
 * whose data are at byte 128. */
#define WITH_PAIR(pair) COUNTS("1", "8") PAIRS pair EMBEDDING DATA
#define WITH_TENSOR(tensor) COUNTS("2", "7") PAIRS EMBEDDING tensor DATA " z:32"
#define WITHOUT_CONTEXT(pair) COUNTS("1", "7") LLAMA SIZES pair EMBEDDING DATA

typedef struct broken {
    const char *name, *words;
    ss_status status;
    const char *where;
} broken;

static const broken headers[] = {
    {"the smallest file", COUNTS("1", "7") PAIRS EMBEDDING DATA, SS_OK, ""},
    {"version 2 is the same", "r:GGUF 4:2 8:1 8:7" PAIRS EMBEDDING DATA, SS_OK, ""},
    {"a header that needs no padding",
     COUNTS("1", "8") PAIRS " t:k 4:8 t:1234567890123456789012345" EMBEDDING " z:128", SS_OK, ""},
    {"version 1", "r:GGUF 4:1 8:1 8:7" PAIRS EMBEDDING DATA, SS_UNSUPPORTED, "byte 4"},
    {"version 4", "r:GGUF 4:4 8:1 8:7" PAIRS EMBEDDING DATA, SS_UNSUPPORTED, "byte 4"},
    {"big-endian", "r:GGUF 4:50331648 8:1 8:7" PAIRS, SS_UNSUPPORTED, "byte 4"},
    {"four letters and no more", "r:GGUF", SS_BAD_FILE, "byte 4"},
    {"no counts", "r:GGUF 4:3 z:9", SS_BAD_FILE, "byte 16"},
    {"more tensors than bytes", COUNTS("9223372036854775808", "7") PAIRS, SS_BAD_FILE, "byte 8"},
    {"more keys than bytes", COUNTS("1", "18446744073709551615") PAIRS, SS_BAD_FILE, "byte 16"},
    {"one key too many", COUNTS("1", "8") PAIRS EMBEDDING DATA, SS_BAD_FILE, "byte 344"},
    {"one tensor too many", COUNTS("2", "7") PAIRS EMBEDDING DATA, SS_BAD_FILE, "byte 370"},
};

static const broken pairs[] = {
    {"a key longer than the file", WITH_PAIR(" 8:1000000 r:x"), SS_BAD_FILE, "byte 313"},
    {"a key whose length overflows", WITH_PAIR(" 8:18446744073709551615 r:x"), SS_BAD_FILE,
     "byte 313"},
    {"a key without letters", WITH_PAIR(" t: 4:4 4:1"), SS_BAD_FILE, "\"\""},
    {"one key twice", WITH_PAIR(" t:llama.block_count 4:4 4:1"), SS_BAD_FILE, "llama.block_count"},
    {"a type that is none", WITH_PAIR(" t:x 4:13 4:1"), SS_BAD_FILE, "x"},
    {"a text longer than the file", WITH_PAIR(" t:x 4:8 8:1000000"), SS_BAD_FILE, "byte 326"},
    {"an array longer than the file", WITH_PAIR(" t:x 4:9 4:4 8:4611686018427387904"), SS_BAD_FILE,
     "x"},
    {"a long array of texts", WITH_PAIR(" t:x 4:9 4:8 8:2305843009213693952"), SS_BAD_FILE, "x"},
    {"a text in an array that is longer than the file",
     WITH_PAIR(" t:x 4:9 4:8 8:2 t:a 8:99999999"), SS_BAD_FILE, "byte 347"},
    {"an array of arrays", WITH_PAIR(" t:x 4:9 4:9 8:1 4:4 8:0"), SS_BAD_FILE, "x"},
    {"an array of no type", WITH_PAIR(" t:x 4:9 4:77 8:0"), SS_BAD_FILE, "x"},
    {"a number of one byte", WITH_PAIR(" t:x 4:0 1:1"), SS_OK, ""},
    {"a signed one", WITH_PAIR(" t:x 4:1 1:255"), SS_OK, ""},
    {"a number of two bytes", WITH_PAIR(" t:x 4:2 2:1"), SS_OK, ""},
    {"a signed one", WITH_PAIR(" t:x 4:3 2:1"), SS_OK, ""},
    {"a number of four bytes", WITH_PAIR(" t:x 4:4 4:1"), SS_OK, ""},
    {"a signed one", WITH_PAIR(" t:x 4:5 4:1"), SS_OK, ""},
    {"a float", WITH_PAIR(" t:x 4:6 4:1"), SS_OK, ""},
    {"a truth value", WITH_PAIR(" t:x 4:7 1:1"), SS_OK, ""},
    {"a number of eight bytes", WITH_PAIR(" t:x 4:10 8:1"), SS_OK, ""},
    {"a signed one", WITH_PAIR(" t:x 4:11 8:1"), SS_OK, ""},
    {"a double", WITH_PAIR(" t:x 4:12 8:1"), SS_OK, ""},
    {"an array of bytes", WITH_PAIR(" t:x 4:9 4:0 8:3 z:3"), SS_OK, ""},
    {"an array of numbers of two bytes", WITH_PAIR(" t:x 4:9 4:3 8:3 z:6"), SS_OK, ""},
    {"an array of doubles", WITH_PAIR(" t:x 4:9 4:12 8:3 z:24"), SS_OK, ""},
    {"an empty array", WITH_PAIR(" t:x 4:9 4:8 8:0"), SS_OK, ""},
    {"an alignment of 0", WITH_PAIR(" t:general.alignment 4:4 4:0"), SS_BAD_FILE,
     "general.alignment"},
    {"an alignment of 24", WITH_PAIR(" t:general.alignment 4:4 4:24"), SS_BAD_FILE,
     "general.alignment"},
    {"an alignment of 2^31", WITH_PAIR(" t:general.alignment 4:4 4:2147483648"), SS_BAD_FILE,
     "general.alignment"},
    {"an alignment in letters", WITH_PAIR(" t:general.alignment 4:8 t:32"), SS_BAD_FILE,
     "general.alignment"},
    {"an alignment of 8", WITH_PAIR(" t:general.alignment 4:4 4:8"), SS_OK, ""},
    {"a part of a file", WITH_PAIR(" t:split.count 4:2 2:3"), SS_UNSUPPORTED, "split.count"},
    {"the only part of a file", WITH_PAIR(" t:split.count 4:2 2:1"), SS_OK, ""},
};

static const broken tensors[] = {
    {"one tensor more", WITH_TENSOR(" t:a 4:1 8:8 4:0 8:128"), SS_OK, ""},
    {"half precision", WITH_TENSOR(" t:a 4:1 8:16 4:1 8:128"), SS_OK, ""},
    {"one name twice", WITH_TENSOR(" t:token_embd.weight 4:2 8:4 8:2 4:0 8:128"), SS_BAD_FILE,
     "model.embed_tokens.weight"},
    {"a name, and what it is translated to",
     WITH_TENSOR(" t:model.embed_tokens.weight 4:1 8:8 4:0 8:128"), SS_BAD_FILE,
     "model.embed_tokens.weight"},
    {"a name without letters", WITH_TENSOR(" t: 4:1 8:8 4:0 8:128"), SS_BAD_FILE, "byte 370"},
    {"a long name",
     WITH_TENSOR(" t:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 " 4:1 8:8 4:0 8:128"),
     SS_BAD_FILE, "byte 370"},
    {"five dimensions", WITH_TENSOR(" t:a 4:5 8:1 8:1 8:1 8:1 8:1 4:0 8:128"), SS_BAD_FILE, "a"},
    {"more dimensions than bytes", WITH_TENSOR(" t:a 4:4294967295 8:1"), SS_BAD_FILE, "a"},
    {"a product that overflows", WITH_TENSOR(" t:a 4:2 8:4294967296 8:4294967296 4:0 8:128"),
     SS_BAD_FILE, "a"},
    {"bytes that overflow", WITH_TENSOR(" t:a 4:1 8:9223372036854775807 4:0 8:128"), SS_BAD_FILE,
     "a"},
    {"a type that is not known", WITH_TENSOR(" t:a 4:1 8:8 4:99 8:128"), SS_UNSUPPORTED, "a"},
    {"a type that is known and not read", WITH_TENSOR(" t:a 4:1 8:256 4:40 8:128"), SS_UNSUPPORTED,
     "a"},
    {"a type of 2^32 - 1", WITH_TENSOR(" t:a 4:1 8:8 4:4294967295 8:128"), SS_UNSUPPORTED, "a"},
    {"rows that are no whole blocks", WITH_TENSOR(" t:a 4:2 8:16 8:2 4:2 8:128"), SS_BAD_FILE, "a"},
    {"rows that are no whole super-blocks", WITH_TENSOR(" t:a 4:1 8:32 4:12 8:128"), SS_BAD_FILE,
     "a"},
    {"no dimensions in blocks", WITH_TENSOR(" t:a 4:0 4:8 8:128"), SS_BAD_FILE, "a"},
    {"an offset between alignments", WITH_TENSOR(" t:a 4:1 8:1 4:0 8:132"), SS_BAD_FILE, "a"},
    {"an offset inside another tensor", WITH_TENSOR(" t:a 4:1 8:8 4:0 8:96"), SS_BAD_FILE, "a"},
    {"an offset behind the file", WITH_TENSOR(" t:a 4:1 8:8 4:0 8:160"), SS_BAD_FILE, "a"},
    {"an offset of 2^64 - 32", WITH_TENSOR(" t:a 4:1 8:8 4:0 8:18446744073709551584"), SS_BAD_FILE,
     "a"},
    {"more numbers than the file has", WITH_TENSOR(" t:a 4:1 8:9 4:0 8:128"), SS_BAD_FILE, "a"},
    {"no data at all", COUNTS("1", "7") PAIRS EMBEDDING, SS_BAD_FILE, "model.embed_tokens.weight"},
    {"divisors of rotary pairs that are no numbers",
     WITH_TENSOR(" t:rope_freqs.weight 4:1 8:16 4:1 8:128"), SS_BAD_FILE, "rope_freqs.weight"},
    {"divisors behind the file",
     WITH_TENSOR(" t:rope_freqs.weight 4:1 8:8 4:0 8:18446744073709551584"), SS_BAD_FILE,
     "rope_freqs.weight"},
    {"divisors of another scaling", WITH_TENSOR(" t:rope_freqs.weight 4:1 8:1 4:0 8:128"),
     SS_UNSUPPORTED, "rope_freqs.weight"},
};

static const broken meanings[] = {
    {"no architecture", COUNTS("0", "0") " z:32", SS_UNSUPPORTED, "general.architecture"},
    {"an architecture that is a number", COUNTS("0", "1") " t:general.architecture 4:4 4:1 z:32",
     SS_UNSUPPORTED, "general.architecture"},
    {"another architecture", COUNTS("0", "1") " t:general.architecture 4:8 t:bert z:32",
     SS_UNSUPPORTED, "general.architecture"},
    {"a text that ends with the file", COUNTS("0", "1") " t:general.architecture 4:8 t:bert",
     SS_UNSUPPORTED, "general.architecture"},
    {"a key that is missing", COUNTS("1", "6") LLAMA SIZES EMBEDDING DATA, SS_BAD_CONFIG,
     "llama.context_length"},
    {"a number in letters", WITHOUT_CONTEXT(KEY("context_length", "8", "t:16")), SS_BAD_CONFIG,
     "llama.context_length"},
    {"a number in an array", WITHOUT_CONTEXT(KEY("context_length", "9", "4:4 8:1 4:16")),
     SS_BAD_CONFIG, "llama.context_length"},
    {"a length of 2^64 - 1", WITHOUT_CONTEXT(KEY("context_length", "10", "8:18446744073709551615")),
     SS_BAD_CONFIG, "max_position_embeddings"},
    {"a length of -1", WITHOUT_CONTEXT(KEY("context_length", "5", "4:4294967295")), SS_BAD_CONFIG,
     "max_position_embeddings"},
    {"a length of 1.5", WITHOUT_CONTEXT(KEY("context_length", "6", "4:1069547520")), SS_BAD_CONFIG,
     "max_position_embeddings"},
    {"a length that is no number", WITHOUT_CONTEXT(KEY("context_length", "6", "4:2143289344")),
     SS_BAD_CONFIG, "llama.context_length"},
    {"a length in another type",
     WITHOUT_CONTEXT(KEY("context_length", "12", "8:4625196817309499392")), SS_OK, ""},
    {"heads by layer", WITH_PAIR(KEY("attention.head_count_kv", "9", "4:4 8:1 4:1")), SS_BAD_CONFIG,
     "llama.attention.head_count_kv"},
    {"experts", WITH_PAIR(KEY("expert_count", "4", "4:8")), SS_UNSUPPORTED, "llama.expert_count"},
    {"no experts", WITH_PAIR(KEY("expert_count", "4", "4:0")), SS_OK, ""},
    {"heads that are rotated in part", WITH_PAIR(KEY("rope.dimension_count", "4", "4:1")),
     SS_UNSUPPORTED, "llama.rope.dimension_count"},
    {"values of another width", WITH_PAIR(KEY("attention.value_length", "4", "4:4")),
     SS_UNSUPPORTED, "llama.attention.value_length"},
    {"a scaling that is not known", WITH_PAIR(KEY("rope.scaling.type", "8", "t:longrope")),
     SS_UNSUPPORTED, "llama.rope.scaling.type"},
    {"a scaling that is a number", WITH_PAIR(KEY("rope.scaling.type", "4", "4:1")), SS_BAD_CONFIG,
     "llama.rope.scaling.type"},
    {"a scaling that is none", WITH_PAIR(KEY("rope.scaling.type", "8", "t:none")), SS_OK, ""},
    {"YaRN with vectors of another size",
     COUNTS("1", "10") PAIRS YARN("1082130432") KEY("rope.scaling.attn_factor", "6", "4:1056964608")
         EMBEDDING DATA,
     SS_UNSUPPORTED, "llama.rope.scaling.attn_factor"},
    {"YaRN with vectors of another size, by its newer key",
     COUNTS("1", "10") PAIRS YARN("1082130432")
         KEY("rope.scaling.yarn_attn_factor", "6", "4:1056964608") EMBEDDING DATA,
     SS_UNSUPPORTED, "llama.rope.scaling.yarn_attn_factor"},
    {"an unknown key", WITH_PAIR(KEY("attention.clamp_kqv", "6", "4:1090519040")), SS_UNSUPPORTED,
     "llama.attention.clamp_kqv"},
    {"attention in both directions", WITH_PAIR(KEY("attention.causal", "7", "1:0")), SS_UNSUPPORTED,
     "llama.attention.causal"},
    {"an adapter", WITH_PAIR(" t:general.type 4:8 t:adapter"), SS_UNSUPPORTED, "general.type"},
};

/* A file of another architecture, with seven pairs of its own and `more` pairs. */
#define OTHER(architecture, norm, F, count, more)                                                  \
    COUNTS("1", count)                                                                             \
    " t:general.architecture 4:8 t:" architecture KEY_OF(architecture, "block_count", "4", "4:1")  \
        KEY_OF(architecture, "embedding_length", "4", "4:4")                                       \
            KEY_OF(architecture, "feed_forward_length", "4", "4:" F)                               \
                KEY_OF(architecture, "attention.head_count", "4", "4:2")                           \
                    KEY_OF(architecture, "attention." norm "_epsilon", "6", "4:925353388")         \
                        KEY_OF(architecture, "context_length", "4", "4:16") more EMBEDDING DATA
#define OF_LAYERS(architecture, F, count, more) OTHER(architecture, "layer_norm", F, count, more)
#define OF_RMS(architecture, count, more) OTHER(architecture, "layer_norm_rms", "8", count, more)
#define OF_LFM2(type, heads)                                                                       \
    OF_RMS("lfm2", "9",                                                                            \
           KEY_OF("lfm2", "attention.head_count_kv", type, heads)                                  \
               KEY_OF("lfm2", "shortconv.l_cache", "4", "4:3"))
#define EXPERTS(architecture, n, top, F)                                                           \
    KEY_OF(architecture, "expert_count", "4", "4:" n)                                              \
    KEY_OF(architecture, "expert_used_count", "4", "4:" top)                                       \
    KEY_OF(architecture, "expert_feed_forward_length", "4", "4:" F)

#define SOME_EXPERTS(architecture)                                                                 \
    KEY_OF(architecture, "expert_count", "4", "4:4")                                               \
    KEY_OF(architecture, "expert_used_count", "4", "4:2")
/* Granite's factors, all 1. */
#define FACTORS                                                                                    \
    KEY_OF("granitemoe", "embedding_scale", "6", "4:1065353216")                                   \
    KEY_OF("granitemoe", "residual_scale", "6", "4:1065353216")                                    \
    KEY_OF("granitemoe", "attention.scale", "6", "4:1065353216")                                   \
    KEY_OF("granitemoe", "logit_scale", "6", "4:1065353216")
#define LOGIT_SCALE(architecture) KEY_OF(architecture, "logit_scale", "6", "4:1065353216")

static const broken families[] = {
    {"an architecture that llama.cpp does not have",
     COUNTS("0", "1") " t:general.architecture 4:8 t:opt z:32", SS_UNSUPPORTED,
     "general.architecture"},
    {"Bloom", OF_LAYERS("bloom", "16", "7", ""), SS_OK, ""},
    {"Bloom with a narrow feed-forward", OF_LAYERS("bloom", "8", "7", ""), SS_UNSUPPORTED,
     "bloom.feed_forward_length"},
    {"MPT", OF_LAYERS("mpt", "16", "7", ""), SS_OK, ""},
    {"MPT with a narrow feed-forward", OF_LAYERS("mpt", "8", "7", ""), SS_UNSUPPORTED,
     "mpt.feed_forward_length"},
    {"MPT with few keys",
     OF_LAYERS("mpt", "16", "8", KEY_OF("mpt", "attention.head_count_kv", "4", "4:1")),
     SS_UNSUPPORTED, "mpt.attention.head_count_kv"},
    {"MPT without ALiBi",
     OF_LAYERS("mpt", "16", "8", KEY_OF("mpt", "attention.max_alibi_bias", "6", "4:0")),
     SS_UNSUPPORTED, "mpt.attention.max_alibi_bias"},
    {"MPT with a limit of 8",
     OF_LAYERS("mpt", "16", "8", KEY_OF("mpt", "attention.clamp_kqv", "6", "4:1090519040")), SS_OK,
     ""},
    {"MPT with a limit that is a text",
     OF_LAYERS("mpt", "16", "8", KEY_OF("mpt", "attention.clamp_kqv", "8", "t:8")), SS_BAD_CONFIG,
     "mpt.attention.clamp_kqv"},
    {"StarCoder", OF_LAYERS("starcoder", "8", "7", ""), SS_OK, ""},
    {"StarCoder with more keys",
     OF_LAYERS("starcoder", "8", "8", KEY_OF("starcoder", "attention.head_count_kv", "4", "4:2")),
     SS_UNSUPPORTED, "starcoder.attention.head_count_kv"},
    {"Phi 2", OF_LAYERS("phi2", "8", "7", ""), SS_OK, ""},
    {"Falcon", OF_LAYERS("falcon", "8", "7", ""), SS_OK, ""},
    {"Falcon with more keys than queries",
     OF_LAYERS("falcon", "8", "8", KEY_OF("falcon", "attention.head_count_kv", "4", "4:3")),
     SS_BAD_CONFIG, "num_kv_heads"},
    {"GPT-NeoX, one half after the other",
     OF_LAYERS("gptneox", "8", "8", KEY_OF("gptneox", "use_parallel_residual", "7", "1:0")), SS_OK,
     ""},
    {"GPT-NeoX with a number for it",
     OF_LAYERS("gptneox", "8", "8", KEY_OF("gptneox", "use_parallel_residual", "4", "4:1")),
     SS_BAD_CONFIG, "gptneox.use_parallel_residual"},
    {"OLMo 2", OF_RMS("olmo2", "7", ""), SS_OK, ""},
    {"OLMo 3, which has windows and the same name",
     OF_RMS("olmo2", "8", KEY_OF("olmo2", "attention.sliding_window", "4", "4:4")), SS_UNSUPPORTED,
     "olmo2.attention.sliding_window"},
    {"LFM2 with one layer, which has attention", OF_LFM2("9", "4:4 8:1 4:1"), SS_OK, ""},
    {"LFM2 without attention", OF_LFM2("9", "4:4 8:1 4:0"), SS_BAD_CONFIG, "num_key_value_heads"},
    {"LFM2 with a list of other length", OF_LFM2("9", "4:4 8:2 4:1 4:1"), SS_UNSUPPORTED,
     "layer_types"},
    {"LFM2 with layers of other heads", OF_LFM2("9", "4:4 8:2 4:1 4:2"), SS_UNSUPPORTED,
     "lfm2.attention.head_count_kv"},
    {"LFM2 with heads of -1", OF_LFM2("9", "4:5 8:1 4:4294967295"), SS_UNSUPPORTED,
     "lfm2.attention.head_count_kv"},
    {"LFM2 with one number of heads", OF_LFM2("4", "4:1"), SS_UNSUPPORTED,
     "lfm2.attention.head_count_kv"},
    {"LFM2 with words for heads", OF_LFM2("9", "4:8 8:1 t:x"), SS_BAD_CONFIG,
     "num_key_value_heads"},
    {"OLMoE", OF_RMS("olmoe", "9", SOME_EXPERTS("olmoe")), SS_OK, ""},
    {"OLMoE with narrow experts", OF_RMS("olmoe", "10", EXPERTS("olmoe", "4", "2", "6")),
     SS_UNSUPPORTED, "olmoe.expert_feed_forward_length"},
    {"Granite with experts", OF_RMS("granitemoe", "13", FACTORS SOME_EXPERTS("granitemoe")), SS_OK,
     ""},
    {"Granite with an expert for all tokens",
     OF_RMS("granitemoe", "14",
            FACTORS SOME_EXPERTS("granitemoe")
                KEY_OF("granitemoe", "expert_shared_feed_forward_length", "4", "4:8")),
     SS_UNSUPPORTED, "granitemoe.expert_shared_feed_forward_length"},
    {"EXAONE 4", OF_RMS("exaone4", "7", ""), SS_OK, ""},
    {"EXAONE 4 with windows, which a list gives",
     OF_RMS("exaone4", "8", KEY_OF("exaone4", "attention.sliding_window", "4", "4:4")),
     SS_UNSUPPORTED, "exaone4.attention.sliding_window"},
    {"Command R", OF_LAYERS("command-r", "8", "8", LOGIT_SCALE("command-r")), SS_OK, ""},
    {"Command R without its scale", OF_LAYERS("command-r", "8", "7", ""), SS_BAD_CONFIG,
     "command-r.logit_scale"},
    {"Command R with a window",
     OF_LAYERS("command-r", "8", "9",
               LOGIT_SCALE("command-r")
                   KEY_OF("command-r", "attention.sliding_window", "4", "4:4")),
     SS_UNSUPPORTED, "command-r.attention.sliding_window"},
    {"Command R7B",
     OF_LAYERS("cohere2", "8", "9",
               LOGIT_SCALE("cohere2") KEY_OF("cohere2", "attention.sliding_window", "4", "4:4")),
     SS_OK, ""},
    {"Command R7B with a pattern of layers",
     OF_LAYERS("cohere2", "8", "9",
               LOGIT_SCALE("cohere2")
                   KEY_OF("cohere2", "attention.sliding_window_pattern", "4", "4:4")),
     SS_UNSUPPORTED, "cohere2.attention.sliding_window_pattern"},
    {"GLM 4 with positions of pictures",
     OF_RMS("glm4", "8", KEY_OF("glm4", "rope.dimension_sections", "9", "4:4 8:1 4:1")),
     SS_UNSUPPORTED, "glm4.rope.dimension_sections"},
    {"Nemotron", OF_LAYERS("nemotron", "8", "7", ""), SS_OK, ""},
    {"Gemma 2 without a window", OF_RMS("gemma2", "7", ""), SS_BAD_CONFIG,
     "gemma2.attention.sliding_window"},
    {"Gemma 2 with another pattern",
     OF_RMS("gemma2", "9",
            KEY_OF("gemma2", "attention.sliding_window", "4", "4:4")
                KEY_OF("gemma2", "attention.sliding_window_pattern", "4", "4:3")),
     SS_UNSUPPORTED, "gemma2.attention.sliding_window_pattern"},
    {"Qwen 3 with experts", OF_RMS("qwen3moe", "10", EXPERTS("qwen3moe", "4", "2", "6")), SS_OK,
     ""},
    {"Qwen 3 without a number of experts", OF_RMS("qwen3moe", "7", ""), SS_BAD_CONFIG,
     "qwen3moe.expert_count"},
    {"Qwen 3 with more experts chosen than there are",
     OF_RMS("qwen3moe", "10", EXPERTS("qwen3moe", "4", "5", "6")), SS_BAD_CONFIG,
     "num_experts_per_tok"},
    {"Qwen 3 with an expert for all tokens",
     OF_RMS("qwen3moe", "11",
            EXPERTS("qwen3moe", "4", "2", "6")
                KEY_OF("qwen3moe", "expert_shared_count", "4", "4:1")),
     SS_UNSUPPORTED, "qwen3moe.expert_shared_count"},
    {"Hunyuan", OF_RMS("hunyuan-dense", "7", ""), SS_OK, ""},
    {"Hunyuan with experts", OF_RMS("hunyuan-moe", "10", EXPERTS("hunyuan-moe", "4", "2", "8")),
     SS_OK, ""},
    {"Hunyuan with narrow experts",
     OF_RMS("hunyuan-moe", "10", EXPERTS("hunyuan-moe", "4", "2", "6")), SS_UNSUPPORTED,
     "hunyuan-moe.expert_feed_forward_length"},
    {"Hunyuan with two experts for all tokens",
     OF_RMS("hunyuan-moe", "11",
            EXPERTS("hunyuan-moe", "4", "2", "8")
                KEY_OF("hunyuan-moe", "expert_shared_count", "4", "4:2")),
     SS_UNSUPPORTED, "hunyuan-moe.expert_shared_count"},
};

static const struct {
    const char *name, *text;
} sentences[] = {
    {"version 1", "expected GGUF version 2 or 3, found 1"},
    {"version 4", "expected GGUF version 2 or 3, found 4"},
    {"four letters and no more", "expected 4 more bytes, found the end after 0"},
    {"no counts", "expected 8 more bytes, found the end after 1"},
    {"more tensors than bytes", "expected at most 12 tensors, found 9223372036854775808"},
    {"more keys than bytes", "expected at most 22 keys, found 18446744073709551616"},
    {"one key too many", "expected a text of at most 160 bytes, the file says 2251799813685248"},
    {"a key longer than the file", "expected a text of at most 191 bytes, the file says 1000000"},
    {"a key whose length overflows",
     "expected a text of at most 191 bytes, the file says 18446744073709551616"},
    {"a key without letters", "expected a key of 1 to 127 bytes that are not NUL, found 0"},
    {"a type that is none", "expected a type of 0 to 12, found 13"},
    {"a text longer than the file", "expected a text of at most 210 bytes, the file says 1000000"},
    {"an array longer than the file",
     "expected at most 51 elements before the file's end, found 4611686018427387904"},
    {"a long array of texts",
     "expected at most 25 elements before the file's end, found 2305843009213693952"},
    {"a text in an array that is longer than the file",
     "expected a text of at most 189 bytes, the file says 99999999"},
    {"an array of no type", "expected a type of 0 to 12, found 77"},
    {"five dimensions", "expected at most 4 dimensions, found 5"},
    {"more dimensions than bytes", "expected at most 4 dimensions, found 4294967295"},
    {"bytes that overflow", "expected its numbers inside the 160 bytes of data, found them at 128"},
    {"rows that are no whole blocks", "expected rows of whole Q4_0 blocks of 32, found rows of 16"},
    {"rows that are no whole super-blocks",
     "expected rows of whole Q4_K blocks of 256, found rows of 32"},
    {"no dimensions in blocks", "expected rows of whole Q8_0 blocks of 32, found rows of 1"},
    {"an offset between alignments", "expected data at a multiple of 32, found it at 132"},
    {"an offset behind the file",
     "expected its numbers inside the 160 bytes of data, found them at 160"},
    {"an offset of 2^64 - 32",
     "expected its numbers inside the 160 bytes of data, found them at 18446744073709551584"},
    {"more numbers than the file has",
     "expected its numbers inside the 160 bytes of data, found them at 128"},
    {"no data at all", "expected its numbers inside the 0 bytes of data, found them at 0"},
    {"a length of 2^64 - 1",
     "GGUF metadata: expected a whole number from 1 to 16777216, found 1.844674407e+19"},
    {"a length of -1", "GGUF metadata: expected a whole number from 1 to 16777216, found -1"},
    {"a length of 1.5", "GGUF metadata: expected a whole number from 1 to 16777216, found 1.5"},
    {"experts", "GGUF metadata: this build computes 0, the file says 8"},
    {"heads that are rotated in part", "GGUF metadata: this build computes 2, the file says 1"},
    {"values of another width", "GGUF metadata: this build computes 2, the file says 4"},
    {"YaRN with vectors of another size",
     "GGUF metadata: this build computes 1, the file says 0.5"},
    {"YaRN with vectors of another size, by its newer key",
     "GGUF metadata: this build computes 1, the file says 0.5"},
    {"attention in both directions", "GGUF metadata: this build computes 1, the file says 0"},
    {"MPT without ALiBi", "GGUF metadata: this build computes 8, the file says 0"},
    {"Bloom with a narrow feed-forward", "GGUF metadata: this build computes 16, the file says 8"},
    {"Falcon with more keys than queries",
     "GGUF metadata: expected a whole number from 1 to 2, found 3"},
    {"Gemma 2 with another pattern", "GGUF metadata: this build computes 2, the file says 3"},
    {"Qwen 3 with more experts chosen than there are",
     "GGUF metadata: expected a whole number from 1 to 4, found 5"},
    {"Qwen 3 with an expert for all tokens",
     "GGUF metadata: this build computes 0, the file says 1"},
    {"Hunyuan with narrow experts", "GGUF metadata: this build computes 8, the file says 6"},
    {"Hunyuan with two experts for all tokens",
     "GGUF metadata: this build computes 1, the file says 2"},
    {"another architecture",
     "this build cannot run GGUF files of bert; record the model with the Python package and open "
     "the recording (`describe` lists the families that run)"},
    {"a type that is not known",
     "expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4 "
     "numbers, found others (type 99)"},
    {"a type that is known and not read",
     "expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4 "
     "numbers, found NVFP4 (type 40)"},
    {"an architecture that is a number",
     "this build cannot run GGUF files of no architecture; record the model with the Python "
     "package and open the recording (`describe` lists the families that run)"},
};

static const char *sentence_of(const char *name) {
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (!strcmp(sentences[i].name, name)) return sentences[i].text;
    return NULL;
}

#define ADVICE "; record such a model with the Python package and open the recording"

static void check_table(const broken *table, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CASE(table[i].name);
        ss_bytes file = write_file(table[i].words);
        ss_error err = {0};
        CHECK_INT((int)open_gguf(file, false, &err), table[i].status);
        if (check_failed(!strcmp(err.where, table[i].where), __FILE__, __LINE__, "the place"))
            printf("    expected %s, found %s: %s\n", table[i].where, err.where, err.text);
        CHECK((strlen(err.text) > 10) == (table[i].status != SS_OK));
        const char *text = sentence_of(table[i].name);
        if (!strncmp(err.text, "GGUF metadata", 13))
            CHECK((strstr(err.text, "record") != NULL) == (table[i].status == SS_UNSUPPORTED));
        char *advice = strstr(err.text, ADVICE);
        if (advice) *advice = 0;
        if (text) CHECK_TEXT(err.text, text);
        free((void *)(size_t)file.data);
    }
}
#define CHECK_TABLE(table) check_table((table), sizeof(table) / sizeof *(table))

static void check_scalings(void) {
    static const struct {
        const char *name, *words, *scaling;
    } table[] = {
        {"a factor and no type",
         COUNTS("1", "8") PAIRS KEY("rope.scaling.factor", "6", "4:1082130432"),
         "{\"rope_type\":\"linear\",\"factor\":4}"},
        {"the key of early converters",
         COUNTS("1", "8") PAIRS KEY("rope.scale_linear", "6", "4:1073741824"),
         "{\"rope_type\":\"linear\",\"factor\":2}"},
        {"a factor of 1", COUNTS("1", "8") PAIRS KEY("rope.scaling.factor", "6", "4:1065353216"),
         "null"},
        {"a factor of 0", COUNTS("1", "8") PAIRS KEY("rope.scaling.factor", "6", "4:0"), "null"},
        {"YaRN with its defaults", COUNTS("1", "9") PAIRS YARN("1082130432"),
         "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":16,"
         "\"beta_fast\":32,\"beta_slow\":1}"},
        {"YaRN with a first context and bounds",
         COUNTS("1", "14") PAIRS YARN("1082130432")
             KEY("rope.scaling.original_context_length", "4", "4:8")
                 KEY("rope.scaling.yarn_beta_fast", "6", "4:1098907648")
                     KEY("rope.scaling.yarn_beta_slow", "6", "4:1073741824")
                         KEY("rope.scaling.attn_factor", "6", "4:1065353216")
                             KEY("rope.scaling.yarn_attn_factor", "6", "4:1065353216"),
         "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":8,"
         "\"beta_fast\":16,\"beta_slow\":2}"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CASE(table[i].name);
        char words[2048], config[512];
        snprintf(words, sizeof words, "%s" EMBEDDING DATA, table[i].words);
        int n = snprintf(config, sizeof config,
                         "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":4,"
                         "\"num_attention_heads\":2,\"intermediate_size\":6,\"vocab_size\":8,"
                         "\"max_position_embeddings\":16,\"rope_scaling\":%s}",
                         table[i].scaling);
        ss_bytes file = write_file(words);
        ss_arch actual, expected;
        ss_error err;
        must(ss_arch_read_gguf(&actual, file, &err), &err, table[i].name);
        must(ss_arch_read(&expected, (ss_bytes){(const unsigned char *)config, (size_t)n}, &err),
             &err, table[i].scaling);
        const ss_rotary *a = &actual.rotary, *b = &expected.rotary;
        CHECK_INT((int)a->scaling, (int)b->scaling);
        CHECK_NEAR(a->factor, b->factor, 0);
        CHECK_NEAR(a->original_context, b->original_context, 0);
        CHECK_NEAR(a->low, b->low, 0);
        CHECK_NEAR(a->high, b->high, 0);
        CHECK_INT(a->truncate, b->truncate);
        CHECK_NEAR((double)a->attention_factor, (double)b->attention_factor, 0);
        free((void *)(size_t)file.data);
    }
}

static ss_status open_two(const char *first, const char *second, size_t *entries, ss_error *err) {
    ss_bytes files[] = {write_file(first), write_file(second)};
    ss_arena arena = arena_of(ss_container_size(files, 2));
    ss_container container = {.n = 0};
    ss_status status = ss_container_open(&container, files, 2, &arena, err);
    *entries = container.n;
    free(arena.block);
    for (int i = 0; i < 2; i++) free((void *)(size_t)files[i].data);
    return status;
}

static void check_shards(void) {
    const char *file_words = COUNTS("1", "7") PAIRS EMBEDDING DATA;
    const char *second_words = COUNTS("1", "1") LLAMA " t:a 4:1 8:1 4:0 8:0 p:32 z:4";
    const char *shard_words = COUNTS("0", "1") " t:split.count 4:2 2:2";
    ss_error err = {0};
    size_t entries;
    CASE("the tensors of two files form one table");
    CHECK_INT((int)open_two(file_words, second_words, &entries, &err), SS_OK);
    CHECK_INT(entries, 2);
    CASE("a name in two files, a part of a file, and files of two formats are refused");
    CHECK_INT((int)open_two(file_words, file_words, &entries, &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "model.embed_tokens.weight"));
    CHECK_INT((int)open_two(shard_words, shard_words, &entries, &err), SS_UNSUPPORTED);
    CHECK(!strcmp(err.where, "split.count"));
    CHECK_INT((int)open_two(file_words, "8:2 r:{}", &entries, &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "byte 0"));
}

static ss_status find_pair(ss_gguf_pair *pair, ss_bytes file, const char *key, ss_error *err) {
    ss_gguf gguf;
    ss_status status = ss_gguf_begin(&gguf, file, err);
    for (uint64_t i = 0; status == SS_OK && i < gguf.pairs_n; i++) {
        status = ss_gguf_next_pair(&gguf, pair, err);
        if (status == SS_OK && ss_bytes_equal(pair->key, key)) return SS_OK;
    }
    return status == SS_OK ? SS_BAD_REQUEST : status;
}

static void check_values(void) {
    CASE("an array in the metadata is found with its type, count and bytes");
    ss_bytes file = write_file(WITH_PAIR(" t:list 4:9 4:8 8:2 t:ab t:c"));
    ss_error err = {0};
    ss_gguf_pair pair;
    CHECK_INT((int)find_pair(&pair, file, "list", &err), SS_OK);
    CHECK(pair.is_array && pair.type == SS_GGUF_TEXT);
    CHECK_INT(pair.count, 2);
    CHECK_INT(pair.value.n, 8 + 2 + 8 + 1);
    CHECK(pair.value.data[0] == 2 && !memcmp(pair.value.data + 8, "ab", 2) &&
          pair.value.data[18] == 'c');
    CASE("a number in the metadata has one element");
    CHECK_INT((int)find_pair(&pair, file, "llama.block_count", &err), SS_OK);
    CHECK(!pair.is_array && pair.type == SS_GGUF_U32 && pair.count == 1 && pair.value.n == 4 &&
          pair.value.data[0] == 1);
    CASE("a part of a key finds nothing, and a file that is not GGUF gives an error");
    CHECK_INT((int)find_pair(&pair, file, "lis", &err), SS_BAD_REQUEST);
    ss_bytes broken_file = {(const unsigned char *)"GGML", 4};
    CHECK_INT((int)find_pair(&pair, broken_file, "list", &err), SS_BAD_FILE);
    CHECK(!strcmp(err.where, "byte 0"));
    free((void *)(size_t)file.data);
}

static void check_counts(void) {
    CASE("a count may be as large as the following bytes allow, and no larger");
    static const struct {
        const char *words, *text;
    } table[] = {
        {COUNTS("2", "3") " z:48", NULL},
        {COUNTS("3", "3") " z:48", "expected at most 2 tensors, found 3"},
        {COUNTS("3", "3") " z:71", "expected at most 2 tensors, found 3"},
        {COUNTS("1", "4") " z:48", "expected at most 3 keys, found 4"},
        {COUNTS("1", "4") " z:52", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ss_bytes file = write_file(table[i].words);
        ss_gguf gguf;
        ss_error err = {0};
        CHECK_INT((int)ss_gguf_begin(&gguf, file, &err), table[i].text ? SS_BAD_FILE : SS_OK);
        if (table[i].text) CHECK(!strcmp(err.text, table[i].text));
        free((void *)(size_t)file.data);
    }
    CASE("the last element of an array may end with the file");
    static const char *const ends[] = {"t:x 4:9 4:3 8:3 z:6", "t:x 4:9 4:3 8:3 z:5"};
    for (int i = 0; i < 2; i++) {
        ss_bytes bytes = write_file(ends[i]);
        ss_gguf gguf = {.file = bytes, .alignment = 32};
        ss_gguf_pair pair;
        ss_error err = {0};
        CHECK_INT((int)ss_gguf_next_pair(&gguf, &pair, &err), i ? SS_BAD_FILE : SS_OK);
        if (i)
            CHECK(!strcmp(err.text, "expected at most 2 elements before the file's end, found 3"));
        free((void *)(size_t)bytes.data);
    }
}

static void check_type_names(void) {
    CASE("an unsupported type is refused by ggml's name for its number");
    static const struct {
        int type;
        const char *name;
    } table[] = {
        {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
        {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {24, "I8"},     {25, "I16"},
        {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},
        {40, "NVFP4"}, {4, "others"}, {5, "others"},   {31, "others"}, {38, "others"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char words[1024], end[64];
        snprintf(words, sizeof words,
                 COUNTS("2", "7") PAIRS EMBEDDING " t:a 4:1 8:256 4:%d 8:128" DATA, table[i].type);
        ss_bytes file = write_file(words);
        ss_error err = {0};
        CHECK_INT((int)open_gguf(file, false, &err), SS_UNSUPPORTED);
        int n = snprintf(end, sizeof end, ", found %s (type %d)", table[i].name, table[i].type);
        size_t size = strlen(err.text);
        CHECK_TEXT(err.text + (size > (size_t)n ? size - (size_t)n : 0), end);
        free((void *)(size_t)file.data);
    }
}

#define GOLDEN "tests/golden/"
static const char *const models[] = {GOLDEN "gguf-gemma3-bf16",       GOLDEN "gguf-gpt_neox-q8_0",
                                     GOLDEN "gguf-llama3-f16",        GOLDEN "gguf-gpt2-plain-f16",
                                     GOLDEN "gguf-falcon-groups-f16", GOLDEN "gguf-qwen3_moe-q8_0"};
#define MODELS_N (sizeof models / sizeof *models)

static ss_bytes first_bytes(ss_bytes file, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) exit(2);
    memcpy(copy, file.data, n);
    return (ss_bytes){copy, n};
}

static bool has_text_and_place(ss_status status, const ss_error *err) {
    return err->code == status && err->where[0] && strlen(err->text) > 10;
}

static void check_cuts(const char *folder) {
    CASE("a truncated file is refused at every length");
    ss_bytes whole_file = read_file(folder, "model.gguf");
    for (size_t percent = 1; percent < 100; percent++) {
        ss_bytes cut_file = first_bytes(whole_file, whole_file.n * percent / 100);
        ss_error err = {0};
        ss_status status = open_gguf(cut_file, true, &err);
        CHECK(status == SS_BAD_FILE && has_text_and_place(status, &err));
        free((void *)(size_t)cut_file.data);
    }
    free((void *)(size_t)whole_file.data);
}

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Flips one to four bits, mostly in the metadata and the offsets of tensors. */
static void flip_bits(unsigned char *bytes, size_t n, uint32_t *state) {
    for (uint32_t flips = 1 + next_random(state) % 4; flips > 0; flips--) {
        size_t range = next_random(state) % 8 ? 4096 : n;
        size_t offset = next_random(state) % (range < n ? range : n);
        bytes[offset] ^= (unsigned char)(1u << (next_random(state) % 8));
    }
}

static void check_flips(const char *folder, int rounds, uint32_t *state) {
    CASE("a file with flipped bits runs, or is refused with a place and a reason");
    ss_bytes whole_file = read_file(folder, "model.gguf");
    int status_counts[SS_STATUS_N] = {0};
    runs_n = 0;
    for (int i = 0; i < rounds; i++) {
        ss_bytes flipped_file = first_bytes(whole_file, whole_file.n);
        flip_bits((unsigned char *)(size_t)flipped_file.data, flipped_file.n, state);
        ss_error err = {0};
        ss_status status = open_gguf(flipped_file, true, &err);
        status_counts[status]++;
        CHECK(status == SS_OK || has_text_and_place(status, &err));
        free((void *)(size_t)flipped_file.data);
    }
    for (int status = 0; status < SS_STATUS_N; status++)
        if (status_counts[status])
            printf("  %d %s\n", status_counts[status], ss_status_name((ss_status)status));
    CHECK_INT(runs_n, status_counts[SS_OK]);
    CHECK(status_counts[SS_OK] < rounds && status_counts[SS_BAD_FILE] > 0);
    free((void *)(size_t)whole_file.data);
}

int main(void) {
    CHECK_TABLE(headers);
    CHECK_TABLE(pairs);
    CHECK_TABLE(tensors);
    CHECK_TABLE(meanings);
    CHECK_TABLE(families);
    check_scalings();
    check_shards();
    check_values();
    check_counts();
    check_type_names();
    uint32_t state = 20240607;
    for (size_t i = 0; i < MODELS_N; i++) {
        check_cuts(models[i]);
        check_flips(models[i], 10000 / (int)MODELS_N, &state);
    }
    return check_done();
}
