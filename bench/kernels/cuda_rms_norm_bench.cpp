// RMSNorm on a card beside its floor: the bytes it must move (each number read once and written once) over what a copy on the
// same card moves in the same run. Times are the card's own (events). Needs a card and GPU code; says so elsewhere.
#include <benchmark/benchmark.h>

#include <cstddef>

#include "base/bytes.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda_bench.h"

namespace {

using namespace ebb;
using namespace ebb::bench;

/// range(2): 0 the norm alone, 1 with the residual before it, which moves twice the bytes.
void cuda_rms_norm(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cols = static_cast<std::size_t>(state.range(1));
  const bool with_residual = state.range(2) != 0;
  const std::size_t bytes = rows * cols * sizeof(float);
  const auto array = [&](std::size_t idx) { return reinterpret_cast<float*>(opened->arena + idx * (kArenaBytes / 4)); };
  const float* const w = array(1) - kMiB / sizeof(float);
  if (bytes > kArenaBytes / 4 - kMiB) return state.SkipWithError("the arrays overlap");
  auto norm = kernels::cuda::RmsNorm::find(*opened->code);
  if (!norm) return state.SkipWithError(norm.error().message.c_str());
  for (auto _ : state) {
    const double norm_us = median_us(*opened->device, [&] {
      return (with_residual
                  ? norm->run_residual(device::Stream::Compute, array(0), array(1), w, w, 1e-6f, rows, cols, array(2))
                  : norm->run(device::Stream::Compute, array(0), w, 1e-6f, rows, cols, array(2)))
          .has_value();
    });
    const double copy_us = median_us(*opened->device, [&] {
      for (std::size_t i = 0; i <= static_cast<std::size_t>(with_residual); ++i) {
        if (!opened->device->copy(device::Stream::Compute, array(2 + i), array(i), bytes)) return false;
      }
      return true;
    });
    state.SetIterationTime(norm_us * 1e-6);
    state.counters["norm_us"] = norm_us;
    state.counters["copy_us"] = copy_us;
    state.counters["GB_per_s"] = (with_residual ? 4.0 : 2.0) * static_cast<double>(bytes) / norm_us / 1000;
    state.counters["percent_of_copy"] = copy_us / norm_us * 100;
  }
}
BENCHMARK(cuda_rms_norm)
    ->ArgNames({"rows", "cols", "residual"})
    ->ArgsProduct({{1, 64, 2048, 32768}, {640, 1152, 2560, 3840, 5376}, {0, 1}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
