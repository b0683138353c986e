// Products of many rows on a card beside their floor, the longer of two times: the weights' bytes at the speed of a copy in the same
// run, and 2 rows cols w.rows operations at the card's rate. Rates of an H200: float32 66.9 TFLOP/s (132 x 128 fused
// multiply-adds at 1.98 GHz), bf16 790 TFLOP/s (measured on a product of 8192^3), of which the split product needs three times
// the operations, or twice with BF16 weights. Times are the card's own. Needs a card and GPU code; says so elsewhere.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda_bench.h"

namespace {

using namespace ebb;
using namespace ebb::bench;

constexpr double kFloat32PerUs = 66.9e6;
constexpr double kBf16PerUs = 790e6;

void cuda_matmul(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto arithmetic = static_cast<kernels::Arithmetic>(state.range(0));
  const auto dtype = static_cast<DType>(state.range(1));
  const auto rows = static_cast<std::size_t>(state.range(2));
  const auto cols = static_cast<std::size_t>(state.range(3));
  const auto w_rows = static_cast<std::size_t>(state.range(4));
  auto matmul = kernels::cuda::Matmul::find(*opened->code);
  if (!matmul) return state.SkipWithError(matmul.error().message.c_str());
  const auto at = [&](std::size_t quarter) { return opened->arena + quarter * (kArenaBytes / 4); };
  const kernels::MatmulProduct product{{at(1), dtype, w_rows, cols}, reinterpret_cast<float*>(at(2)), w_rows};
  state.SetLabel((arithmetic == kernels::Arithmetic::Exact ? "exact " : "split ") + std::string(dtype_info(dtype).name));
  for (auto _ : state) {
    const double us = median_us(*opened->device, [&] {
      return matmul->run(device::Stream::Compute, arithmetic, reinterpret_cast<const float*>(at(0)), rows, cols, std::span(&product, 1))
          .has_value();
    });
    const double copy_us = median_us(*opened->device, [&] {
      return opened->device->copy(device::Stream::Compute, at(3), at(1), product.w.bytes() / 2).has_value();
    });
    const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(w_rows);
    const double arithmetic_us = arithmetic == kernels::Arithmetic::Exact ? operations / kFloat32PerUs
                                                                          : (dtype == DType::BF16 ? 2 : 3) * operations / kBf16PerUs;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["weights_us"] = copy_us;
    state.counters["arithmetic_us"] = arithmetic_us;
    state.counters["TFLOP_per_s"] = operations / us / 1e6;
    state.counters["percent_of_floor"] = std::max(copy_us, arithmetic_us) / us * 100;
  }
}

constexpr std::int64_t kBf16 = static_cast<int>(DType::BF16);
constexpr std::int64_t kQ80 = static_cast<int>(DType::Q8_0);
constexpr std::int64_t kQ4K = static_cast<int>(DType::Q4_K);
constexpr std::int64_t kQ6K = static_cast<int>(DType::Q6_K);

// The 12B's gate, down and query matrices, the 270M's gate.
BENCHMARK(cuda_matmul)
    ->ArgNames({"arithmetic", "type", "rows", "cols", "w_rows"})
    ->ArgsProduct({{0, 1}, {kBf16, kQ80, kQ4K, kQ6K}, {16, 64, 512, 2048}, {3840}, {15360}})
    ->ArgsProduct({{0, 1}, {kQ4K}, {16, 64, 512}, {15360}, {3840}})
    ->ArgsProduct({{0, 1}, {kQ4K}, {64, 512}, {3840}, {4096}})
    ->ArgsProduct({{0, 1}, {kQ80}, {64, 512}, {640}, {2048}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
