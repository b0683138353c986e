// Sixteen floats, the unit the float kernels are written in: one register with AVX-512, two with AVX2, an array
// elsewhere. Because every level works on sixteen lanes and reduces them in one tree, AVX2 and AVX-512 give the same
// bits; the portable level differs by its separately rounded multiply and add. Included by cpu/vector/ alone, once a
// level: EBB_SIMD_LEVEL names the level and its namespace. What it includes must hold no inline function that other
// files use too: the linker would keep one copy, perhaps the one with AVX-512 in it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__)
#include "kernels/internal/f32x16_avx512.h"
#elif defined(__AVX2__)
#include "kernels/internal/f32x16_avx2.h"
#else
#include "kernels/internal/f32x16_portable.h"
#endif

namespace ebb::kernels::EBB_SIMD_LEVEL {

constexpr std::size_t kLanes = 16;

struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

inline F32x16 load(const F16* from) { return load_f16(&from->bits); }
inline F32x16 load(const Bf16* from) { return load_bf16(&from->bits); }
inline void store(F16* to, F32x16 value) { store_f16(&to->bits, value); }
inline void store(Bf16* to, F32x16 value) { store_bf16(&to->bits, value); }

/// The first `count` of sixteen lanes; the others are zero.
template <typename T>
F32x16 load_some(const T* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  alignas(64) T lanes[kLanes] = {};
  for (std::size_t lane_idx = 0; lane_idx < count; ++lane_idx) lanes[lane_idx] = from[lane_idx];
  return load(lanes);
}

template <typename T>
void store_some(T* to, F32x16 value, std::size_t count) {
  if (count >= kLanes) return store(to, value);
  alignas(64) T lanes[kLanes];
  store(lanes, value);
  for (std::size_t lane_idx = 0; lane_idx < count; ++lane_idx) to[lane_idx] = lanes[lane_idx];
}

/// 2^t to about one ulp; 0 below 2^-125.5 (no denormals), infinity from 2^128 on; NaN stays NaN; exp2(0) is 1 exactly.
/// The polynomial is the minimax one of degree 6 for the relative error on [-1/2, 1/2] with constant term 1 (4e-9).
inline F32x16 exp2(F32x16 t) {
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: its last mantissa bit counts ones
  t = min_or_nan(set1(128.0f), t);
  const F32x16 shifted = t + set1(kRoundToInteger);
  const F32x16 fraction = t - (shifted - set1(kRoundToInteger));
  F32x16 power = set1(1.546973198e-4f);
  power = fma(power, fraction, set1(1.341000097e-3f));
  power = fma(power, fraction, set1(9.618030783e-3f));
  power = fma(power, fraction, set1(5.550297314e-2f));
  power = fma(power, fraction, set1(2.402265108e-1f));
  power = fma(power, fraction, set1(6.931472254e-1f));
  power = fma(power, fraction, set1(1.0f));
  return zero_where_less(t, set1(-125.5f), add_to_exponent(power, shifted));
}

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
