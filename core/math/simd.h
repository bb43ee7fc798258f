/* What the files of kernels in wasm SIMD share. */
#ifndef SS_MATH_SIMD_H
#define SS_MATH_SIMD_H

#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))

/* What runs once in a row: copies of it would only be downloaded. */
#define SHARED __attribute__((noinline))

/* Vectors in an array stay in registers only where every index is known. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* A constant for many rounds of a loop: V8 would build one that it knew in each round, by three
 * instructions. The barrier hides its value, so V8 loads it from memory. */
INLINE v128_t keep(const void *number) {
    __asm__("" : "+r"(number));
    return wasm_v128_load32_splat(number);
}

#endif
