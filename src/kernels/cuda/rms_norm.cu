// RMSNorm on a card, alone and with the residual before it: a block a row. The row stays in registers between its sum and its
// result, so that each number is read once and written once; the floor is those bytes. Called through kernels/cuda/rms_norm.h, which picks the kernel by width.
// Sums are float32: per thread in order, then over lanes and warps as a tree.

#include <cstddef>

namespace {

constexpr int kThreads = 256;  // ebb::kernels::cuda::kRmsNormThreads
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;

/// The sum over the block, the same bits on every thread. kCall tells the calls of one kernel apart: each has memory of its own,
/// so none waits until all have read the last sums.
template <int kCall>
__device__ float block_sum(float value) {
  __shared__ float warp_sums[kWarps];
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x % kLanes == 0) warp_sums[threadIdx.x / kLanes] = value;
  __syncthreads();
  value = warp_sums[threadIdx.x % kWarps];
  for (int distance = kWarps / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__device__ float inverse_root(float sum, unsigned cols, float eps) {
  return 1.0f / sqrtf(sum / static_cast<float>(cols) + eps);
}

__device__ float add_squares(float4 value, float sum) {
  sum = fmaf(value.x, value.x, sum);
  sum = fmaf(value.y, value.y, sum);
  sum = fmaf(value.z, value.z, sum);
  return fmaf(value.w, value.w, sum);
}

__device__ float4 scaled(float4 value, float scale, float4 weight) {
  return float4{value.x * scale * weight.x, value.y * scale * weight.y, value.z * scale * weight.z, value.w * scale * weight.w};
}

/// Rows of whole vectors of four, at most kVectors of them a thread.
template <int kVectors>
__device__ void norm_vectors(const float4* x, const float4* w, float eps, unsigned cols, float4* y) {
  const unsigned vectors = cols / 4;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * vectors;
  float4 held[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    held[i] = at < vectors ? x[first + at] : float4{0, 0, 0, 0};
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) sum = add_squares(held[i], sum);
  const float scale = inverse_root(block_sum<0>(sum), cols, eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    if (at < vectors) y[first + at] = scaled(held[i], scale, w[at]);
  }
}

template <int kVectors>
__device__ void residual_norm_vectors(float4* x, const float4* branch, const float4* w_post, const float4* w_next, float eps,
                                      unsigned cols, float4* y) {
  const unsigned vectors = cols / 4;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * vectors;
  float4 added[kVectors];
  float4 held[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    added[i] = at < vectors ? branch[first + at] : float4{0, 0, 0, 0};
    held[i] = at < vectors ? x[first + at] : float4{0, 0, 0, 0};
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) sum = add_squares(added[i], sum);
  const float post_scale = inverse_root(block_sum<0>(sum), cols, eps);
  sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    if (at >= vectors) continue;
    const float4 normed = scaled(added[i], post_scale, w_post[at]);
    held[i] = float4{held[i].x + normed.x, held[i].y + normed.y, held[i].z + normed.z, held[i].w + normed.w};
    x[first + at] = held[i];
    sum = add_squares(held[i], sum);
  }
  const float next_scale = inverse_root(block_sum<1>(sum), cols, eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    if (at < vectors) y[first + at] = scaled(held[i], next_scale, w_next[at]);
  }
}

}  // namespace

#define EBB_RMS_NORM(kVectors)                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                                \
      rms_norm_##kVectors(const float4* x, const float4* w, float eps, unsigned cols, float4* y) {                      \
    norm_vectors<kVectors>(x, w, eps, cols, y);                                                                         \
  }                                                                                                                     \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                                \
      residual_rms_norm_##kVectors(float4* x, const float4* branch, const float4* w_post, const float4* w_next,         \
                                   float eps, unsigned cols, float4* y) {                                               \
    residual_norm_vectors<kVectors>(x, branch, w_post, w_next, eps, cols, y);                                           \
  }
EBB_RMS_NORM(1)
EBB_RMS_NORM(2)
EBB_RMS_NORM(4)
EBB_RMS_NORM(8)

/// Any width and alignment; reads the row twice.
extern "C" __global__ void __launch_bounds__(kThreads)
    rms_norm_any(const float* x, const float* w, float eps, unsigned cols, float* y) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * cols;
  float sum = 0;
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) sum = fmaf(x[first + at], x[first + at], sum);
  const float scale = inverse_root(block_sum<0>(sum), cols, eps);
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) y[first + at] = x[first + at] * scale * w[at];
}

/// Any width and alignment.
extern "C" __global__ void __launch_bounds__(kThreads)
    residual_rms_norm_any(float* x, const float* branch, const float* w_post, const float* w_next, float eps, unsigned cols,
                          float* y) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * cols;
  float sum = 0;
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) sum = fmaf(branch[first + at], branch[first + at], sum);
  const float post_scale = inverse_root(block_sum<0>(sum), cols, eps);
  sum = 0;
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) {
    const float value = x[first + at] + branch[first + at] * post_scale * w_post[at];
    x[first + at] = value;
    sum = fmaf(value, value, sum);
  }
  const float next_scale = inverse_root(block_sum<1>(sum), cols, eps);
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) y[first + at] = x[first + at] * next_scale * w_next[at];
}
