// The gated activation over the widths of the 270M and the 12B.
#include "kernels/geglu.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/peak.h"

namespace ebb::bench {
namespace {

// Arguments: rows, columns, threads.
void bench_geglu(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cols = static_cast<std::size_t>(state.range(1));
  kernels::ThreadPool threads(static_cast<int>(state.range(2)));
  const std::vector<float> gate(rows * cols, 0.7f);
  const std::vector<float> up(rows * cols, 1.3f);
  std::vector<float> y(rows * cols);
  for (auto _ : state) {
    kernels::geglu(threads, gate.data(), up.data(), rows, cols, y.data());
    benchmark::ClobberMemory();
  }
  report_bytes(state, 3.0 * sizeof(float) * static_cast<double>(rows * cols));
}
BENCHMARK(bench_geglu)
    ->ArgNames({"rows", "cols", "threads"})
    ->Args({1, 2048, 2})
    ->Args({512, 2048, 1})
    ->Args({512, 2048, 2})
    ->Args({1, 15360, 2})
    ->Args({512, 15360, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb::bench
