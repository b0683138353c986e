// The embedding on a card: a block a token, a thread sixteen columns. Called through kernels/cuda/embed_rows.h. The floor is
// the bytes: a packed row read, a float32 row written.

#include "kernels/cuda/dequantize.cuh"

namespace {

using ebb::DType;

template <DType kType>
__device__ void embed(const unsigned char* table, unsigned table_rows, unsigned cols, const int* ids, float scale, float* out) {
  using namespace ebb::kernels::cuda;
  const int id = ids[blockIdx.x];
  const bool is_row = id >= 0 && static_cast<unsigned>(id) < table_rows;
  const unsigned char* row = table + static_cast<std::size_t>(is_row ? id : 0) * row_bytes_of<kType>(cols);
  float* const to = out + static_cast<std::size_t>(blockIdx.x) * cols;
  const bool has_vectors = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  for (unsigned first = threadIdx.x * kNeighbours; first < cols; first += blockDim.x * kNeighbours) {
    float values[kNeighbours];
    dequantize_neighbours<kType>(row, first, cols, values);
#pragma unroll
    for (float& value : values) value = is_row ? value * scale : __uint_as_float(0x7fc00000u);
    if (has_vectors && first + kNeighbours <= cols) {
#pragma unroll
      for (unsigned i = 0; i < kNeighbours; i += 4)
        *reinterpret_cast<float4*>(to + first + i) = float4{values[i], values[i + 1], values[i + 2], values[i + 3]};
    } else {
#pragma unroll
      for (unsigned i = 0; i < kNeighbours; ++i) {
        if (first + i < cols) to[first + i] = values[i];
      }
    }
  }
}

}  // namespace

#define EBB_EMBED_ROWS(kType)                                                                                            \
  extern "C" __global__ void embed_rows_##kType(const unsigned char* table, unsigned table_rows, unsigned cols,          \
                                                const int* ids, float scale, float* out) {                               \
    embed<DType::kType>(table, table_rows, cols, ids, scale, out);                                                       \
  }
EBB_EMBED_ROWS(F32)
EBB_EMBED_ROWS(F16)
EBB_EMBED_ROWS(BF16)
EBB_EMBED_ROWS(Q4_0)
EBB_EMBED_ROWS(Q4_1)
EBB_EMBED_ROWS(Q5_0)
EBB_EMBED_ROWS(Q5_1)
EBB_EMBED_ROWS(Q8_0)
EBB_EMBED_ROWS(Q2_K)
EBB_EMBED_ROWS(Q3_K)
EBB_EMBED_ROWS(Q4_K)
EBB_EMBED_ROWS(Q5_K)
EBB_EMBED_ROWS(Q6_K)
EBB_EMBED_ROWS(IQ4_NL)
EBB_EMBED_ROWS(IQ4_XS)
