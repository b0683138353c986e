// The product of some rows of x with packed matrices, for any piece of internal/matvec_pieces.cuh. A block brings a tile of x into
// shared memory; a warp has four rows of w, so that each read of x serves four, and walks them in groups of 1,024 columns with the
// next group's weights on their way. The order of summation: a lane adds its pieces from the first column to the last, the lanes
// add as a tree, the warps of a row in order. It depends on cols alone.
#pragma once

#include "kernels/cuda/internal/matvec_arguments.h"
#include "kernels/cuda/internal/matvec_pieces.cuh"

namespace ebb::kernels::cuda {

/// Where a quad of a group stands in shared memory: the eight lanes of one access get different banks for every quad_at().
__device__ inline unsigned swizzled(unsigned quad) {
  return quad ^ ((quad >> 3 & 1u) * 7u ^ (quad >> 4 & 1u) * 2u ^ (quad >> 5 & 1u));
}

/// Columns [first, first + columns) of kTokens rows of x; zeros past the end of a row; rows that are not there repeat the last.
template <int kTokens>
__device__ void stage(const MatvecArguments& in, unsigned first_token, unsigned first, unsigned columns, float4* to) {
  const unsigned quads = (min(columns, in.cols - first) + kGroupColumns - 1) / kGroupColumns * kGroupQuads;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    const float* const row = in.x + std::size_t{min(first_token + t, in.tokens - 1)} * in.cols;
    for (unsigned quad = threadIdx.x; quad < quads; quad += blockDim.x) {
      const unsigned c = first + 4 * quad;
      const auto value = [&](unsigned k) { return c + k < in.cols ? row[c + k] : 0.0f; };
      to[t * (columns / 4) + quad / kGroupQuads * kGroupQuads + swizzled(quad % kGroupQuads)] =
          in.x_is_aligned && c + 4 <= in.cols ? *reinterpret_cast<const float4*>(row + c)
                                              : float4{value(0), value(1), value(2), value(3)};
    }
  }
}

/// sums[t][r] += x[t] * piece[r] for one piece of each row; x is the group's in shared memory.
template <class Piece, int kTokens>
__device__ void add_pieces(const Piece (&pieces)[kMatvecRowsOfAWarp], const float4* x, unsigned stride, unsigned lane,
                           float (&sums)[kTokens][kMatvecRowsOfAWarp]) {
#pragma unroll
  for (int run = 0; run < 2; ++run) {
    float x_sums[kTokens] = {};
#pragma unroll
    for (int four = 4 * run; four < 4 * run + 4; ++four) {
      const unsigned at = swizzled(Piece::quad_at(lane, four));
      float4 w[kMatvecRowsOfAWarp];
#pragma unroll
      for (unsigned r = 0; r < kMatvecRowsOfAWarp; ++r) w[r] = pieces[r].four(four);
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const float4 value = x[t * stride + at];
        if constexpr (Piece::kHasOffset)
          x_sums[t] = __fadd_rn(x_sums[t], __fadd_rn(__fadd_rn(value.x, value.y), __fadd_rn(value.z, value.w)));
#pragma unroll
        for (unsigned r = 0; r < kMatvecRowsOfAWarp; ++r) {
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
        for (unsigned r = 0; r < kMatvecRowsOfAWarp; ++r) sums[t][r] = fmaf(x_sums[t], pieces[r].offset(run), sums[t][r]);
      }
    }
  }
}

template <class Piece, int kTokens>
__device__ void matvec(const MatvecArguments& in) {
  constexpr unsigned kRows = kMatvecRowsOfAWarp;
  constexpr unsigned kTile = kMatvecTileColumns / kTokens;
  __shared__ float4 x[kMatvecTileColumns / 4];
  __shared__ float partial[kMatvecMaxThreads / 32][kTokens][kRows];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned split = warp % in.splits;
  const unsigned rows_of_block = blockDim.x / 32 / in.splits * kRows;
  const unsigned groups = (in.cols + kGroupColumns - 1) / kGroupColumns;
  // Blocks of other tokens stand beside those of the same rows, so that they meet in the L2 cache.
  const unsigned token_batches = (in.tokens + kTokens - 1) / kTokens;
  const unsigned first_token = blockIdx.x % token_batches * kTokens;
  unsigned staged = ~0u;
  for (unsigned batch = blockIdx.x / token_batches; batch < in.products[in.product_count - 1].batches_end;
       batch += gridDim.x / token_batches) {
    unsigned p = 0;
    while (batch >= in.products[p].batches_end) ++p;
    const MatvecProduct& product = in.products[p];
    const unsigned batch_of_product = batch - (p == 0 ? 0 : in.products[p - 1].batches_end);
    const unsigned first_row = batch_of_product * rows_of_block + warp / in.splits * kRows;
    const unsigned char* rows[kRows];
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) rows[r] = product.w + std::size_t{min(first_row + r, product.rows - 1)} * product.row_bytes;
    float sums[kTokens][kRows] = {};
    for (unsigned tile = 0; tile < in.cols; tile += kTile) {
      if (staged != tile) {
        __syncthreads();
        stage<kTokens>(in, first_token, tile, kTile, x);
        staged = tile;
        __syncthreads();
      }
      const unsigned end = min(groups, (tile + kTile) / kGroupColumns);
      for (unsigned group = tile / kGroupColumns + split; group < end; group += in.splits) {
        if (!Piece::is_inside(group, lane, in.cols)) continue;
        Piece pieces[kRows];
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) pieces[r].load(rows[r], group, lane, in.cols, product.is_aligned);
        add_pieces<Piece, kTokens>(pieces, x + (group - tile / kGroupColumns) * kGroupQuads, kTile / 4, lane, sums);
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
#pragma unroll
      for (unsigned r = 0; r < kRows; ++r) {
        for (int distance = 16; distance > 0; distance /= 2)
          sums[t][r] = __fadd_rn(sums[t][r], __shfl_xor_sync(0xffffffffu, sums[t][r], distance));
        if (lane == 0) partial[warp][t][r] = sums[t][r];
      }
    }
    // A warp's own results are written by its lanes; those of a split row by the first warp of the row.
    if (in.splits == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    const unsigned r = lane % kRows;
    const unsigned t = lane / kRows;
    if (split == 0 && t < kTokens && first_row + r < product.rows && first_token + t < in.tokens) {
      float sum = partial[warp][t][r];
      for (unsigned s = 1; s < in.splits; ++s) sum = __fadd_rn(sum, partial[warp + s][t][r]);
      product.y[(first_token + t) * product.y_stride + first_row + r] = sum;
    }
    if (in.splits == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
}

}  // namespace ebb::kernels::cuda
