#include "tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t block, bytes;
} types[SS_DTYPE_N] = {
    [SS_F32] = {"F32", 1, 4},
    [SS_I32] = {"I32", 1, 4},
    [SS_F16] = {"F16", 1, 2},
    [SS_BF16] = {"BF16", 1, 2},
    [SS_U8] = {"U8", 1, 1},
    [SS_I8] = {"I8", 1, 1},
    [SS_F64] = {"F64", 1, 8},
    [SS_Q8_0] = {"Q8_0", 32, 34},
    [SS_Q4_0] = {"Q4_0", 32, 18},
    [SS_Q4_1] = {"Q4_1", 32, 20},
    [SS_Q5_0] = {"Q5_0", 32, 22},
    [SS_Q5_1] = {"Q5_1", 32, 24},
    [SS_Q4_K] = {"Q4_K", 256, 144},
    [SS_Q5_K] = {"Q5_K", 256, 176},
    [SS_Q6_K] = {"Q6_K", 256, 210},
    [SS_Q2_K] = {"Q2_K", 256, 84},
    [SS_Q3_K] = {"Q3_K", 256, 110},
    [SS_IQ4_NL] = {"IQ4_NL", 32, 18},
    [SS_IQ4_XS] = {"IQ4_XS", 256, 136},
    [SS_MXFP4] = {"MXFP4", 32, 17},
};

size_t ss_dtype_block(ss_dtype type) {
    return types[type].block;
}

size_t ss_dtype_block_bytes(ss_dtype type) {
    return types[type].bytes;
}

const char *ss_dtype_name(ss_dtype type) {
    return types[type].name;
}

ss_shape_text ss_tensor_shape(const ss_tensor *tensor) {
    ss_shape_text shape = {""};
    size_t used = 0;
    for (int i = 0; i < tensor->rank && used < sizeof shape.text; i++)
        used += (size_t)snprintf(shape.text + used, sizeof shape.text - used, "%s%lu",
                                 i ? ", " : "", (unsigned long)tensor->dims[i]);
    return shape;
}

bool ss_tensor_shapes_equal(const ss_tensor *a, const ss_tensor *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

void ss_tensor_set_strides(ss_tensor *tensor) {
    size_t stride = 1;
    for (int i = tensor->rank; i-- > 0; stride *= tensor->dims[i]) tensor->strides[i] = stride;
}
