// The second launch of attention: what attention.cu left of each segment becomes a query's result. Reads each partial
// sum once; called through attention.h.

#include "kernels/cuda/internal/oldest_key.cuh"
#include "kernels/cuda/kv_place.h"

namespace {

using namespace ebb::kernels::cuda;

constexpr unsigned kAll = 0xffffffffu;

}  // namespace

/// A query's segments, added up: in 32 sums by segment mod 32, each in order, then those in order. A block has up to 64
/// columns. Grid: q_heads, rows, blocks of columns.
extern "C" __global__ void __launch_bounds__(kMergeThreads)
    attention_merge(const __grid_constant__ AttentionCall call) {
  constexpr unsigned kVectors = kMergeColumns / 4;
  constexpr unsigned kSums = kMergeThreads / kVectors;
  __shared__ float warp_largest[kMergeThreads / 32];
  __shared__ float4 values[kSums][kVectors];
  __shared__ float weights[kSums];
  const unsigned pos = call.first_pos + blockIdx.y;
  const unsigned first = oldest_key(call, pos) / kKvSegment;
  const unsigned last = pos / kKvSegment;
  const unsigned long long row = static_cast<unsigned long long>(blockIdx.y) * call.q_heads + blockIdx.x;
  const float2* const partial_sums = static_cast<const float2*>(call.partial_sums) + row * call.segments;
  const float* const partial_values = call.partial_values + row * call.segments * call.head_dim;

  float largest = -__int_as_float(0x7f800000);
  for (unsigned segment = first + threadIdx.x; segment <= last; segment += kMergeThreads)
    largest = fmaxf(largest, partial_sums[segment - call.first_segment].x);
  for (int distance = 16; distance > 0; distance /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, distance));
  if (threadIdx.x % 32 == 0) warp_largest[threadIdx.x / 32] = largest;
  __syncthreads();
  largest = warp_largest[threadIdx.x % (kMergeThreads / 32)];
  for (int distance = 8; distance > 0; distance /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, distance));

  const unsigned vector = threadIdx.x % kVectors;
  const unsigned own = threadIdx.x / kVectors;
  const unsigned column = blockIdx.z * kMergeColumns + vector * 4;
  const bool has_columns = column < call.head_dim;
  float4 sum = {0, 0, 0, 0};
  float weight_sum = 0;
#pragma unroll 4
  for (unsigned segment = first + (own + kSums - first % kSums) % kSums; segment <= last; segment += kSums) {
    const unsigned at = segment - call.first_segment;
    const float2 of_segment = partial_sums[at];
    const float* const from = partial_values + static_cast<unsigned long long>(at) * call.head_dim + column;
    const float4 value = has_columns ? *reinterpret_cast<const float4*>(from) : float4{0, 0, 0, 0};
    const float weight = exp2f(__fsub_rn(of_segment.x, largest));
    sum.x = fmaf(weight, value.x, sum.x);
    sum.y = fmaf(weight, value.y, sum.y);
    sum.z = fmaf(weight, value.z, sum.z);
    sum.w = fmaf(weight, value.w, sum.w);
    weight_sum = fmaf(weight, of_segment.y, weight_sum);
  }
  values[own][vector] = sum;
  if (vector == 0) weights[own] = weight_sum;
  __syncthreads();
  if (own != 0 || !has_columns) return;
  float total = weights[0];
#pragma unroll
  for (unsigned i = 1; i < kSums; ++i) {
    const float4 other = values[i][vector];
    sum = float4{sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
    total += weights[i];
  }
  // + 0: a zero may have either sign before, by which keys were left out.
  *reinterpret_cast<float4*>(call.out + row * call.head_dim + column) =
      float4{__fadd_rn(sum.x / total, 0.0f), __fadd_rn(sum.y / total, 0.0f), __fadd_rn(sum.z / total, 0.0f),
             __fadd_rn(sum.w / total, 0.0f)};
}
