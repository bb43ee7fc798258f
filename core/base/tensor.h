/* Tensor: a typed view of numbers with a shape; it owns no memory. */
#ifndef SS_BASE_TENSOR_H
#define SS_BASE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

/* The value of an SS_I8 is its integer times the scale of its row, which is in another tensor
 * (model/load.h). The types from SS_Q8_0 on are GGUF's blocks of numbers that share a scale, so
 * they have a size per block, not per number. */
typedef enum ss_dtype {
    SS_F32 = 0,
    SS_I32 = 1,
    SS_F16 = 2,
    SS_BF16 = 3,
    SS_U8 = 4,
    SS_F64, /* read as F32, with rounding */
    SS_I8,
    SS_Q8_0,
    SS_Q4_0,
    SS_Q4_1,
    SS_Q5_0,
    SS_Q5_1,
    SS_Q4_K,
    SS_Q5_K,
    SS_Q6_K,
    SS_Q2_K,
    SS_Q3_K,
    SS_IQ4_NL,
    SS_IQ4_XS,
    SS_MXFP4,
    SS_DTYPE_N
} ss_dtype;

#define SS_RANK_MAX 4

typedef struct ss_tensor {
    const void *data; /* may be unaligned in a file */
    ss_dtype type;
    int rank; /* 0 .. SS_RANK_MAX; 0 is one number */
    size_t dims[SS_RANK_MAX];
    size_t strides[SS_RANK_MAX]; /* in elements */
} ss_tensor;

/* Returns the numbers in one block; 1 for plain types. */
size_t ss_dtype_block(ss_dtype type);

size_t ss_dtype_block_bytes(ss_dtype type);

const char *ss_dtype_name(ss_dtype type);

/* Returns true for the types that weights may have. Integers are counts and ids, not weights. */
static inline bool ss_dtype_is_weight(ss_dtype type) {
    return type != SS_I32 && type != SS_U8;
}

/* Returns the number of bytes of n contiguous numbers; n is a multiple of the block. */
static inline size_t ss_dtype_bytes(ss_dtype type, size_t n) {
    return n / ss_dtype_block(type) * ss_dtype_block_bytes(type);
}

/* The dimensions of a tensor as text, "2, 3". */
typedef struct ss_shape_text {
    char text[96];
} ss_shape_text;

ss_shape_text ss_tensor_shape(const ss_tensor *tensor);

bool ss_tensor_shapes_equal(const ss_tensor *a, const ss_tensor *b);

/* Sets the strides of dense numbers. */
void ss_tensor_set_strides(ss_tensor *tensor);

static inline size_t ss_tensor_count(const ss_tensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
    return count;
}

#endif
