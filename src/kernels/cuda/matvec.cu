// Products of a few rows of x with packed matrices: one kernel for each element type, for 1, 2 or up to 4 rows
// and for either form of x. Called through
// kernels/cuda/matvec.h, which picks the kernel; the work is in internal/matvec_body.cuh.

#include "kernels/cuda/internal/matvec_body.cuh"

namespace ebb::kernels::cuda {

#define EBB_MATVEC(name, Piece, Input, kTokens)                                                                       \
  extern "C" __global__ void __launch_bounds__(kMatvecMaxThreads, 2)                                                  \
      matvec_##name##_##kTokens(const __grid_constant__ MatvecArguments in) {                                         \
    matvec<Piece, Input<kTokens>>(in);                                                                                \
  }
#define EBB_EXACT(name, ...)                      \
  using Exact_##name = __VA_ARGS__;               \
  EBB_MATVEC(name, Exact_##name, ExactInput, 1)   \
  EBB_MATVEC(name, Exact_##name, ExactInput, 2)   \
  EBB_MATVEC(name, Exact_##name, ExactInput, 4)
#define EBB_BOTH(name, ...)                                           \
  EBB_EXACT(name, BlockPiece<__VA_ARGS__>)                            \
  EBB_MATVEC(name##_quantized, Exact_##name, QuantizedInput, 1)       \
  EBB_MATVEC(name##_quantized, Exact_##name, QuantizedInput, 2)       \
  EBB_MATVEC(name##_quantized, Exact_##name, QuantizedInput, 4)

EBB_EXACT(F32, FloatPiece)
EBB_EXACT(F16, HalfPiece<false>)
EBB_EXACT(BF16, HalfPiece<true>)
EBB_BOTH(Q4_0, Nibbles32<false, false>)
EBB_BOTH(Q4_1, Nibbles32<true, false>)
EBB_BOTH(Q5_0, Nibbles32<false, true>)
EBB_BOTH(Q5_1, Nibbles32<true, true>)
EBB_BOTH(Q8_0, Q80)
EBB_BOTH(Q2_K, Q2K)
EBB_BOTH(Q3_K, Q3K)
EBB_BOTH(Q4_K, Q45K<false>)
EBB_BOTH(Q5_K, Q45K<true>)
EBB_BOTH(Q6_K, Q6K)
EBB_BOTH(IQ4_NL, Iq4Nl)
EBB_BOTH(IQ4_XS, Iq4Xs)

}  // namespace ebb::kernels::cuda
