// Products of a few rows of x with packed matrices: one kernel for each element type and for 1, 2 or up to 4 rows. Called through
// kernels/cuda/matvec.h, which picks the kernel; the work is in internal/matvec_body.cuh.

#include "kernels/cuda/internal/matvec_body.cuh"

namespace ebb::kernels::cuda {

#define EBB_MATVEC(name, Piece, kTokens)                                                                              \
  extern "C" __global__ void __launch_bounds__(kMatvecMaxThreads, 2)                                                     \
      matvec_##name##_##kTokens(const __grid_constant__ MatvecArguments in) {                                        \
    matvec<Piece, kTokens>(in);                                                                                       \
  }
#define EBB_MATVEC_OF(name, ...)          \
  using Piece_##name = __VA_ARGS__;       \
  EBB_MATVEC(name, Piece_##name, 1)       \
  EBB_MATVEC(name, Piece_##name, 2)       \
  EBB_MATVEC(name, Piece_##name, 4)

EBB_MATVEC_OF(F32, FloatPiece)
EBB_MATVEC_OF(F16, HalfPiece<false>)
EBB_MATVEC_OF(BF16, HalfPiece<true>)
EBB_MATVEC_OF(Q4_0, BlockPiece<Nibbles32<false, false>>)
EBB_MATVEC_OF(Q4_1, BlockPiece<Nibbles32<true, false>>)
EBB_MATVEC_OF(Q5_0, BlockPiece<Nibbles32<false, true>>)
EBB_MATVEC_OF(Q5_1, BlockPiece<Nibbles32<true, true>>)
EBB_MATVEC_OF(Q8_0, BlockPiece<Q80>)
EBB_MATVEC_OF(Q2_K, BlockPiece<Q2K>)
EBB_MATVEC_OF(Q3_K, BlockPiece<Q3K>)
EBB_MATVEC_OF(Q4_K, BlockPiece<Q45K<false>>)
EBB_MATVEC_OF(Q5_K, BlockPiece<Q45K<true>>)
EBB_MATVEC_OF(Q6_K, BlockPiece<Q6K>)
EBB_MATVEC_OF(IQ4_NL, BlockPiece<Iq4Nl>)
EBB_MATVEC_OF(IQ4_XS, BlockPiece<Iq4Xs>)

}  // namespace ebb::kernels::cuda
