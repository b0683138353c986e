// What the kernels of matvec.cu are given, by value: the launcher and the kernels read the same layout.
#pragma once

#include <cstddef>

namespace ebb::kernels::cuda {

inline constexpr unsigned kMatvecProducts = 4;        // of one launch
inline constexpr unsigned kMatvecTileColumns = 8192;  // columns of x in shared memory, over all rows of x
inline constexpr unsigned kMatvecMaxThreads = 256;

/// Rows of w that a warp has at a time, and blocks that share a multiprocessor's registers. Rows share each read of x; with one
/// row of x and packed weights, registers for more warps are worth more.
template <unsigned kTokens, bool kIsPacked>
struct MatvecShape {
  static constexpr bool kIsNarrow = kTokens == 1 && kIsPacked;
  static constexpr unsigned kRowsOfAWarp = kIsNarrow ? 2 : 4;
  static constexpr unsigned kBlocks = kIsNarrow ? 4 : 2;
};

struct MatvecProduct {
  const unsigned char* w;
  float* y;
  std::size_t row_bytes;
  std::size_t y_stride;  // floats
  unsigned rows;
  unsigned batches_end;  // batches of rows of this product and those before it
  bool is_aligned;       // every row starts at a multiple of 16 bytes
};

struct MatvecArguments {
  const float* x;  // [tokens, cols]
  unsigned tokens;
  unsigned cols;
  unsigned splits;  // warps that share a row
  unsigned product_count;
  bool x_is_aligned;  // rows of x too
  MatvecProduct products[kMatvecProducts];
};

}  // namespace ebb::kernels::cuda
