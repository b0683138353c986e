// EBB_UNROLL before a loop of at most 16 rounds with a constant bound: its arrays can then live in registers.
// A file whose lanes are arrays of their own (matmul_portable.cpp) defines EBB_NO_UNROLL: unrolling would only bloat it.
#pragma once

#if defined(EBB_NO_UNROLL)
#define EBB_UNROLL
#elif defined(__clang__)
#define EBB_UNROLL _Pragma("clang loop unroll(full)")
#else
#define EBB_UNROLL _Pragma("GCC unroll 16")
#endif
