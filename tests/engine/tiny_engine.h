// The tiny model (window 16) on pretended devices with small pages, for tests of what the engine does with memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/fake/fake_device.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"
#include "support/must.h"

namespace ebb::tests {

inline constexpr std::size_t kTinyPage = 4096;

inline engine::EngineOptions tiny_options(const std::string& devices) {
  engine::EngineOptions options;
  options.model = std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base";
  options.devices = devices;
  if (devices.starts_with("fake")) options.fake_page_bytes = kTinyPage;
  options.threads = 1;
  return options;
}

/// Nothing acts by itself: no thread, no level, no yielding.
inline engine::MemoryOptions hands_off() {
  engine::MemoryOptions policy;
  policy.auto_gc = false;
  policy.after_generation = false;
  policy.full_every_turns = 0;
  policy.yield_to_others = false;
  return policy;
}

inline std::vector<std::int32_t> prompt_of(std::size_t count, std::int32_t seed = 0) {
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < count) ids.push_back(14 + (seed + static_cast<std::int32_t>(ids.size()) * 37) % 250);
  return ids;
}

inline engine::GenerateOptions greedy(std::int64_t tokens) {
  engine::GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = tokens;
  options.ignore_end = true;
  options.log_probs = 1;
  return options;
}

inline void expect_equal(const engine::Answer& left, const engine::Answer& right) {
  EXPECT_EQ(left.tokens, right.tokens);
  ASSERT_EQ(left.log_probs.size(), right.log_probs.size());
  for (std::size_t idx = 0; idx < left.log_probs.size(); ++idx) {
    EXPECT_EQ(left.log_probs[idx].chosen.log_prob, right.log_probs[idx].chosen.log_prob) << "to the last digit, token " << idx;
  }
}

/// What an engine of its own answers, with all the memory it wants.
inline engine::Answer cold_run(std::span<const std::int32_t> prompt, std::int64_t tokens) {
  const auto engine = must(engine::Engine::open(tiny_options("cpu")));
  return must(must(engine->new_conversation())->generate(prompt, greedy(tokens), nullptr, nullptr));
}

inline device::FakeDevice& fake(engine::Engine& engine, std::size_t device_idx = 0) {
  return dynamic_cast<device::FakeDevice&>(engine.state().pools->device(device_idx));
}

/// The fake's own count, which a test believes.
inline std::size_t used(engine::Engine& engine, std::size_t device_idx = 0) {
  return fake(engine, device_idx).status().ours_bytes;
}

/// What the keeper does when it looks `later` than now.
inline void look_later(engine::Engine& engine, std::chrono::seconds later) {
  const std::lock_guard step(engine.state().step);
  engine.state().keeper->look(std::chrono::steady_clock::now() + later);
}

inline std::size_t kind_bytes(const engine::KindBytes& kinds, std::string_view name) {
  for (const auto& [kind, bytes] : kinds) {
    if (kind == name) return bytes;
  }
  return 0;
}

}  // namespace ebb::tests
