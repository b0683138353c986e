// Rows of keys and values on a card: rounded to their type and written (the same bytes as the CPU's kv_store), or
// copied from one layout to another. A block a few rows of a head, K and V apart; a thread an element, so that a warp
// is a block of Q8_0 or Q4_0. Called through kernels/cuda/kv_rows.h.

#include "kernels/cuda/kv_place.h"

namespace {

using namespace ebb::kernels::cuda;

__device__ char* row_at(char* base, const KvPlace& place, unsigned long long head_stride, unsigned head, unsigned pos,
                        unsigned row_bytes) {
  const unsigned slot = pos % place.slots;
  return base + slot / place.run_tokens * place.run_stride + head * head_stride +
         static_cast<unsigned long long>(slot % place.run_tokens) * row_bytes;
}

/// Nearest, ties to even; at most the largest finite half; NaN is 0x7e00 and its sign.
__device__ unsigned short half_bits(float value) {
  if (value != value) return static_cast<unsigned short>((__float_as_uint(value) >> 16 & 0x8000u) | 0x7e00u);
  value = fminf(fmaxf(value, -65504.0f), 65504.0f);
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ unsigned short bfloat_bits(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return static_cast<unsigned short>((bits >> 16) | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ float largest_magnitude(float value) {
  value = fabsf(value);
  for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

/// Writes the scale of a block. False: it is 0 or NaN as a half, and the values are written as 0.
__device__ bool store_scale(float scale, bool finite, char* to) {
  unsigned short bits = half_bits(scale == 0 ? 0.0f : scale);  // the CPU's zero is positive too
  if (!finite) bits = 0x7e00;
  if (threadIdx.x % 32 == 0) *reinterpret_cast<unsigned short*>(to) = bits;
  const unsigned magnitude = bits & 0x7fffu;
  return magnitude != 0 && magnitude < 0x7c00u;
}

/// All 32 lanes have a value of the block.
__device__ void store_q8(float value, char* to) {
  const unsigned lane = threadIdx.x % 32;
  const bool finite = __all_sync(~0u, isfinite(value));
  const float scale = largest_magnitude(value) / 127.0f;
  const bool usable = store_scale(scale, finite, to);
  to[2 + lane] = usable ? static_cast<char>(__float2int_rn(__fmul_rn(value, 1.0f / scale))) : 0;
}

__device__ void store_q4(float value, char* to) {
  const unsigned lane = threadIdx.x % 32;
  const bool finite = __all_sync(~0u, isfinite(value));
  const float largest = largest_magnitude(value);
  const unsigned first = __ffs(static_cast<int>(__ballot_sync(~0u, fabsf(value) == largest)));
  const float extreme = __shfl_sync(~0u, value, first == 0 ? 0 : first - 1);
  const float scale = extreme / -8.0f;
  const bool usable = store_scale(scale, finite, to);
  const float steps = usable ? fminf(__fadd_rn(__fmul_rn(value, 1.0f / scale), 8.5f), 15.0f) : 8.0f;
  const unsigned low = static_cast<unsigned>(__float2int_rz(steps));
  const unsigned high = __shfl_down_sync(~0u, low, 16);
  if (lane < 16) to[2 + lane] = static_cast<char>(low | high << 4);
}

}  // namespace

/// Grid: fours of rows, heads, 2 (K, then V); a block has head_dim threads, rounded up to a warp.
extern "C" __global__ void __launch_bounds__(256)
    kv_store(KvPlace to, const float* k, const float* v, unsigned long long stride, unsigned first_pos,
             unsigned first_row, unsigned end_row, unsigned head_dim, unsigned k_kind, unsigned v_kind,
             unsigned k_row_bytes, unsigned v_row_bytes) {
  const bool is_v = blockIdx.z != 0;
  const unsigned kind = is_v ? v_kind : k_kind;
  const unsigned at = threadIdx.x;
  if (at >= head_dim) return;  // whole warps, where the type has blocks
  const float* const from = (is_v ? v : k) + static_cast<unsigned long long>(blockIdx.y) * head_dim + at;
  const unsigned first = first_row + blockIdx.x * kKvStoreRows;
  float values[kKvStoreRows];
#pragma unroll
  for (unsigned i = 0; i < kKvStoreRows; ++i) values[i] = first + i < end_row ? from[(first + i) * stride] : 0.0f;
#pragma unroll
  for (unsigned i = 0; i < kKvStoreRows; ++i) {
    if (first + i >= end_row) return;
    char* const row_to = row_at(is_v ? to.v : to.k, to, is_v ? to.v_head_stride : to.k_head_stride, blockIdx.y,
                                first_pos + first + i, is_v ? v_row_bytes : k_row_bytes);
    if (kind == kKindF32) reinterpret_cast<float*>(row_to)[at] = values[i];
    if (kind == kKindF16) reinterpret_cast<unsigned short*>(row_to)[at] = half_bits(values[i]);
    if (kind == kKindBf16) reinterpret_cast<unsigned short*>(row_to)[at] = bfloat_bits(values[i]);
    if (kind == kKindQ8) store_q8(values[i], row_to + at / 32 * 34);
    if (kind == kKindQ4) store_q4(values[i], row_to + at / 32 * 18);
  }
}

/// Grid: positions, heads, 2 (K, then V). unit: bytes that every address and row is a multiple of, 16 or 2.
extern "C" __global__ void __launch_bounds__(64)
    kv_copy_rows(KvPlace from, KvPlace to, unsigned from_pos, unsigned to_pos, unsigned k_row_bytes,
                 unsigned v_row_bytes, unsigned unit) {
  const bool is_v = blockIdx.z != 0;
  const unsigned row_bytes = is_v ? v_row_bytes : k_row_bytes;
  const char* const source = row_at(is_v ? from.v : from.k, from, is_v ? from.v_head_stride : from.k_head_stride,
                                    blockIdx.y, from_pos + blockIdx.x, row_bytes);
  char* const target = row_at(is_v ? to.v : to.k, to, is_v ? to.v_head_stride : to.k_head_stride, blockIdx.y,
                              to_pos + blockIdx.x, row_bytes);
  for (unsigned at = threadIdx.x * unit; at < row_bytes; at += blockDim.x * unit) {
    if (unit == 16)
      *reinterpret_cast<uint4*>(target + at) = *reinterpret_cast<const uint4*>(source + at);
    else
      *reinterpret_cast<unsigned short*>(target + at) = *reinterpret_cast<const unsigned short*>(source + at);
  }
}
