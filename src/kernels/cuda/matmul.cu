// Products of many rows of activations with packed weights: y[t, r] = sum_c x[t, c] w[r, c]. Called through kernels/cuda/matmul.h.
// A block has 64 rows of w and 64 of x, or 128 of each. It walks over the columns 32 at a time: its threads dequantise sixteen
// columns of a row of w each, or read as many of x, into registers, while the last 32 are multiplied from shared memory. Sums go
// over the columns in order, whatever the number of rows. Blocks that share rows of w run side by side: these come from the cache.
// Floor: 2 rows cols w.rows operations at the rate of float32, or three times as many at that of bf16 (split).

#include "kernels/cuda/dequantize.cuh"

namespace {

using namespace ebb::kernels::cuda;
using ebb::DType;

constexpr unsigned kTile = 64;      // rows of w, and of x, a block in exact arithmetic, as matmul.cpp has it
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

/// What a thread brings into shared memory: sixteen columns of one row of w or of x. Task idx of 4 kSide: first all of w's.
template <DType kType>
struct Loader {
  const unsigned char* row;
  bool is_weight;
  bool is_inside;
  bool has_vectors;
  unsigned cols;
  unsigned slot;         // of the row in the tile
  unsigned step_column;  // 0 or 16

  template <unsigned kSide>
  __device__ void start(const Arguments& a, unsigned task, unsigned w_first, unsigned x_first) {
    cols = a.cols;
    is_weight = task < 2 * kSide;
    slot = task % kSide;
    step_column = task / kSide % 2 * kNeighbours;
    const unsigned idx = (is_weight ? w_first : x_first) + slot;
    is_inside = idx < (is_weight ? a.w_rows : a.rows);
    has_vectors = cols % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0;
    const std::size_t row_idx = is_inside ? idx : 0;
    row = is_weight ? a.w + row_idx * row_bytes_of<kType>(cols) : reinterpret_cast<const unsigned char*>(a.x + row_idx * cols);
  }

