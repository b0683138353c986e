#include "kernels/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "kernels/internal/simd.h"
#include "kernels/thread_pool.h"

namespace ebb::bench {
namespace {

using kernels::SimdLevel;
using Clock = std::chrono::steady_clock;

// Ten independent chains (each starts elsewhere, or they would be one): more than two units of latency four need.
// `Vector` has the width of the level's registers.
template <typename Vector>
[[gnu::always_inline]] inline double run_chains(std::size_t rounds) {
  const Vector f = Vector{} + 0.5f;
  Vector a = f, b = f * 2, c = f * 3, d = f * 4, e = f * 5, g = f * 6, h = f * 7, i = f * 8, j = f * 9, k = f * 10;
  for (std::size_t round_idx = 0; round_idx < rounds; ++round_idx) {
    a = a * f + f, b = b * f + f, c = c * f + f, d = d * f + f, e = e * f + f;
    g = g * f + f, h = h * f + f, i = i * f + f, j = j * f + f, k = k * f + f;
  }
  a = a + b + c + d + e + g + h + i + j + k;
  return static_cast<double>(a[0]);
}

using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

double chains_portable(std::size_t rounds) { return run_chains<Vector4>(rounds); }
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] double chains_avx2(std::size_t rounds) { return run_chains<Vector8>(rounds); }
[[gnu::target("avx512f,fma")]] double chains_avx512(std::size_t rounds) { return run_chains<Vector16>(rounds); }
#endif

double measure(int thread_count) {
  std::size_t lanes = 4;
  double (*chains)(std::size_t) = chains_portable;
#if defined(__x86_64__)
  if (kernels::simd_level() == SimdLevel::Avx2) lanes = 8, chains = chains_avx2;
  if (kernels::simd_level() == SimdLevel::Avx512) lanes = 16, chains = chains_avx512;
#endif
  constexpr std::size_t kRounds = 400'000;
  kernels::ThreadPool threads(thread_count);
  double best = 0;
  for (int attempt = 0; attempt < 7; ++attempt) {
    std::atomic<double> keep{0};
    const auto begin = Clock::now();
    threads.parallel_for(static_cast<std::size_t>(thread_count), [&](std::size_t, int) { keep = chains(kRounds); });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    benchmark::DoNotOptimize(keep.load());
    best = std::max(best, 10.0 * static_cast<double>(lanes * kRounds) * thread_count / seconds);
  }
  return best;
}

}  // namespace

double peak_macs_per_second(int thread_count) {
  static std::map<int, double> measured;
  const auto found = measured.find(thread_count);
  return found != measured.end() ? found->second : measured.emplace(thread_count, measure(thread_count)).first->second;
}

}  // namespace ebb::bench
