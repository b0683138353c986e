#include "kernels/internal/simd.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace ebb::kernels {
namespace {

constexpr SimdLevel kLevels[] = {SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512};

SimdLevel allowed_simd_level() {
  const char* wanted = std::getenv("EBB_SIMD");
  if (wanted != nullptr) {
    for (SimdLevel level : kLevels)
      if (std::string_view(wanted) == simd_level_name(level)) return std::min(level, best_simd_level());
  }
  return best_simd_level();
}

std::atomic<SimdLevel>& level_in_use() {
  static std::atomic<SimdLevel> level{allowed_simd_level()};
  return level;
}

}  // namespace

SimdLevel best_simd_level() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return SimdLevel::Portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  return avx512 ? SimdLevel::Avx512 : SimdLevel::Avx2;
#else
  return SimdLevel::Portable;
#endif
}

SimdLevel simd_level() { return level_in_use().load(std::memory_order_relaxed); }

const char* simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::Portable:
      return "portable";
    case SimdLevel::Avx2:
      return "avx2";
    case SimdLevel::Avx512:
      return "avx512";
  }
  return "portable";
}

void set_simd_level(SimdLevel level) {
  EBB_CHECK(level <= best_simd_level(), "level {} of a processor with {}", simd_level_name(level),
            simd_level_name(best_simd_level()));
  level_in_use().store(level, std::memory_order_relaxed);
}

}  // namespace ebb::kernels
