/* Macros and helpers of the wasm SIMD kernels. */
#ifndef SS_MATH_SIMD_H
#define SS_MATH_SIMD_H

#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))

/* For functions that run once per row: inlined copies would only be downloaded. */
#define SHARED __attribute__((noinline))

/* An array of vectors stays in registers only if the compiler knows every index. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* A constant for many rounds of a loop: V8 would rebuild a known constant in each round, by
 * three instructions. The barrier hides its value, so V8 loads it from memory. */
INLINE v128_t keep(const void *number) {
    __asm__("" : "+r"(number));
    return wasm_v128_load32_splat(number);
}

#endif
