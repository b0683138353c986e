// RMSNorm on a card: a block a row. The row stays in registers between its sum and its result, so that each number is read
// once and written once; the floor is those bytes. Called through kernels/cuda/rms_norm.h, which picks the kernel by width.
// Sums are float32: per thread in order, then over lanes and warps as a tree.

#include <cstddef>

namespace {

constexpr int kThreads = 256;  // ebb::kernels::cuda::kRmsNormThreads
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;

/// The sum over the block, the same bits on every thread.
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
  for (int i = 0; i < kVectors; ++i) {
    sum = fmaf(held[i].x, held[i].x, sum);
    sum = fmaf(held[i].y, held[i].y, sum);
    sum = fmaf(held[i].z, held[i].z, sum);
    sum = fmaf(held[i].w, held[i].w, sum);
  }
  const float scale = inverse_root(block_sum(sum), cols, eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned at = threadIdx.x + i * kThreads;
    if (at >= vectors) continue;
    const float4 weight = w[at];
    y[first + at] = float4{held[i].x * scale * weight.x, held[i].y * scale * weight.y, held[i].z * scale * weight.z,
                           held[i].w * scale * weight.w};
  }
}

}  // namespace

#define EBB_RMS_NORM(kVectors)                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                                \
      rms_norm_##kVectors(const float4* x, const float4* w, float eps, unsigned cols, float4* y) {                      \
    norm_vectors<kVectors>(x, w, eps, cols, y);                                                                         \
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
  const float scale = inverse_root(block_sum(sum), cols, eps);
  for (unsigned at = threadIdx.x; at < cols; at += kThreads) y[first + at] = x[first + at] * scale * w[at];
}
