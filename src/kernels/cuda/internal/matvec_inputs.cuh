// Rows of x in shared memory, as a product reads them: float32, or in blocks of 32 as int16 with one scale (Arithmetic::Quantized).
//   stage(in, first_token, first)      a tile of kTokens rows from column `first`; zeros past the end; absent rows repeat the last
//   add(pieces, group, lane, sums)     sums[t][r] += x[t] * pieces[r] over a lane's columns of a group of the tile
#pragma once

#include "kernels/cuda/internal/matvec_arguments.h"
#include "kernels/cuda/internal/matvec_pieces.cuh"

namespace ebb::kernels::cuda {

/// Columns of whole groups that a tile has.
__device__ inline unsigned staged_columns(const MatvecArguments& in, unsigned first, unsigned tile) {
  return (min(tile, in.cols - first) + kGroupColumns - 1) / kGroupColumns * kGroupColumns;
}

/// Columns c .. c + 3 of a row of x.
__device__ inline float4 load_quad(const MatvecArguments& in, const float* row, unsigned c) {
  if (in.x_is_aligned && c + 4 <= in.cols) return *reinterpret_cast<const float4*>(row + c);
  const auto value = [&](unsigned k) { return c + k < in.cols ? row[c + k] : 0.0f; };
  return float4{value(0), value(1), value(2), value(3)};
}

template <int kRowsOfX, unsigned kRowsOfAWarp>
struct ExactInput {
  static constexpr int kTokens = kRowsOfX;
  static constexpr unsigned kRows = kRowsOfAWarp;  // of w
  static constexpr unsigned kTile = kMatvecTileColumns / kTokens;
  float4 quads[kTokens][kTile / 4];

  /// Where a quad of a group stands: the eight lanes of one access get different banks for every quad_at().
  __device__ static unsigned swizzled(unsigned quad) {
    return quad ^ ((quad >> 3 & 1u) * 7u ^ (quad >> 4 & 1u) * 2u ^ (quad >> 5 & 1u));
  }

  __device__ void stage(const MatvecArguments& in, unsigned first_token, unsigned first) {
    const unsigned count = staged_columns(in, first, kTile) / 4;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const float* const row = in.x + std::size_t{min(first_token + t, in.tokens - 1)} * in.cols;
      for (unsigned quad = threadIdx.x; quad < count; quad += blockDim.x)
        quads[t][quad / kGroupQuads * kGroupQuads + swizzled(quad % kGroupQuads)] = load_quad(in, row, first + 4 * quad);
    }
  }

  template <class Piece>
  __device__ void add(const Piece (&pieces)[kRows], unsigned group, unsigned lane, float (&sums)[kTokens][kRows]) const {
#pragma unroll
    for (int run = 0; run < 2; ++run) {
      float x_sums[kTokens] = {};
#pragma unroll
      for (int four = 4 * run; four < 4 * run + 4; ++four) {
        const unsigned at = swizzled(Piece::quad_at(lane, four));
        float4 w[kRows];
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) w[r] = pieces[r].four(four);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          const float4 value = quads[t][group * kGroupQuads + at];
          if constexpr (Piece::kHasOffset)
            x_sums[t] = __fadd_rn(x_sums[t], __fadd_rn(__fadd_rn(value.x, value.y), __fadd_rn(value.z, value.w)));
#pragma unroll
          for (unsigned r = 0; r < kRows; ++r) {
            sums[t][r] = fmaf(value.x, w[r].x, sums[t][r]);
            sums[t][r] = fmaf(value.y, w[r].y, sums[t][r]);
            sums[t][r] = fmaf(value.z, w[r].z, sums[t][r]);
            sums[t][r] = fmaf(value.w, w[r].w, sums[t][r]);
          }
        }
      }
      if constexpr (Piece::kHasOffset) {
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
#pragma unroll
          for (unsigned r = 0; r < kRows; ++r) sums[t][r] = fmaf(x_sums[t], pieces[r].offset(run), sums[t][r]);
        }
      }
    }
  }
};

template <int kRowsOfX, unsigned kRowsOfAWarp>
struct QuantizedInput {
  static constexpr int kTokens = kRowsOfX;
  static constexpr unsigned kRows = kRowsOfAWarp;  // of w
  static constexpr unsigned kTile = kMatvecTileColumns / kTokens;
  static constexpr unsigned kGroupOcts = kGroupColumns / 8;
  static constexpr unsigned kGroupRuns = kGroupColumns / 16;
  uint4 octs[kTokens][kTile / 8];  // eight int16
  int run_sums[kTokens][kTile / 16];
  float scales[kTokens][kTile / 32];

  /// As ExactInput's, for eight columns an access.
  __device__ static unsigned swizzled(unsigned oct) { return oct ^ ((oct >> 3 & 1u) * 6u ^ (oct >> 4 & 1u)); }

