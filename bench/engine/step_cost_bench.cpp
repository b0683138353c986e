// What keeping books costs a decode step: the same tokens decoded through a Conversation (locks, room, budgets, looks)
// and straight through the model, one after the other, and the cache's bookkeeping alone.
// The model is the one EBB_MODEL names, else the tiny one of the tests, whose steps are so short that the share is an
// upper bound far from real use.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"

namespace ebb {
namespace {

constexpr std::size_t kStart = 64;    // tokens before the measured ones
constexpr std::size_t kLength = 512;  // then the conversation begins anew

engine::Engine& the_engine() {
  static const std::unique_ptr<engine::Engine> opened = [] {
    engine::EngineOptions options;
    const char* model = std::getenv("EBB_MODEL");
    options.model = model != nullptr ? std::filesystem::path(model) : std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base";
    return engine::Engine::open(options).value();
  }();
  return *opened;
}

void check(const Status& status) { EBB_CHECK(status.has_value(), "{}", status.error().message); }

std::vector<std::int32_t> tokens_of(std::size_t count) {
  std::vector<std::int32_t> tokens(count, 20);
  tokens.front() = 2;
  return tokens;
}

void decode_through_a_conversation(benchmark::State& state) {
  const auto conversation = the_engine().new_conversation().value();
  std::vector<std::int32_t> tokens = tokens_of(kStart);
  benchmark::DoNotOptimize(conversation->sync(tokens, nullptr).value());
  for (auto _ : state) {
    tokens.push_back(20);
    benchmark::DoNotOptimize(conversation->sync(tokens, nullptr).value());
    if (tokens.size() == kLength) {
      state.PauseTiming();
      tokens.resize(kStart);
      conversation->reset();
      benchmark::DoNotOptimize(conversation->sync(tokens, nullptr).value());
      state.ResumeTiming();
    }
  }
}

void decode_through_the_model(benchmark::State& state) {
  engine::Engine::State& engine = the_engine().state();
  const std::lock_guard step(engine.step);
  std::unique_ptr<model::KvCache> cache;
  const auto begin = [&] {
    cache = model::KvCache::create(engine.kv_pools, 999, engine.model->config(), engine.kv_options).value();
    check(engine.model->forward(*cache, tokens_of(kStart), kStart - 1, [](std::size_t, std::span<const float>) {}));
  };
  begin();
  const std::vector<std::int32_t> token = {20};
  for (auto _ : state) {
    check(engine.model->forward(*cache, token, 0,
                                [](std::size_t, std::span<const float> logits) { benchmark::DoNotOptimize(logits.data()); }));
    if (cache->length() == kLength) {
      state.PauseTiming();
      begin();
      state.ResumeTiming();
    }
  }
}

// Room for each token, and nothing else: what the pool and the ledger take out of a step.
void books_of_a_step(benchmark::State& state) {
  engine::Engine::State& engine = the_engine().state();
  const std::lock_guard step(engine.step);
  std::unique_ptr<model::KvCache> cache =
      model::KvCache::create(engine.kv_pools, 998, engine.model->config(), engine.kv_options).value();
  for (auto _ : state) {
    check(cache->reserve(1));
    cache->advance(1);
    if (cache->length() == kLength) {
      state.PauseTiming();
      cache = model::KvCache::create(engine.kv_pools, 998, engine.model->config(), engine.kv_options).value();
      state.ResumeTiming();
    }
  }
}

BENCHMARK(decode_through_a_conversation)->Unit(benchmark::kMicrosecond);
BENCHMARK(decode_through_the_model)->Unit(benchmark::kMicrosecond);
BENCHMARK(books_of_a_step)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ebb
