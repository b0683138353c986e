// Products of a few rows of x with packed matrices: one kernel for each element type, for 1, 2 or up to 4 rows
// and for either form of x. Called through
// kernels/cuda/matvec.h, which picks the kernel; the work is in internal/matvec_body.cuh.

#include "kernels/cuda/internal/matvec_body.cuh"

namespace ebb::kernels::cuda {

#define EBB_MATVEC(name, Piece, Input, kTokens, kIsPacked)                                                             \
  extern "C" __global__ void __launch_bounds__(kMatvecMaxThreads, MatvecShape<kTokens, kIsPacked>::kBlocks)            \
      matvec_##name##_##kTokens(const __grid_constant__ MatvecArguments in) {                                          \
    matvec<Piece, Input<kTokens, MatvecShape<kTokens, kIsPacked>::kRowsOfAWarp>>(in);                                  \
  }
#define EBB_EACH_WIDTH(name, Piece, Input, kIsPacked) \
  EBB_MATVEC(name, Piece, Input, 1, kIsPacked)        \
  EBB_MATVEC(name, Piece, Input, 2, kIsPacked)        \
  EBB_MATVEC(name, Piece, Input, 4, kIsPacked)
#define EBB_PLAIN(name, ...)       \
  using Piece_##name = __VA_ARGS__; \
  EBB_EACH_WIDTH(name, Piece_##name, ExactInput, false)
#define EBB_PACKED(name, ...)                         \
  using Piece_##name = BlockPiece<__VA_ARGS__>;       \
  EBB_EACH_WIDTH(name, Piece_##name, ExactInput, true) \
  EBB_EACH_WIDTH(name##_quantized, Piece_##name, QuantizedInput, true)

EBB_PLAIN(F32, FloatPiece)
EBB_PLAIN(F16, HalfPiece<false>)
EBB_PLAIN(BF16, HalfPiece<true>)
EBB_PACKED(Q4_0, Nibbles32<false, false>)
EBB_PACKED(Q4_1, Nibbles32<true, false>)
EBB_PACKED(Q5_0, Nibbles32<false, true>)
EBB_PACKED(Q5_1, Nibbles32<true, true>)
EBB_PACKED(Q8_0, Q80)
EBB_PACKED(Q2_K, Q2K)
EBB_PACKED(Q3_K, Q3K)
EBB_PACKED(Q4_K, Q45K<false>)
EBB_PACKED(Q5_K, Q45K<true>)
EBB_PACKED(Q6_K, Q6K)
EBB_PACKED(IQ4_NL, Iq4Nl)
EBB_PACKED(IQ4_XS, Iq4Xs)

}  // namespace ebb::kernels::cuda
