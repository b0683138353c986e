// Rope, the gated activation and the embedding on a card, each beside its floor: the bytes it must move over what a copy on the
// same card moves in the same run (a copy of n bytes reads and writes them, so it stands for 2 n). Times are the card's own.
// Needs a card and GPU code; says so elsewhere.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "kernels/cuda/embed_rows.h"
#include "kernels/cuda/geglu.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda_bench.h"
#include "kernels/rope.h"

namespace {

using namespace ebb;
using namespace ebb::bench;

constexpr device::Stream kStream = device::Stream::Compute;

float* array(const Card& opened, std::size_t idx) { return reinterpret_cast<float*>(opened.arena + idx * (kArenaBytes / 4)); }

/// Times `launch`, which moves `bytes`, beside a copy that moves as many.
template <typename Launch>
void beside_copy(benchmark::State& state, Card& opened, std::size_t bytes, Launch launch) {
  if (bytes / 2 > kArenaBytes / 4) return state.SkipWithError("the arrays overlap");
  for (auto _ : state) {
    const double us = median_us(*opened.device, [&] { return launch().has_value(); });
    const double copy_us = median_us(*opened.device, [&] {
      return opened.device->copy(kStream, array(opened, 3), array(opened, 0), bytes / 2).has_value();
    });
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["copy_us"] = copy_us;
    state.counters["GB_per_s"] = static_cast<double>(bytes) / us / 1000;
    state.counters["percent_of_copy"] = copy_us / us * 100;
  }
}

void cuda_geglu(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cols = static_cast<std::size_t>(state.range(1));
  auto geglu = kernels::cuda::Geglu::find(*opened->code);
  if (!geglu) return state.SkipWithError(geglu.error().message.c_str());
  beside_copy(state, *opened, 3 * rows * cols * sizeof(float),
              [&] { return geglu->run(kStream, array(*opened, 0), array(*opened, 1), rows, cols, array(*opened, 2)); });
}

/// Heads and columns between rows as q, k and v stand side by side.
void cuda_norm_rope(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  constexpr std::size_t kHeadDim = 256;
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto heads = static_cast<std::size_t>(state.range(1));
  const auto stride = static_cast<std::size_t>(state.range(2));
  auto rope = kernels::cuda::Rope::find(*opened->code);
  if (!rope) return state.SkipWithError(rope.error().message.c_str());
  beside_copy(state, *opened, (2 * heads + 1) * rows * kHeadDim * sizeof(float), [&] {
    return rope->norm_rope(kStream, array(*opened, 0), stride, array(*opened, 1), 1e-6f, array(*opened, 2), rows, heads, kHeadDim);
  });
}

/// Beside it: the same table by the host and copied over.
void cuda_rope_table(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  constexpr std::size_t kHeadDim = 256;
  const auto rows = static_cast<std::size_t>(state.range(0));
  auto rope = kernels::cuda::Rope::find(*opened->code);
  if (!rope) return state.SkipWithError(rope.error().message.c_str());
  std::vector<float> table(rows * kHeadDim);
  for (auto _ : state) {
    const double us = median_us(
        *opened->device, [&] { return rope->fill_table(kStream, 4096, rows, kHeadDim, 1e6, 8, array(*opened, 0)).has_value(); });
    const double copy_us = median_us(*opened->device, [&] {
      return opened->device->copy(kStream, array(*opened, 0), table.data(), rows * kHeadDim * sizeof(float)).has_value();
    });
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) kernels::rope_table(4096, rows, kHeadDim, 1e6, 8, table.data());
    const std::chrono::duration<double, std::micro> host = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["host_us"] = host.count() / kRounds;
    state.counters["host_copy_us"] = copy_us;
  }
}

/// Tokens spread over the table.
void cuda_embed_rows(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto dtype = static_cast<DType>(state.range(0));
  const auto tokens = static_cast<std::size_t>(state.range(1));
  const auto cols = static_cast<std::size_t>(state.range(2));
  const TensorView table{opened->arena, dtype, 200'000 * row_bytes(DType::Q8_0, cols) / row_bytes(dtype, cols) / 4, cols};
  auto embed = kernels::cuda::EmbedRows::find(*opened->code);
  if (!embed) return state.SkipWithError(embed.error().message.c_str());
  std::vector<std::int32_t> ids(tokens);
  for (std::size_t t = 0; t < tokens; ++t) ids[t] = static_cast<std::int32_t>((t * 7919 + 13) % table.rows);
  auto* const at = reinterpret_cast<std::int32_t*>(array(*opened, 1));
  if (!opened->device->copy(kStream, at, ids.data(), ids.size() * sizeof(ids[0]))) return state.SkipWithError("copy");
  state.SetLabel(std::string(dtype_info(dtype).name));
  beside_copy(state, *opened, tokens * (row_bytes(dtype, cols) + cols * sizeof(float)),
              [&] { return embed->run(kStream, table, at, tokens, 62.0f, array(*opened, 2)); });
}

constexpr auto kTypes = [] {
  return std::vector<std::int64_t>{static_cast<int>(DType::BF16), static_cast<int>(DType::Q4_0), static_cast<int>(DType::Q8_0),
                                   static_cast<int>(DType::Q4_K), static_cast<int>(DType::Q6_K)};
};

void once(benchmark::internal::Benchmark* benchmark) { benchmark->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond); }

BENCHMARK(cuda_geglu)->ArgNames({"rows", "cols"})->ArgsProduct({{1, 64, 512, 2048, 8192}, {2048, 15360}})->Apply(once);
// The 270M and the 12B: queries, then keys.
BENCHMARK(cuda_norm_rope)
    ->ArgNames({"rows", "heads", "stride"})
    ->ArgsProduct({{1, 64, 512, 8192}, {4, 1}, {1536}})
    ->ArgsProduct({{1, 64, 512, 8192}, {16, 8}, {8192}})
    ->Apply(once);
BENCHMARK(cuda_rope_table)->ArgName("rows")->Arg(1)->Arg(64)->Arg(512)->Arg(2048)->Apply(once);
BENCHMARK(cuda_embed_rows)
    ->ArgNames({"type", "tokens", "cols"})
    ->ArgsProduct({kTypes(), {1, 512, 8192}, {3840}})
    ->Apply(once);

}  // namespace