  __device__ static unsigned packed(float low, float high) {
    return (static_cast<unsigned>(__float2int_rn(low)) & 0xffffu) | static_cast<unsigned>(__float2int_rn(high)) << 16;
  }

  /// x = scale * q, |q| <= 16383, q rounded to nearest; four lanes share a block. A block with a value that is not finite gets a
  /// scale that is not a number.
  __device__ void stage(const MatvecArguments& in, unsigned first_token, unsigned first) {
    constexpr float kMost = 16383.0f;
    const unsigned count = staged_columns(in, first, kTile) / 8;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const float* const row = in.x + std::size_t{min(first_token + t, in.tokens - 1)} * in.cols;
      for (unsigned oct = threadIdx.x; oct < count; oct += blockDim.x) {
        const float4 a = load_quad(in, row, first + 8 * oct);
        const float4 b = load_quad(in, row, first + 8 * oct + 4);
        const auto bits = [](float value) { return __float_as_uint(value) & 0x7fffffffu; };  // sort as magnitudes, NaN last
        unsigned largest_bits = max(max(max(bits(a.x), bits(a.y)), max(bits(a.z), bits(a.w))),
                                    max(max(bits(b.x), bits(b.y)), max(bits(b.z), bits(b.w))));
        largest_bits = max(largest_bits, __shfl_xor_sync(0xffffffffu, largest_bits, 1));
        largest_bits = max(largest_bits, __shfl_xor_sync(0xffffffffu, largest_bits, 2));
        const float largest = __uint_as_float(largest_bits);
        const bool is_finite = largest_bits < 0x7f800000u;
        // Below 2^-100 the inverse could overflow; such a block is zero for every purpose.
        const float inverse = is_finite && largest > 0x1p-100f ? __fdiv_rn(kMost, largest) : 0.0f;
        const uint4 q = {packed(a.x * inverse, a.y * inverse), packed(a.z * inverse, a.w * inverse),
                         packed(b.x * inverse, b.y * inverse), packed(b.z * inverse, b.w * inverse)};
        octs[t][oct / kGroupOcts * kGroupOcts + swizzled(oct % kGroupOcts)] = q;
        int sum = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum = dot_low((&q.x)[i], 0x0101u, sum);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (oct % 2 == 0) run_sums[t][oct / 2] = sum;
        if (oct % 4 == 0) scales[t][oct / 4] = is_finite ? __fdiv_rn(largest, kMost) : __uint_as_float(0x7fc00000u);
      }
    }
  }

  /// The two int16 of `pair` with the two low or high bytes of `bytes`.
  __device__ static int dot_low(unsigned pair, unsigned bytes, int sum) {
    int out;
    asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(pair), "r"(bytes), "r"(sum));
    return out;
  }
  __device__ static int dot_high(unsigned pair, unsigned bytes, int sum) {
    int out;
    asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(pair), "r"(bytes), "r"(sum));
    return out;
  }

  /// Integers within a run of 16 columns: at most 16 * 16383 * 255 < 2^27.
  template <class Piece>
  __device__ void add(const Piece (&pieces)[kRows], unsigned group, unsigned lane, float (&sums)[kTokens][kRows]) const {
#pragma unroll
    for (int run = 0; run < 2; ++run) {
      const unsigned at = Piece::first_run(lane) + run * Piece::kSecondRun;
      int dots[kTokens][kRows] = {};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned oct = group * kGroupOcts + swizzled(2 * at + half);
        Word low[kRows];
        Word high[kRows];
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) {
          low[r] = pieces[r].bytes(4 * run + 2 * half);
          high[r] = pieces[r].bytes(4 * run + 2 * half + 1);
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          const uint4 q = octs[t][oct];
#pragma unroll
          for (unsigned r = 0; r < kRows; ++r) {
            dots[t][r] = dot_low(q.x, low[r], dots[t][r]);
            dots[t][r] = dot_high(q.y, low[r], dots[t][r]);
            dots[t][r] = dot_low(q.z, high[r], dots[t][r]);
            dots[t][r] = dot_high(q.w, high[r], dots[t][r]);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const int run_sum = run_sums[t][group * kGroupRuns + at];
        const float scale = scales[t][(group * kGroupRuns + at) / 2];
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) {
          const auto dot = static_cast<float>(dots[t][r] - Piece::kBias * run_sum);
          sums[t][r] = fmaf(dot, __fmul_rn(pieces[r].scale(run), scale), sums[t][r]);
          if constexpr (Piece::kHasOffset)
            sums[t][r] = fmaf(static_cast<float>(run_sum), __fmul_rn(pieces[r].offset(run), scale), sums[t][r]);
        }
      }
    }
  }
};

}  // namespace ebb::kernels::cuda
