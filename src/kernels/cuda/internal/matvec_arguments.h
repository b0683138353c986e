// What the kernels of matvec.cu are given, by value: the launcher and the kernels read the same layout.
#pragma once

#include <cstddef>

namespace ebb::kernels::cuda {

inline constexpr unsigned kMatvecProducts = 4;      // of one launch
inline constexpr unsigned kMatvecRowsOfAWarp = 4;   // rows of w, which share each read of x
inline constexpr unsigned kMatvecTileColumns = 8192;  // columns of x in shared memory, over all rows of x
inline constexpr unsigned kMatvecMaxThreads = 256;

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
