// EBB_UNROLL before a loop of at most 16 rounds with a constant bound: its arrays can then live in registers.
// EBB_INLINE before a function of the innermost loops, and EBB_INLINE_LAMBDA on a lambda, for the same reason.
// A file whose lanes are arrays of their own (matmul_portable.cpp) defines EBB_NO_UNROLL: unrolling would only bloat it.
#pragma once

#if defined(EBB_NO_UNROLL)
#define EBB_UNROLL
#define EBB_INLINE
#define EBB_INLINE_LAMBDA
#elif defined(__clang__)
#define EBB_UNROLL _Pragma("clang loop unroll(full)")
#define EBB_INLINE [[gnu::always_inline]]
#define EBB_INLINE_LAMBDA __attribute__((always_inline))
#else
#define EBB_UNROLL _Pragma("GCC unroll 16")
#define EBB_INLINE [[gnu::always_inline]]
#define EBB_INLINE_LAMBDA __attribute__((always_inline))
#endif
