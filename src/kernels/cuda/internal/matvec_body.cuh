// The product of some rows of x with packed matrices, for any piece of internal/matvec_pieces.cuh and either form of x in
// internal/matvec_inputs.cuh. A block brings a tile of x into shared memory; a warp has two or four rows of w, so that each read of
// x serves them all, and walks them in groups of 1,024 columns. The order of summation: a lane adds its pieces from the first column to
// the last, the lanes add as a tree, the warps of a row in order. It depends on cols alone.
#pragma once

#include "kernels/cuda/internal/matvec_arguments.h"
#include "kernels/cuda/internal/matvec_inputs.cuh"

namespace ebb::kernels::cuda {

template <class Piece, class Input>
__device__ void matvec(const MatvecArguments& in) {
  constexpr unsigned kRows = Input::kRows;
  constexpr int kTokens = Input::kTokens;
  constexpr unsigned kTile = kMatvecTileColumns / kTokens;
  __shared__ Input x;
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
    for (unsigned r = 0; r < kRows; ++r)
      rows[r] = product.w + std::size_t{min(first_row + r, product.rows - 1)} * product.row_bytes;
    float sums[kTokens][kRows] = {};
    for (unsigned tile = 0; tile < in.cols; tile += kTile) {
      if (staged != tile) {
        __syncthreads();
        x.stage(in, first_token, tile);
        staged = tile;
        __syncthreads();
      }
      const unsigned end = min(groups, (tile + kTile) / kGroupColumns);
      for (unsigned group = tile / kGroupColumns + split; group < end; group += in.splits) {
        if (!Piece::is_inside(group, lane, in.cols)) continue;
        Piece pieces[kRows];
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) pieces[r].load(rows[r], group, lane, in.cols, product.is_aligned);
        x.add(pieces, group - tile / kGroupColumns, lane, sums);
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
