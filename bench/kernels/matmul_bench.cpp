// The products of Gemma 3 270M and a wide one of 4B: what one token costs in memory (GB/s) and many tokens in
// arithmetic (GMAC/s). The peak_* cases measure what one core of this machine could do at most.
#include "kernels/matmul.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernels/internal/simd.h"

namespace ebb::kernels {
namespace {

struct Shape {
  const char* name;
  DType dtype;
  std::size_t rows;
  std::size_t cols;
};

constexpr Shape kShapes[] = {
    {"head_q8_0", DType::Q8_0, 262144, 640},   {"gate_up_q5_0", DType::Q5_0, 4096, 640},
    {"qkv_q5_0", DType::Q5_0, 1536, 640},      {"attn_out_q4_k", DType::Q4_K, 640, 1024},
    {"down_q4_k", DType::Q4_K, 640, 2048},     {"down_q6_k", DType::Q6_K, 640, 2048},
    {"gate_up_q4_0", DType::Q4_0, 4096, 2560}, {"gate_up_f16", DType::F16, 4096, 640},
};

/// Copies of one matrix in a row, enough to leave the caches when a benchmark walks over them as a model's layers do.
struct Weights {
  std::vector<std::byte> bytes;
  std::vector<TensorView> layers;
};

Weights random_weights(const Shape& shape, std::size_t total_bytes) {
  std::mt19937_64 random(1);
  const DTypeInfo& info = dtype_info(shape.dtype);
  const std::size_t one = shape.rows * row_bytes(shape.dtype, shape.cols);
  Weights out;
  out.bytes.resize(std::max<std::size_t>(1, total_bytes / one) * one);
  for (std::size_t at = 0; at + 8 <= out.bytes.size(); at += 8) {
    const std::uint64_t value = random();
    std::memcpy(out.bytes.data() + at, &value, 8);
  }
  const std::uint16_t scale = float_to_f16(0.01F);
  const std::size_t scale_at = shape.dtype == DType::Q6_K ? 208 : 0;
  for (std::size_t at = 0; at < out.bytes.size(); at += info.block_bytes) {
    std::memcpy(out.bytes.data() + at + scale_at, &scale, 2);
    if (shape.dtype == DType::Q4_K) std::memcpy(out.bytes.data() + at + 2, &scale, 2);
  }
  for (std::size_t at = 0; at < out.bytes.size(); at += one) {
    out.layers.push_back({out.bytes.data() + at, shape.dtype, shape.rows, shape.cols});
  }
  return out;
}

void bench_matmul(benchmark::State& state, const Shape& shape, Arithmetic arithmetic, std::size_t tokens,
                  int thread_count) {
  ThreadPool threads(thread_count);
  const Weights weights = random_weights(shape, tokens == 1 ? std::size_t{160} << 20 : std::size_t{4} << 20);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(tokens * shape.cols);
  for (float& value : x) value = normal(random);
  std::vector<std::byte> y_space(tokens * shape.rows * sizeof(float) + 64);
  std::vector<std::byte> input_space(matmul_input_bytes(arithmetic, tokens, shape.cols) + 64);
  std::vector<std::byte> space(matmul_workspace_bytes(thread_count, shape.cols) + 64);
  const auto aligned = [](std::vector<std::byte>& bytes) {
    return bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
  };
  auto* y = reinterpret_cast<float*>(aligned(y_space));
  const MatmulInput input =
      prepare_matmul_input(threads, arithmetic, x.data(), tokens, shape.cols, aligned(input_space));
  std::size_t layer_idx = 0;
  for (auto _ : state) {
    const MatmulProduct product{weights.layers[layer_idx], y, shape.rows};
    matmul(threads, input, {&product, 1}, aligned(space));
    layer_idx = (layer_idx + 1) % weights.layers.size();
  }
  using benchmark::Counter;
  const double rounds = static_cast<double>(state.iterations());
  state.counters["GB/s"] = Counter(rounds * 1e-9 * static_cast<double>(weights.layers[0].bytes()), Counter::kIsRate);
  state.counters["GMAC/s"] =
      Counter(rounds * 1e-9 * static_cast<double>(tokens * shape.rows * shape.cols), Counter::kIsRate);
}

void peak_read(benchmark::State& state) {
  const std::vector<std::uint64_t> words(std::size_t{20} << 20, 1);  // 160 MiB
  for (auto _ : state) {
    std::uint64_t sums[8] = {};
    for (std::size_t i = 0; i < words.size(); i += 8) {
      __builtin_prefetch(words.data() + i + 2048, 0, 2);  // 16 KiB ahead, past the page
      for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] ^= words[i + lane];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 8e-9 * static_cast<double>(words.size()), benchmark::Counter::kIsRate);
}
BENCHMARK(peak_read)->UseRealTime();

#if defined(__x86_64__)
/// Twenty-four sums that wait for nobody, as the tile of the AVX-512 level has them.
[[gnu::target("avx512f,avx512vnni")]] void peak_dot_avx512(benchmark::State& state) {
  if (best_simd_level() < SimdLevel::Avx512) {
    state.SkipWithError("needs AVX-512 VNNI");
    return;
  }
  constexpr int kRounds = 1000;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      __asm__ volatile(
          ".irp sum, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t"
          "vpdpwssd %%zmm30, %%zmm31, %%zmm\\sum\n\t"
          ".endr" ::
              : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",
                "xmm23");
    }
  }
  state.counters["GMAC/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * 1e-9 * kRounds * 24 * 32,
                                                benchmark::Counter::kIsRate);
}
BENCHMARK(peak_dot_avx512)->UseRealTime();
#endif

const bool kRegistered = [] {
  for (const Shape& shape : kShapes) {
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{8}, std::size_t{512}}) {
      if (shape.rows > 100000 && tokens > 1) continue;  // a model asks for the head of one row at a time
      for (const int thread_count : {1, 2}) {
        for (const Arithmetic arithmetic : {Arithmetic::Quantized, Arithmetic::Exact}) {
          const std::string name = std::string(shape.name) +
                                   (arithmetic == Arithmetic::Exact ? "/exact" : "/quantized") +
                                   "/tokens:" + std::to_string(tokens) + "/threads:" + std::to_string(thread_count);
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            bench_matmul(state, shape, arithmetic, tokens, thread_count);
          })->UseRealTime();
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace ebb::kernels
