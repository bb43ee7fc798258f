/* Tensor: a typed view of numbers with a shape; never an owner. */
#ifndef SS_BASE_TENSOR_H
#define SS_BASE_TENSOR_H

#include <stddef.h>

typedef enum ss_dtype { SS_F32 = 0, SS_I32 = 1, SS_F16 = 2, SS_BF16 = 3 } ss_dtype;

#define SS_RANK_MAX 4

typedef struct ss_tensor {
    const void *data; /* unaligned where it points into a file */
    ss_dtype type;
    int rank; /* 0 .. SS_RANK_MAX; 0 is one number */
    size_t dims[SS_RANK_MAX];
    size_t strides[SS_RANK_MAX]; /* in elements */
} ss_tensor;

/* Bytes of one element. */
static inline size_t ss_dtype_bytes(ss_dtype type) {
    return type == SS_F32 || type == SS_I32 ? 4 : 2;
}

/* Number of elements; the shape was checked for overflow when the tensor was made. */
static inline size_t ss_tensor_count(const ss_tensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
    return count;
}

#endif
