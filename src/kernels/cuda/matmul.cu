// Products of many rows of activations with packed weights: y[t, r] = sum_c x[t, c] w[r, c]. Called through kernels/cuda/matmul.h.
// A block has 64 rows of w and 64 of x. It walks over the columns 32 at a time: half its threads dequantise sixteen columns of a
// row of w each, half read as many of x, into shared memory, while the last 32 are multiplied. Every sum goes over the columns
// in order, whatever the number of rows. Blocks that share rows of w run next to each other, so that these come from the cache.
// Floor: 2 rows cols w.rows operations, over the card's rate of float32 (exact) or a third of its rate of bf16 (split).

#include "kernels/cuda/dequantize.cuh"

namespace {

using namespace ebb::kernels::cuda;
using ebb::DType;

constexpr unsigned kTile = 64;      // rows of w, and of x, a block, as matmul.cpp has it
constexpr unsigned kStep = 32;      // columns at once
constexpr unsigned kThreads = 256;  // as matmul.cpp has it

struct Arguments {
  const float* x;
  unsigned rows;
  unsigned cols;
  const unsigned char* w;
  unsigned w_rows;
  float* y;
  std::size_t y_stride;
};

/// What a thread brings into shared memory: sixteen columns of one row of w (the lower half of the threads) or of x.
template <DType kType>
struct Loader {
  const unsigned char* row;
  bool is_weight;
  bool is_inside;
  bool has_vectors;
  unsigned cols;
  unsigned slot;         // of the row in the tile
  unsigned step_column;  // 0 or 16

  __device__ explicit Loader(const Arguments& a) : cols(a.cols) {
    is_weight = threadIdx.x < kThreads / 2;
    slot = threadIdx.x % kTile;
    step_column = threadIdx.x / kTile % 2 * kNeighbours;
    const unsigned idx = (is_weight ? blockIdx.y : blockIdx.x) * kTile + slot;
    is_inside = idx < (is_weight ? a.w_rows : a.rows);
    has_vectors = cols % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0;
    const std::size_t row_idx = is_inside ? idx : 0;
    row = is_weight ? a.w + row_idx * row_bytes_of<kType>(cols) : reinterpret_cast<const unsigned char*>(a.x + row_idx * cols);
  }

  __device__ void load(unsigned column, float (&out)[kNeighbours]) const {
    const unsigned first = column + step_column;
    if (!is_inside || first >= cols) {
#pragma unroll
      for (float& value : out) value = 0.0f;
    } else if (is_weight) {
      dequantize_neighbours<kType>(row, first, cols, out);
    } else if (has_vectors && first + kNeighbours <= cols) {
#pragma unroll
      for (unsigned i = 0; i < kNeighbours / 4; ++i) {
        const float4 four = reinterpret_cast<const float4*>(row)[first / 4 + i];
        out[4 * i] = four.x;
        out[4 * i + 1] = four.y;
        out[4 * i + 2] = four.z;
        out[4 * i + 3] = four.w;
      }
    } else {
      dequantize_neighbours<DType::F32>(row, first, cols, out);
    }
  }
};

/// float32 throughout: a thread has four rows of w times four of x.
template <DType kType>
__device__ void multiply_exact(const Arguments& a) {
  constexpr unsigned kEach = 4;
  constexpr unsigned kAcross = kTile / kEach;
  __shared__ float4 tiles[2][kStep][kTile / 4 + 1];  // of w and x, a column after the other
  const Loader<kType> loader(a);
  const unsigned of_w = threadIdx.x % kAcross;
  const unsigned of_x = threadIdx.x / kAcross;
  float sums[kEach][kEach] = {};  // [row of x][row of w]
  float next[kNeighbours];
  loader.load(0, next);
  for (unsigned column = 0; column < a.cols; column += kStep) {
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < kNeighbours; ++i)
      reinterpret_cast<float*>(tiles[loader.is_weight ? 0 : 1][loader.step_column + i])[loader.slot] = next[i];
    __syncthreads();
    if (column + kStep < a.cols) loader.load(column + kStep, next);
#pragma unroll 8
    for (unsigned c = 0; c < kStep; ++c) {
      const float4 w = tiles[0][c][of_w];
      const float4 x = tiles[1][c][of_x];
      const float xs[kEach] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (unsigned t = 0; t < kEach; ++t) {
        sums[t][0] = fmaf(xs[t], w.x, sums[t][0]);
        sums[t][1] = fmaf(xs[t], w.y, sums[t][1]);
        sums[t][2] = fmaf(xs[t], w.z, sums[t][2]);
        sums[t][3] = fmaf(xs[t], w.w, sums[t][3]);
      }
    }
  }
#pragma unroll
  for (unsigned t = 0; t < kEach; ++t) {
    const unsigned token = blockIdx.x * kTile + of_x * kEach + t;
    if (token >= a.rows) continue;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned row = blockIdx.y * kTile + of_w * kEach + i;
      if (row < a.w_rows) a.y[token * a.y_stride + row] = sums[t][i];
    }
  }
}

// Before compute capability 8.0 there is no bf16 in the matrix units: the exact product then serves both.
#if __CUDA_ARCH__ >= 800
#define EBB_SPLIT multiply_split

