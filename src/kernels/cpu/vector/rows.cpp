// Norms, rope, geglu and conversions of one row. See internal/f32x16.h for what may be included here.
#include "kernels/internal/f32x16.h"
#include "kernels/internal/vector_table.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {
namespace {

float inverse_rms(double square_sum, float eps, std::size_t cols) {
  return static_cast<float>(1.0 / __builtin_sqrt(square_sum / static_cast<double>(cols) + static_cast<double>(eps)));
}

/// Calls body(first column, columns) for each sixteen columns and for the rest.
template <typename Body>
void for_each_sixteen(std::size_t cols, Body body) {
  for (std::size_t col_idx = 0; col_idx < cols; col_idx += kLanes)
    body(col_idx, cols - col_idx < kLanes ? cols - col_idx : kLanes);
}

double square_sum_of(const float* x, std::size_t cols) {
  SquareSum sum;
  for_each_sixteen(cols, [&](std::size_t at, std::size_t count) { sum.add(load_some(x + at, count)); });
  return sum.total();
}

template <typename T>
void store_row(const float* from, std::size_t count, std::uint16_t* to_bits) {
  for_each_sixteen(count, [&](std::size_t at, std::size_t lanes) {
    store_some(reinterpret_cast<T*>(to_bits) + at, load_some(from + at, lanes), lanes);
  });
}

/// Writes `scale` as a half, largest finite half at most. False: as a half it is zero or no number, and the block is
/// zero or no number with it.
bool store_scale(float scale, std::byte* to) {
  alignas(32) std::uint16_t bits[kLanes];
  store_f16(bits, set1(scale));
  __builtin_memcpy(to, bits, sizeof bits[0]);
  const unsigned magnitude = bits[0] & 0x7fffu;
  return magnitude != 0 && magnitude < 0x7c00u;
}

/// 0 where all values of the block are finite, else NaN.
float not_finite(F32x16 a, F32x16 b) { return reduce_add(a * zero() + b * zero()); }

}  // namespace

void rms_norm_row(const float* x, const float* w, float eps, std::size_t cols, float* y) {
  const F32x16 inverse = set1(inverse_rms(square_sum_of(x, cols), eps, cols));
  for_each_sixteen(cols, [&](std::size_t at, std::size_t count) {
    store_some(y + at, load_some(x + at, count) * inverse * load_some(w + at, count), count);
  });
}

void residual_rms_norm_row(float* x, const float* branch, const float* w_post, const float* w_next, float eps,
                           std::size_t cols, float* y) {
  const F32x16 inverse = set1(inverse_rms(square_sum_of(branch, cols), eps, cols));
  SquareSum sum;
  for_each_sixteen(cols, [&](std::size_t at, std::size_t count) {
    const F32x16 normed = load_some(branch + at, count) * inverse * load_some(w_post + at, count);
    const F32x16 added = load_some(x + at, count) + normed;
    sum.add(added);
    store_some(x + at, added, count);
  });
  const F32x16 inverse_next = set1(inverse_rms(sum.total(), eps, cols));
  for_each_sixteen(cols, [&](std::size_t at, std::size_t count) {
    store_some(y + at, load_some(x + at, count) * inverse_next * load_some(w_next + at, count), count);
  });
}

void norm_rope_head(float* x, const float* w, float eps, const float* table, std::size_t head_dim) {
  const std::size_t half = head_dim / 2;
  const F32x16 inverse = set1(inverse_rms(square_sum_of(x, head_dim), eps, head_dim));
  for_each_sixteen(half, [&](std::size_t at, std::size_t count) {
    const F32x16 cosine = load_some(table + at, count);
    const F32x16 sine = load_some(table + half + at, count);
    const F32x16 a = load_some(x + at, count) * inverse * load_some(w + at, count);
    const F32x16 b = load_some(x + half + at, count) * inverse * load_some(w + half + at, count);
    store_some(x + at, a * cosine - b * sine, count);
    store_some(x + half + at, b * cosine + a * sine, count);
  });
}

// gelu_tanh(z) = z/2 (1 + tanh u) = z / (1 + e^(-2u)) with u = 0.7978845608 (z + 0.044715 z^3).
void geglu(const float* gate, const float* up, std::size_t count, float* y) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLinear = -2.0 * 0.7978845608028654 * kLog2E;
  const F32x16 linear = set1(static_cast<float>(kLinear));
  const F32x16 cubic = set1(static_cast<float>(kLinear * 0.044715));
  for_each_sixteen(count, [&](std::size_t at, std::size_t lanes) {
    const F32x16 z = load_some(gate + at, lanes);
    const F32x16 power = exp2(z * fma(z * z, cubic, linear));
    store_some(y + at, z / (set1(1.0f) + power) * load_some(up + at, lanes), lanes);
  });
}

void store_f16_row(const float* from, std::size_t count, std::uint16_t* to) { store_row<F16>(from, count, to); }
void store_bf16_row(const float* from, std::size_t count, std::uint16_t* to) { store_row<Bf16>(from, count, to); }

// As in the reference quantisers of the formats the inverse is that of the scale before it is rounded to a half.
// Q8_0: scale = largest magnitude / 127, values rounded to nearest, ties to even.
void store_q8_0_row(const float* from, std::size_t count, std::byte* to) {
  for (std::size_t at = 0; at < count; at += 2 * kLanes, to += 34) {
    const F32x16 a = load(from + at);
    const F32x16 b = load(from + at + kLanes);
    const float largest = reduce_max(max(max(a, zero() - a), max(b, zero() - b)));
    const float scale = largest / 127.0f;
    const bool usable = store_scale(scale + not_finite(a, b), to);
    const F32x16 inverse = set1(1.0f / scale);
    store_i8(to + 2, usable ? a * inverse : zero());
    store_i8(to + 2 + kLanes, usable ? b * inverse : zero());
  }
}

// Q4_0: scale = the value of largest magnitude (the first, of several) / -8, values + 8 rounded half up, at most 15.
void store_q4_0_row(const float* from, std::size_t count, std::byte* to) {
  for (std::size_t at = 0; at < count; at += 2 * kLanes, to += 18) {
    const F32x16 a = load(from + at);
    const F32x16 b = load(from + at + kLanes);
    const float highest = reduce_max(max(a, b));
    const float lowest = -reduce_max(max(zero() - a, zero() - b));
    float extreme = highest > -lowest ? highest : lowest;
    if (highest == -lowest) {
      const float* first = from + at;
      while (*first != highest && *first != lowest) ++first;
      extreme = *first;
    }
    const float scale = extreme / -8.0f;
    const bool usable = store_scale(scale + not_finite(a, b), to);
    const F32x16 inverse = set1(1.0f / scale);
    const F32x16 half_up = set1(8.5f);
    store_nibbles(to + 2, usable ? a * inverse + half_up : half_up, usable ? b * inverse + half_up : half_up);
  }
}

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
