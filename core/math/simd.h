/* Macros and helpers of the wasm SIMD kernels. */
#ifndef SS_MATH_SIMD_H
#define SS_MATH_SIMD_H

#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))

/* Keeps a function that runs once per row from being inlined: the binary would only grow. */
#define NOINLINE __attribute__((noinline))

/* An array of vectors stays in registers only if the compiler knows every index. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* Returns a constant that many rounds of a loop use, loaded from memory: V8 would rebuild a known
 * constant in each round, by three instructions. The barrier hides the value from the compiler. */
INLINE v128_t load_constant(const void *number) {
    __asm__("" : "+r"(number));
    return wasm_v128_load32_splat(number);
}

#endif
