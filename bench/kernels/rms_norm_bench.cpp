// Norms over the hidden sizes of the 270M and the 12B, and the fused norm and rope of their queries.
#include "kernels/rms_norm.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/peak.h"
#include "kernels/rope.h"

namespace ebb::bench {
namespace {

using kernels::ThreadPool;

// Arguments: rows, columns, threads.
void bench_residual_rms_norm(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cols = static_cast<std::size_t>(state.range(1));
  ThreadPool threads(static_cast<int>(state.range(2)));
  std::vector<float> x(rows * cols, 1.0f);
  std::vector<float> y(rows * cols);
  const std::vector<float> branch(rows * cols, 0.5f);
  const std::vector<float> w(cols, 1e-6f);
  for (auto _ : state) {
    kernels::residual_rms_norm(threads, x.data(), branch.data(), w.data(), w.data(), 1e-6f, rows, cols, y.data());
    benchmark::ClobberMemory();
  }
  report_bytes(state, 4.0 * sizeof(float) * static_cast<double>(rows * cols));  // x both ways, branch, y
}
BENCHMARK(bench_residual_rms_norm)
    ->ArgNames({"rows", "cols", "threads"})
    ->Args({1, 640, 2})
    ->Args({512, 640, 1})
    ->Args({512, 640, 2})
    ->Args({1, 3840, 2})
    ->Args({512, 3840, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// Arguments: rows, heads, threads; head_dim 256.
void bench_norm_rope(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto heads = static_cast<std::size_t>(state.range(1));
  constexpr std::size_t kHeadDim = 256;
  ThreadPool threads(static_cast<int>(state.range(2)));
  std::vector<float> x(rows * heads * kHeadDim, 1.0f);
  std::vector<float> table(rows * kHeadDim);
  const std::vector<float> w(kHeadDim, 1.0f);
  kernels::rope_table(0, rows, kHeadDim, 1e4, 1, table.data());
  for (auto _ : state) {
    kernels::norm_rope(threads, x.data(), heads * kHeadDim, w.data(), 1e-6f, table.data(), rows, heads, kHeadDim);
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2.0 * sizeof(float) * static_cast<double>(x.size()));
}
BENCHMARK(bench_norm_rope)
    ->ArgNames({"rows", "heads", "threads"})
    ->Args({1, 4, 2})
    ->Args({512, 4, 1})
    ->Args({512, 4, 2})
    ->Args({512, 16, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// Arguments: rows.
void bench_rope_table(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  std::vector<float> table(rows * 256);
  for (auto _ : state) {
    kernels::rope_table(100'000, rows, 256, 1e6, 8, table.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(rows * 128) * state.iterations());
}
BENCHMARK(bench_rope_table)->ArgName("rows")->Arg(1)->Arg(512)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb::bench