/// Two floats to bf16, rounded to nearest, the first in the low half.
__device__ inline std::uint32_t bf16_pair(float first, float second) {
  std::uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

/// sums += a b: sixteen rows of w times eight of x over sixteen columns.
__device__ inline void multiply_tile(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Each number as the sum of two bf16, high and low; three of the four products on the matrix units. Eight warps: four along w,
/// sixteen rows each, two along x, 32 rows each.
template <DType kType>
__device__ void multiply_split(const Arguments& a) {
  constexpr unsigned kWords = kStep / 2 + 4;  // of a row: the padding puts eight rows into different banks
  constexpr unsigned kEights = 4;             // of rows of x, a warp
  __shared__ uint4 space[2][2][kTile][kWords / 4];  // [w, x][high, low][row]
  const auto tiles = reinterpret_cast<std::uint32_t(*)[2][kTile][kWords]>(space);
  const Loader<kType> loader(a);
  const unsigned warp = threadIdx.x / 32;
  const unsigned group = threadIdx.x % 32 / 4;
  const unsigned member = threadIdx.x % 4;
  const unsigned w_row = warp % 4 * 16 + group;
  const unsigned x_row = warp / 4 * 32 + group;
  float sums[kEights][4] = {};
  float next[kNeighbours];
  loader.load(0, next);
  for (unsigned column = 0; column < a.cols; column += kStep) {
    std::uint32_t high[kNeighbours / 2];
    std::uint32_t low[kNeighbours / 2];
#pragma unroll
    for (unsigned i = 0; i < kNeighbours / 2; ++i) {
      high[i] = bf16_pair(next[2 * i], next[2 * i + 1]);
      low[i] = bf16_pair(next[2 * i] - bf16_value(high[i]), next[2 * i + 1] - bf16_value(high[i] >> 16));
    }
    __syncthreads();
    const unsigned which = loader.is_weight ? 0 : 1;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at = loader.step_column / 8 + i;
      space[which][0][loader.slot][at] = uint4{high[4 * i], high[4 * i + 1], high[4 * i + 2], high[4 * i + 3]};
      space[which][1][loader.slot][at] = uint4{low[4 * i], low[4 * i + 1], low[4 * i + 2], low[4 * i + 3]};
    }
    __syncthreads();
    if (column + kStep < a.cols) loader.load(column + kStep, next);
#pragma unroll
    for (unsigned k = 0; k < kStep / 2; k += 8) {
      std::uint32_t w[2][4];
#pragma unroll
      for (unsigned part = 0; part < 2; ++part) {
        w[part][0] = tiles[0][part][w_row][k + member];
        w[part][1] = tiles[0][part][w_row + 8][k + member];
        w[part][2] = tiles[0][part][w_row][k + member + 4];
        w[part][3] = tiles[0][part][w_row + 8][k + member + 4];
      }
#pragma unroll
      for (unsigned n = 0; n < kEights; ++n) {
        const std::uint32_t(&x_high)[kWords] = tiles[1][0][x_row + 8 * n];
        const std::uint32_t(&x_low)[kWords] = tiles[1][1][x_row + 8 * n];
        multiply_tile(sums[n], w[0], x_low[k + member], x_low[k + member + 4]);
        multiply_tile(sums[n], w[1], x_high[k + member], x_high[k + member + 4]);
        multiply_tile(sums[n], w[0], x_high[k + member], x_high[k + member + 4]);
      }
    }
  }
#pragma unroll
  for (unsigned n = 0; n < kEights; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned token = blockIdx.x * kTile + warp / 4 * 32 + 8 * n + 2 * member + i % 2;
      const unsigned row = blockIdx.y * kTile + w_row + i / 2 * 8;
      if (token < a.rows && row < a.w_rows) a.y[token * a.y_stride + row] = sums[n][i];
    }
  }
}

#else
#define EBB_SPLIT multiply_exact
#endif

}  // namespace

#define EBB_MATMUL(kType)                                                                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads) matmul_exact_##kType(                                                   \
      const float* x, unsigned rows, unsigned cols, const unsigned char* w, unsigned w_rows, float* y, std::size_t y_stride) {   \
    multiply_exact<DType::kType>(Arguments{x, rows, cols, w, w_rows, y, y_stride});                                              \
  }                                                                                                                              \
  extern "C" __global__ void __launch_bounds__(kThreads) matmul_split_##kType(                                                   \
      const float* x, unsigned rows, unsigned cols, const unsigned char* w, unsigned w_rows, float* y, std::size_t y_stride) {   \
    EBB_SPLIT<DType::kType>(Arguments{x, rows, cols, w, w_rows, y, y_stride});                                                   \
  }
EBB_MATMUL(F32)
EBB_MATMUL(F16)
EBB_MATMUL(BF16)
EBB_MATMUL(Q4_0)
EBB_MATMUL(Q4_1)
EBB_MATMUL(Q5_0)
EBB_MATMUL(Q5_1)
EBB_MATMUL(Q8_0)
EBB_MATMUL(Q2_K)
EBB_MATMUL(Q3_K)
EBB_MATMUL(Q4_K)
EBB_MATMUL(Q5_K)
EBB_MATMUL(Q6_K)
EBB_MATMUL(IQ4_NL)
EBB_MATMUL(IQ4_XS)
