// The gated activation on a card, z up / (1 + e^-2t), which is z/2 (1 + tanh t) up. Called through kernels/cuda/geglu.h.
// Each number is read once and written once; the floor is those bytes.

#include <cstddef>

namespace {

__device__ float gated(float gate, float up) {
  constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  const float twice = kTwiceRoot * (gate * fmaf(0.044715f * gate, gate, 1.0f));
  return gate / (1.0f + expf(-twice)) * up;
}

}  // namespace

extern "C" __global__ void geglu_vectors(const float4* gate, const float4* up, std::size_t vectors, float4* y) {
  const std::size_t at = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= vectors) return;
  const float4 g = gate[at];
  const float4 u = up[at];
  y[at] = float4{gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w)};
}

/// Any count and alignment.
extern "C" __global__ void geglu_any(const float* gate, const float* up, std::size_t count, float* y) {
  const std::size_t at = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count) y[at] = gated(gate[at], up[at]);
}
