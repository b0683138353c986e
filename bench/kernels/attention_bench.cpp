// Attention of the 270M (1 kv head, group of 4, window 512) and of the 12B (8 kv heads, group of 2, window 1024), and of
// one token at 1k, 8k and 32k keys by the types of keys and values.
#include "kernels/attention.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "kernels/peak.h"

namespace ebb::bench {
namespace {

using kernels::AttentionShape;
using kernels::KvType;
using kernels::KvView;
using kernels::ThreadPool;

struct Model {
  std::size_t q_heads;
  std::size_t kv_heads;
};
constexpr Model kModels[] = {{4, 1}, {16, 8}};
constexpr std::size_t kHeadDim = 256;

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

/// Multiply-adds of scores and values over the keys that are visible.
double attention_macs(const AttentionShape& shape) {
  double keys = 0;
  for (std::size_t pos = shape.first_pos; pos < shape.first_pos + shape.rows; ++pos)
    keys += static_cast<double>(shape.window == 0 ? pos + 1 : std::min(pos + 1, shape.window));
  return 2.0 * keys * static_cast<double>(shape.q_heads * shape.head_dim);
}

void attend(benchmark::State& state, const Model& model, AttentionShape shape, kernels::KvTypes types, int thread_count) {
  shape.q_heads = model.q_heads;
  shape.kv_heads = model.kv_heads;
  shape.head_dim = kHeadDim;
  shape.scale = 0.0625f;
  ThreadPool threads(thread_count);
  const std::size_t positions = shape.first_pos + shape.rows;
  const std::size_t width = shape.kv_heads * kHeadDim;
  const std::vector<float> q = random_floats(shape.rows * shape.q_heads * kHeadDim);
  const std::vector<float> kv = random_floats(positions * width);
  std::vector<std::byte> k(positions * shape.kv_heads * kernels::kv_row_bytes(types.k, kHeadDim));
  std::vector<std::byte> v(positions * shape.kv_heads * kernels::kv_row_bytes(types.v, kHeadDim));
  KvView view;
  view.k = k.data();
  view.v = v.data();
  view.types = types;
  view.slots = positions;
  view.run_tokens = positions;
  view.k_head_stride_bytes = positions * kernels::kv_row_bytes(types.k, kHeadDim);
  view.v_head_stride_bytes = positions * kernels::kv_row_bytes(types.v, kHeadDim);
  kernels::kv_store(threads, kv.data(), kv.data(), width, 0, positions, shape.kv_heads, kHeadDim, view);
  std::vector<float> out(q.size());
  std::vector<std::byte> bytes(kernels::attention_workspace_bytes(thread_count, shape.rows, shape.q_heads, kHeadDim) +
                               64);
  void* workspace = bytes.data();
  std::size_t space = bytes.size();
  std::align(64, bytes.size() - 64, workspace, space);
  for (auto _ : state) {
    kernels::attention(threads, shape, q.data(), shape.q_heads * kHeadDim, view, view, out.data(),
                       static_cast<std::byte*>(workspace));
    benchmark::ClobberMemory();
  }
  report_macs(state, attention_macs(shape), thread_count);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(shape.rows));
}

// Arguments: model, first position, rows, window, threads.
void bench_attention(benchmark::State& state) {
  AttentionShape shape;
  shape.first_pos = static_cast<std::size_t>(state.range(1));
  shape.rows = static_cast<std::size_t>(state.range(2));
  shape.window = static_cast<std::size_t>(state.range(3));
  attend(state, kModels[state.range(0)], shape, {KvType::F16, KvType::F16}, static_cast<int>(state.range(4)));
}

// One token. Arguments: model, keys, type of K, type of V (0 f32, 1 f16, 2 bf16, 3 q8_0, 4 q4_0).
void bench_attention_types(benchmark::State& state) {
  AttentionShape shape;
  shape.first_pos = static_cast<std::size_t>(state.range(1)) - 1;
  shape.rows = 1;
  attend(state, kModels[state.range(0)], shape,
         {static_cast<KvType>(state.range(2)), static_cast<KvType>(state.range(3))}, 1);
}

BENCHMARK(bench_attention)
    ->ArgNames({"model", "pos", "rows", "window", "threads"})
    ->Args({0, 0, 512, 512, 1})
    ->Args({0, 0, 512, 512, 2})
    ->Args({0, 1536, 512, 512, 1})
    ->Args({0, 1536, 512, 0, 1})
    ->Args({0, 1536, 512, 0, 2})
    ->Args({0, 600, 1, 512, 1})
    ->Args({0, 600, 1, 512, 2})
    ->Args({0, 32000, 1, 0, 1})
    ->Args({0, 32000, 1, 0, 2})
    ->Args({1, 0, 512, 1024, 2})
    ->Args({1, 4096, 1, 0, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(bench_attention_types)
    ->ArgNames({"model", "keys", "k", "v"})
    ->ArgsProduct({{0, 1}, {1024, 8192, 32768}, {0}, {0}})
    ->ArgsProduct({{0, 1}, {1024, 8192, 32768}, {1}, {1, 3}})
    ->ArgsProduct({{0, 1}, {1024, 8192, 32768}, {2}, {2}})
    ->ArgsProduct({{0, 1}, {1024, 8192, 32768}, {3}, {1, 3, 4}})
    ->ArgsProduct({{0, 1}, {1024, 8192, 32768}, {4}, {4}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb::bench