  __device__ void load(unsigned column, float (&out)[kNeighbours]) const {
    const unsigned first = column + step_column;
    if (!is_inside || first >= cols) {
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
__device__ void multiply_exact(const Arguments& a, unsigned w_first, unsigned x_first) {
  constexpr unsigned kEach = 4;
  constexpr unsigned kAcross = kTile / kEach;
  __shared__ float4 tiles[2][kStep][kTile / 4 + 1];  // of w and x, a column after the other
  Loader<kType> loader;
  loader.template start<kTile>(a, threadIdx.x, w_first, x_first);
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
    const unsigned token = x_first + of_x * kEach + t;
    if (token >= a.rows) continue;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned row = w_first + of_w * kEach + i;
      if (row < a.w_rows) a.y[token * a.y_stride + row] = sums[t][i];
    }
  }
}

// Before compute capability 8.0 there is no bf16 in the matrix units: the exact product then serves both.
#if __CUDA_ARCH__ >= 800
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

/// Four matrices of eight rows of eight bf16; lane l names row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&out)[4], const std::uint32_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

__device__ inline void split_pair(float first, float second, std::uint32_t& high, std::uint32_t& low) {
  high = bf16_pair(first, second);
  low = bf16_pair(first - bf16_value(high), second - bf16_value(high >> 16));
}

/// Four columns of a row of x, zeros outside. Neighbouring threads have neighbouring columns.
__device__ inline float4 load_four(const Arguments& a, bool has_vectors, unsigned row, unsigned column) {
  float4 four{0, 0, 0, 0};
  if (row >= a.rows || column >= a.cols) return four;
  const float* const at = a.x + static_cast<std::size_t>(row) * a.cols + column;
  if (has_vectors) return *reinterpret_cast<const float4*>(at);
  four.x = at[0];
  if (column + 1 < a.cols) four.y = at[1];
  if (column + 2 < a.cols) four.z = at[2];
  if (column + 3 < a.cols) four.w = at[3];
  return four;
}

/// Each number as the sum of two bf16, high and low; three of the four products on the matrix units (two where w has no low
/// part). Eight warps: four along w, two along x. The order of a sum is the same for every kSide.
template <DType kType, unsigned kSide>
__device__ void multiply_split(const Arguments& a, unsigned w_first, unsigned x_first) {
  constexpr bool kHasLow = kType != DType::BF16;
  constexpr unsigned kWords = kStep / 2 + 4;  // of a row: the padding puts eight rows into different banks
  constexpr unsigned kFours = kSide * kStep / 4 / kThreads;  // of x, a thread
  constexpr unsigned kSixteens = kSide / 64;  // of rows of w, a warp
  constexpr unsigned kEights = kSide / 16;    // of rows of x, a warp
  __shared__ uint4 space[2][2][kSide][kWords / 4];  // [w, x][high, low][row]
  const auto tiles = reinterpret_cast<std::uint32_t(*)[2][kSide][kWords]>(space);
  const bool has_vectors = a.cols % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0;
  const bool has_weights = threadIdx.x < 2 * kSide;
  const unsigned x_slot = threadIdx.x / 8;
  const unsigned x_column = threadIdx.x % 8 * 4;
  Loader<kType> loader;
  float next[kNeighbours];
  float4 next_x[kFours];
  if (has_weights) {
    loader.template start<kSide>(a, threadIdx.x, w_first, x_first);
    loader.load(0, next);
  }
#pragma unroll
  for (unsigned j = 0; j < kFours; ++j) next_x[j] = load_four(a, has_vectors, x_first + x_slot + j * (kThreads / 8), x_column);
  const unsigned lane = threadIdx.x % 32;
  const unsigned w_row = threadIdx.x / 32 % 4 * (16 * kSixteens);
  const unsigned x_row = threadIdx.x / 128 * (8 * kEights);
  float sums[kSixteens][kEights][4] = {};
  for (unsigned column = 0; column < a.cols; column += kStep) {
    __syncthreads();
    if (has_weights) {
      std::uint32_t high[kNeighbours / 2];
      std::uint32_t low[kNeighbours / 2];
#pragma unroll
      for (unsigned i = 0; i < kNeighbours / 2; ++i) split_pair(next[2 * i], next[2 * i + 1], high[i], low[i]);
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned at = loader.step_column / 8 + i;
        space[0][0][loader.slot][at] = uint4{high[4 * i], high[4 * i + 1], high[4 * i + 2], high[4 * i + 3]};
        if (kHasLow) space[0][1][loader.slot][at] = uint4{low[4 * i], low[4 * i + 1], low[4 * i + 2], low[4 * i + 3]};
      }
    }
#pragma unroll
    for (unsigned j = 0; j < kFours; ++j) {
      uint2 high;
      uint2 low;
      split_pair(next_x[j].x, next_x[j].y, high.x, low.x);
      split_pair(next_x[j].z, next_x[j].w, high.y, low.y);
      *reinterpret_cast<uint2*>(&tiles[1][0][x_slot + j * (kThreads / 8)][x_column / 2]) = high;
      *reinterpret_cast<uint2*>(&tiles[1][1][x_slot + j * (kThreads / 8)][x_column / 2]) = low;
    }
    __syncthreads();
    if (column + kStep < a.cols) {
      if (has_weights) loader.load(column + kStep, next);
#pragma unroll
      for (unsigned j = 0; j < kFours; ++j)
        next_x[j] = load_four(a, has_vectors, x_first + x_slot + j * (kThreads / 8), column + kStep + x_column);
    }
#pragma unroll
    for (unsigned k = 0; k < kStep / 2; k += 8) {
      std::uint32_t w[kSixteens][2][4];
#pragma unroll
      for (unsigned m = 0; m < kSixteens; ++m) {
#pragma unroll
        for (unsigned part = 0; part < (kHasLow ? 2 : 1); ++part)
          load_matrices(w[m][part], &tiles[0][part][w_row + 16 * m + lane % 16][k + lane / 16 * 4]);
      }
#pragma unroll
      for (unsigned n = 0; n < kEights; n += 2) {
        const unsigned row = x_row + 8 * n + lane / 16 * 8 + lane % 8;
        std::uint32_t x[2][4];  // [high, low][first eight's columns 0 and 8, second eight's]
        load_matrices(x[0], &tiles[1][0][row][k + lane / 8 % 2 * 4]);
        load_matrices(x[1], &tiles[1][1][row][k + lane / 8 % 2 * 4]);
#pragma unroll
        for (unsigned m = 0; m < kSixteens; ++m) {
#pragma unroll
          for (unsigned i = 0; i < 2; ++i) {
            multiply_tile(sums[m][n + i], w[m][0], x[1][2 * i], x[1][2 * i + 1]);
            if (kHasLow) multiply_tile(sums[m][n + i], w[m][1], x[0][2 * i], x[0][2 * i + 1]);
            multiply_tile(sums[m][n + i], w[m][0], x[0][2 * i], x[0][2 * i + 1]);
          }
        }
      }
    }
  }
#pragma unroll
  for (unsigned m = 0; m < kSixteens; ++m) {
#pragma unroll
    for (unsigned n = 0; n < kEights; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned token = x_first + x_row + 8 * n + lane % 4 * 2 + i % 2;
        const unsigned row = w_first + w_row + 16 * m + lane / 4 + i / 2 * 8;
        if (token < a.rows && row < a.w_rows) a.y[token * a.y_stride + row] = sums[m][n][i];
      }
    }
  }
}
#endif

template <DType kType, unsigned kSide>
__device__ void multiply_fast(const Arguments& a) {
  const unsigned w_first = blockIdx.y * kSide;
  const unsigned x_first = blockIdx.x * kSide;
#if __CUDA_ARCH__ >= 800
  multiply_split<kType, kSide>(a, w_first, x_first);
#else
  for (unsigned part = 0; part < kSide * kSide / (kTile * kTile); ++part)
    multiply_exact<kType>(a, w_first + part / 2 * kTile, x_first + part % 2 * kTile);
#endif
}

}  // namespace

#define EBB_MATMUL_KERNEL(name, call)                                                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const float* x, unsigned rows, unsigned cols,                      \
                                                              const unsigned char* w, unsigned w_rows, float* y,                 \
                                                              std::size_t y_stride) {                                            \
    const Arguments a{x, rows, cols, w, w_rows, y, y_stride};                                                                    \
    call;                                                                                                                        \
  }
#define EBB_MATMUL(kType)                                                                                                       \
  EBB_MATMUL_KERNEL(matmul_exact_##kType, (multiply_exact<DType::kType>(a, blockIdx.y * kTile, blockIdx.x * kTile)))             \
  EBB_MATMUL_KERNEL(matmul_split_64_##kType, (multiply_fast<DType::kType, 64>(a)))                                               \
  EBB_MATMUL_KERNEL(matmul_split_128_##kType, (multiply_fast<DType::kType, 128>(a)))
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
