// Which instruction set the kernels use: chosen once a process, from what the processor offers and what EBB_SIMD
// allows. One source is compiled once a level (see CMakeLists.txt); callers ask simd_level() and pick that level's
// functions.
#pragma once

#include <cstdint>

namespace ebb::kernels {

/// In rising order. Portable  what the compiler's baseline has.
///                  Avx2      AVX2, FMA, F16C (Haswell, Zen and later).
///                  Avx512    F, BW, DQ, VL and VNNI (Cascade Lake, Ice Lake, Zen 4 and later).
enum class SimdLevel : std::uint8_t { Portable, Avx2, Avx512 };

/// The best level of this processor.
[[nodiscard]] SimdLevel best_simd_level();

/// The level in use: the best, or the lower one that the environment variable EBB_SIMD (portable, avx2, avx512) names.
/// Any other value of it changes nothing.
[[nodiscard]] SimdLevel simd_level();

[[nodiscard]] const char* simd_level_name(SimdLevel level);

/// For tests and benchmarks, which compare levels: from now on simd_level() is `level`, which must not be above the
/// best. Not to be called while a kernel runs.
void set_simd_level(SimdLevel level);

}  // namespace ebb::kernels
