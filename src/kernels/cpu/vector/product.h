// The small product of attention: a few rows of A times a panel of B, sums in registers.
#pragma once

#include "kernels/internal/f32x16.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

constexpr std::size_t kPanel = kProductVectors * kLanes;  // columns of B that lie together

/// C[r][0 .. kPanel) = C * c_scale[r] + sum over k of A[r][k] B[k][..]; without c_scale C counts as zero.
/// Unrolled by order: GCC keeps the sums in registers only where it has unrolled before it looks at arrays.
template <int Rows, std::size_t AStride, std::size_t CStride>
inline void product(const float* a, const float* b, std::size_t inner, float* c, const float* c_scale) {
  F32x16 sum[Rows][kProductVectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kProductVectors; ++v)
      sum[r][v] = c_scale == nullptr ? zero() : load(c + r * CStride + v * kLanes) * set1(c_scale[r]);
  }
  for (std::size_t k = 0; k < inner; ++k) {
    F32x16 column[kProductVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kProductVectors; ++v) column[v] = load(b + k * kPanel + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const F32x16 factor = set1(a[r * AStride + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kProductVectors; ++v) sum[r][v] = fma(factor, column[v], sum[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kProductVectors; ++v) store(c + r * CStride + v * kLanes, sum[r][v]);
  }
}

/// `rows` rows, rounded up to the next size there is code for; scratch has room for a whole tile of rows.
template <std::size_t AStride, std::size_t CStride>
void product_rows(std::size_t rows, const float* a, const float* b, std::size_t inner, float* c, const float* c_scale) {
  if (rows == 1) return product<1, AStride, CStride>(a, b, inner, c, c_scale);
  if constexpr (kProductRows > 2) {
    if (rows == 2) return product<2, AStride, CStride>(a, b, inner, c, c_scale);
  }
  if constexpr (kProductRows > 4) {
    if (rows <= 4) return product<4, AStride, CStride>(a, b, inner, c, c_scale);
  }
  if constexpr (kProductRows > 8) {
    if (rows <= 8) return product<8, AStride, CStride>(a, b, inner, c, c_scale);
  }
  product<kProductRows, AStride, CStride>(a, b, inner, c, c_scale);
}

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
