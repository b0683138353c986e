// Rotary embedding on a card: its table, and the q/k norm with the rotation. Called through kernels/cuda/rope.h.
// The norm and rotation take a warp a head, which holds the head in registers: each number is read once and written once.

#include <cstddef>

namespace {

constexpr unsigned kMaxHalf = 128;
constexpr unsigned kLanes = 32;
constexpr unsigned kPairs = kMaxHalf / kLanes;  // of a lane

struct Frequencies {
  double of[kMaxHalf];  // radians a position
};

/// As kernels/cpu/rope.cpp, with multiply and add fused: quarter turns taken off in three parts, Taylor series to x^13 and x^14.
__device__ void sin_cos(double angle, float& sine, float& cosine) {
  const double turns = rint(angle * 0.63661977236758134308);
  double x = fma(turns, -1.57079632673412561417, angle);
  x = fma(turns, -6.07710050630396597660e-11, x);
  x = fma(turns, -2.02226624879595063154e-21, x);
  const double z = x * x;
  double s = 1.0 / 6227020800;
  s = fma(s, z, -1.0 / 39916800);
  s = fma(s, z, 1.0 / 362880);
  s = fma(s, z, -1.0 / 5040);
  s = fma(s, z, 1.0 / 120);
  s = fma(s, z, -1.0 / 6);
  s = fma(x * z, s, x);
  double c = -1.0 / 87178291200;
  c = fma(c, z, 1.0 / 479001600);
  c = fma(c, z, -1.0 / 3628800);
  c = fma(c, z, 1.0 / 40320);
  c = fma(c, z, -1.0 / 720);
  c = fma(c, z, 1.0 / 24);
  c = fma(c, z, -1.0 / 2);
  c = fma(c, z, 1.0);
  // Quarter turns 0 .. 3: (s, c), (c, -s), (-s, -c), (-c, s).
  const int quarter = static_cast<int>(turns) & 3;
  const double first = (quarter & 1) != 0 ? c : s;
  const double second = (quarter & 1) != 0 ? s : c;
  sine = static_cast<float>((quarter & 2) != 0 ? -first : first);
  cosine = static_cast<float>(((quarter + 1) & 2) != 0 ? -second : second);
}

}  // namespace

/// A block's threads: x over half a head, y over rows.
extern "C" __global__ void rope_table(const __grid_constant__ Frequencies frequencies, unsigned first_pos, unsigned rows,
                                      unsigned half, float* table) {
  const unsigned e = threadIdx.x;
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  if (e >= half || row >= rows) return;
  float* const cosines = table + static_cast<std::size_t>(row) * 2 * half;
  sin_cos(static_cast<double>(first_pos + row) * frequencies.of[e], cosines[half + e], cosines[e]);
}

/// A warp a head; a grid over rows * heads.
extern "C" __global__ void norm_rope(float* x, std::size_t x_stride, const float* w, float eps, const float* table,
                                     std::size_t count, unsigned heads, unsigned half) {
  const std::size_t idx = static_cast<std::size_t>(blockIdx.x) * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  if (idx >= count) return;
  const unsigned lane = threadIdx.x % kLanes;
  const std::size_t row = idx / heads;
  float* const head = x + row * x_stride + idx % heads * (2 * half);
  const float* const turn = table + row * (2 * half);
  float a[kPairs];
  float b[kPairs];
#pragma unroll
  for (unsigned i = 0; i < kPairs; ++i) {
    const unsigned e = lane + i * kLanes;
    a[i] = e < half ? head[e] : 0.0f;
    b[i] = e < half ? head[half + e] : 0.0f;
  }
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kPairs; ++i) sum = fmaf(b[i], b[i], fmaf(a[i], a[i], sum));
#pragma unroll
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(2 * half) + eps);
#pragma unroll
  for (unsigned i = 0; i < kPairs; ++i) {
    const unsigned e = lane + i * kLanes;
    if (e >= half) continue;
    const float normed_a = a[i] * scale * w[e];
    const float normed_b = b[i] * scale * w[half + e];
    head[e] = fmaf(normed_a, turn[e], -(normed_b * turn[half + e]));
    head[half + e] = fmaf(normed_b, turn[e], normed_a * turn[half + e]);
  }
}
