// How long a plan takes: 27B's shape on 8 devices, where all fits, where the context is to be found, and where nothing
// fits and every remedy is tried. The bound is 50 ms.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "engine/internal/planner.h"

namespace {

using namespace ebb;

constexpr std::size_t kLayers = 62;
constexpr std::size_t kRunTokens = 32;
constexpr std::size_t kKvBytes = 8 * kKiB;  // of one layer and token, 16 bits
constexpr std::size_t kWindow = 1024;

engine::KvChoice kv_choice(std::size_t bytes) {
  engine::KvChoice choice;
  choice.flags = "-ctk x -ctv x";
  choice.kv = [bytes](std::span<const std::size_t> layers, std::size_t tokens, std::size_t page) {
    const auto globals =
        static_cast<std::size_t>(std::ranges::count_if(layers, [](std::size_t layer_idx) { return (layer_idx + 1) % 6 == 0; }));
    const std::size_t runs = div_up(tokens, kRunTokens) * kRunTokens;
    const std::size_t locals = layers.size() - globals;
    return engine::KvBytes{round_up(globals * runs * bytes, page), round_up(locals * std::min(runs, kWindow) * bytes, page),
                           round_up(locals * std::min(runs, kWindow) * bytes, page)};
  };
  choice.scratch = [](std::size_t rows, bool has_output, device::Kind /*kind*/) { return rows * 400 * kKiB + (has_output ? kMiB : 0); };
  return choice;
}

// Q4_K_M-like: layers of two sizes.
engine::PlacementRequest request_27b(std::size_t devices, std::size_t bytes) {
  engine::PlacementRequest request;
  for (std::size_t layer_idx = 0; layer_idx < kLayers; ++layer_idx) {
    request.layers.push_back({{(layer_idx % 3 == 0 ? 262 : 232) * kMiB, 96 * kKiB}, (layer_idx + 1) % 6 == 0});
  }
  request.output = {1103 * kMiB, 64 * kKiB};
  request.embedding_bytes = request.output.on_device;
  request.host_page_bytes = 64 * kKiB;
  for (const std::size_t each : {kKvBytes, kKvBytes * 34 / 64, kKvBytes * 18 / 64}) request.kv_choices.push_back(kv_choice(each));
  for (std::size_t idx = 0; idx < devices; ++idx) {
    request.devices.push_back(
        {.name = "fake", .total_bytes = bytes, .free_bytes = bytes, .limit_bytes = bytes, .page_bytes = 2 * kMiB});
  }
  return request;
}

void run(benchmark::State& state, const engine::PlacementRequest& request, std::size_t tokens) {
  engine::PlanWish wish;
  wish.tokens = tokens;
  wish.trained_tokens = 131072;
  for (auto _ : state) benchmark::DoNotOptimize(engine::make_plan(request, wish));
}

void plan_27b_on_8_all_fits(benchmark::State& state) { run(state, request_27b(8, 8 * kGiB), 32768); }
void plan_27b_on_8_context_is_found(benchmark::State& state) { run(state, request_27b(8, 3 * kGiB), 0); }
void plan_27b_on_8_layers_to_the_host(benchmark::State& state) { run(state, request_27b(8, 2 * kGiB), 32768); }
void plan_27b_on_8_hardly_fits(benchmark::State& state) { run(state, request_27b(8, 2400 * kMiB), 8192); }
void plan_27b_on_8_nothing_fits(benchmark::State& state) {
  engine::PlacementRequest request = request_27b(8, kGiB);
  request.all_on_devices = true;
  run(state, request, 131072);
}

BENCHMARK(plan_27b_on_8_all_fits)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_27b_on_8_context_is_found)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_27b_on_8_layers_to_the_host)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_27b_on_8_hardly_fits)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_27b_on_8_nothing_fits)->Unit(benchmark::kMillisecond);

}  // namespace
