// Budgets, refusals and yielding, by the fake device's own count.
//
// B5 (class): the limit holds at load, in prefill, in decode, with several chats, after parks and returns, given as bytes,
// as a share and per device, with late releases, and for the host. Whatever takes memory takes it from a pool, and a pool
// asks the ledger before the device; so the cases below cover each moment at which a pool grows (load, scratch, KV,
// return) and each way the limit is written or moves (user's, other programs').
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "engine/tiny_engine.h"

namespace ebb::tests {
namespace {

using engine::Answer;
using engine::Engine;
using engine::EngineOptions;

/// Small steps, so that scratch is small beside the KV of one chat of 1,024 tokens.
EngineOptions one_chat() {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  options.context_tokens = 1024;
  options.chunk_tokens = 32;
  return options;
}

/// A limit that holds exactly what is planned for one chat.
EngineOptions limited_to_one_chat() {
  EngineOptions options = one_chat();
  const auto engine = must(Engine::open(options));
  options.memory.memory_limit = {{.bytes = engine->plan().devices.front().planned_bytes, .share = std::nullopt}};
  return options;
}

std::size_t peak(Engine& engine) { return fake(engine).status().ours_peak_bytes; }

// B5: two chats in turns, and one inside the other's answer, so that neither can be parked.
TEST(MemoryLimit, HoldsAtEveryInstant) {
  EngineOptions options = limited_to_one_chat();
  options.gpu_layers = "all";
  const std::size_t limit = options.memory.memory_limit.front().bytes;
  const auto engine = must(Engine::open(options));
  const auto first = must(engine->new_conversation());
  const auto second = must(engine->new_conversation());
  std::size_t refused = 0;
  for (const std::size_t length : {20, 200, 1000, 700, 60}) {
    for (const auto* conversation : {&first, &second}) {
      const Answer answer = must((*conversation)->generate(prompt_of(length), greedy(3), nullptr, nullptr));
      expect_equal(answer, cold_run(prompt_of(length), 3));
      ASSERT_LE(peak(*engine), limit);
    }
    const auto inside = [&](const engine::TokenEvent&) {
      const auto answer = second->generate(prompt_of(900, 4), greedy(2), nullptr, nullptr);
      refused += answer || answer.error().code != ErrorCode::OutOfMemory ? 0 : 1;
      return true;
    };
    expect_equal(must(first->generate(prompt_of(length + 3), greedy(2), inside, nullptr)), cold_run(prompt_of(length + 3), 2));
    second->reset();
    ASSERT_LE(peak(*engine), limit);
  }
  EXPECT_GT(refused, 0U) << "the limit was never reached, so nothing was tested";
}

// B5: as a share of the card, and with bytes that come back late.
TEST(MemoryLimit, HoldsAsAShareAndWithLateReleases) {
  EngineOptions options = one_chat();
  options.context_tokens = 4000;
  options.memory.memory_limit = {{.bytes = 0, .share = 0.03125}};
  const auto engine = must(Engine::open(options));
  fake(*engine).apply({.release_ms = std::chrono::milliseconds(3)});
  const auto conversation = must(engine->new_conversation());
  for (int turn = 0; turn < 8; ++turn) {
    static_cast<void>(conversation->generate(prompt_of(turn % 2 == 0 ? 2500 : 50), greedy(2), nullptr, nullptr));
    conversation->reset();
    ASSERT_LE(peak(*engine), std::size_t{2} << 20);
  }
}

TEST(MemoryLimit, RefusesWhatItCannotMean) {
  EngineOptions options = one_chat();
  options.memory.memory_limit = {{.bytes = 1, .share = std::nullopt}};
  EXPECT_EQ(Engine::open(options).error().code, ErrorCode::InvalidArgument);
  options.memory.memory_limit = {{std::size_t{1} << 30, std::nullopt}, {std::size_t{1} << 30, std::nullopt}};
  EXPECT_EQ(Engine::open(options).error().code, ErrorCode::InvalidArgument);
}

Result<std::unique_ptr<Engine>> open_on_a_taken_card(const EngineOptions& options) {
  // Others hold the card; the first page that is asked for fails, and not for memory.
  EXPECT_EQ(setenv("EBB_FAKE", R"({"others_bytes": "63.9MiB", "fail": {"call": "map", "nth": 1}})", 1), 0);
  auto engine = Engine::open(options);
  EXPECT_EQ(unsetenv("EBB_FAKE"), 0);
  return engine;
}

// B4: a load that cannot fit fails before anything is mapped, with needed, free and what to change; with all layers wanted
// on the card, and with as many as fit, where the host is full too. Decision 0014.
TEST(Load, ThatCannotFitMapsNothing) {
  EngineOptions options = tiny_options("fake:64MiB");
  options.gpu_layers = "all";
  EngineOptions any = tiny_options("fake:64MiB");
  any.memory.host_limit_bytes = kTinyPage;
  for (const EngineOptions& wish : {options, any}) {
    const auto engine = open_on_a_taken_card(wish);
    ASSERT_FALSE(engine.has_value());
    EXPECT_EQ(engine.error().code, ErrorCode::OutOfMemory) << engine.error().message;
    ASSERT_TRUE(engine.error().memory.has_value());
    EXPECT_GT(engine.error().memory->wanted_bytes, engine.error().memory->free_bytes);
    EXPECT_FALSE(engine.error().memory->remedies.empty());
  }
}

// D5: layers that go to the host instead are announced.
TEST(Load, OnATakenCardSaysWhatRunsOnTheHost) {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  const auto engine = must(open_on_a_taken_card(options));
  EXPECT_EQ(fake(*engine).status().live_mappings, 0U);
  const std::vector<std::string> warnings = engine->take_warnings();
  EXPECT_TRUE(std::ranges::any_of(warnings, [](const std::string& text) { return text.find("CPU") != std::string::npos; }));
  expect_equal(must(must(engine->new_conversation())->generate(prompt_of(40), greedy(3), nullptr, nullptr)),
               cold_run(prompt_of(40), 3));
}

// B6, B10: the request that does not fit fails with facts and remedies; the next one works, the floor is equal.
TEST(Refusal, FailsOneRequestAndTeaches) {
  EngineOptions options = limited_to_one_chat();
  options.gpu_layers = "all";
  const auto engine = must(Engine::open(options));
  const auto first = must(engine->new_conversation());
  const auto second = must(engine->new_conversation());
  const Answer before = must(second->generate(prompt_of(20), greedy(3), nullptr, nullptr));
  second->reset();
  const std::size_t floor = used(*engine);

  Result<Answer> refused = Answer{};
  must(first->generate(prompt_of(600), greedy(1),
                       [&](const engine::TokenEvent&) {
                         refused = second->generate(prompt_of(900), greedy(3), nullptr, nullptr);
                         return true;
                       },
                       nullptr));
  ASSERT_FALSE(refused.has_value());
  const Error& error = refused.error();
  EXPECT_EQ(error.code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(error.memory.has_value());
  EXPECT_GT(error.memory->wanted_bytes, 0U);
  EXPECT_FALSE(error.memory->tag.empty());
  EXPECT_FALSE(error.memory->owners.empty());
  EXPECT_FALSE(error.memory->tried.empty());
  EXPECT_TRUE(error.memory->later) << "it fits once the other answer has ended";
  EXPECT_EQ(error.memory->remedies.size(), 2U);
  for (const std::string& remedy : error.memory->remedies) EXPECT_NE(error.message.find(remedy), std::string::npos);

  first->reset();
  second->reset();
  EXPECT_EQ(used(*engine), floor);
  expect_equal(must(second->generate(prompt_of(20), greedy(3), nullptr, nullptr)), before);
}

// The order of spec/memory 8.9: pool, scratch, records, idle chats, layers.
TEST(Pressure, ParksIdleChatsBeforeItMovesLayers) {
  const auto engine = must(Engine::open(limited_to_one_chat()));
  const std::size_t weights = used(*engine);
  const auto old = must(engine->new_conversation());
  const auto young = must(engine->new_conversation());
  must(old->generate(prompt_of(400), greedy(2), nullptr, nullptr));
  must(young->generate(prompt_of(1000, 2), greedy(2), nullptr, nullptr));
  EXPECT_EQ(kind_bytes(engine->memory().devices.front().kinds, "weights"), weights) << "no layer left while a chat was idle";
  EXPECT_EQ(engine->memory().conversations.front().state, engine::ConversationState::Parked);
  EXPECT_GT(kind_bytes(engine->memory().host.kinds, "parked"), 0U);
  const Answer back = must(old->generate(prompt_of(420), greedy(4), nullptr, nullptr));
  EXPECT_EQ(back.usage.cached_tokens, 400U);
  expect_equal(back, cold_run(prompt_of(420), 4));
}

// With an answer that cannot be parked, layers go; the answers stay what they are.
TEST(Pressure, MovesLayersWhereNothingElseIsLeft) {
  const auto engine = must(Engine::open(limited_to_one_chat()));
  const std::size_t weights = used(*engine);
  const auto first = must(engine->new_conversation());
  const auto second = must(engine->new_conversation());
  Result<Answer> inner = Answer{};
  const Answer outer = must(first->generate(prompt_of(600), greedy(3),
                                            [&](const engine::TokenEvent&) {
                                              inner = second->generate(prompt_of(900), greedy(3), nullptr, nullptr);
                                              return true;
                                            },
                                            nullptr));
  EXPECT_LT(kind_bytes(engine->memory().devices.front().kinds, "weights"), weights);
  expect_equal(outer, cold_run(prompt_of(600), 3));
  expect_equal(must(std::move(inner)), cold_run(prompt_of(900), 3));
}

// M17: the host's limit holds; a chat that finds no room there is forgotten and evaluated again.
TEST(HostLimit, HoldsWhileChatsAreParked) {
  EngineOptions options = limited_to_one_chat();
  options.memory.host_limit_bytes = must(Engine::open(options))->plan().host_planned_bytes + (std::size_t{256} << 10);
  const auto engine = must(Engine::open(options));
  std::vector<std::unique_ptr<engine::Conversation>> chats;
  for (int chat = 0; chat < 6; ++chat) {
    chats.push_back(must(engine->new_conversation()));
    const Answer answer = must(chats.back()->generate(prompt_of(900, chat), greedy(3), nullptr, nullptr));
    expect_equal(answer, cold_run(prompt_of(900, chat), 3));
    ASSERT_LE(engine->memory().host.used_bytes, *options.memory.host_limit_bytes);
  }
  const Answer again = must(chats.front()->generate(prompt_of(910), greedy(3), nullptr, nullptr));
  expect_equal(again, cold_run(prompt_of(910), 3));
  EXPECT_LE(engine->memory().host.used_bytes, *options.memory.host_limit_bytes);
}

// B9, D4: another program takes memory during an answer; what we hold falls under what is left, the answer is the
// same, and the layers come back when the memory does.
TEST(Yield, ShrinksWhileItAnswersAndGrowsBack) {
  EngineOptions options = tiny_options("fake:8MiB");
  options.memory = hands_off();
  options.memory.yield_to_others = true;
  const auto engine = must(Engine::open(options));
  const std::size_t weights = used(*engine);
  const auto conversation = must(engine->new_conversation());
  const std::size_t total = std::size_t{8} << 20;
  std::size_t count = 0, left_for_us = 0;
  bool fell = false;
  const Answer answer = must(conversation->generate(
      prompt_of(100), greedy(120),
      [&](const engine::TokenEvent&) {
        if (++count == 20) {
          left_for_us = used(*engine) - weights / 3;
          fake(*engine).apply({.others_bytes = total - left_for_us});
        }
        if (count == 40) {
          fell = used(*engine) <= left_for_us;
          fake(*engine).apply({.others_bytes = 0});
        }
        return true;
      },
      nullptr));
  EXPECT_TRUE(fell);
  expect_equal(answer, cold_run(prompt_of(100), 120));
  look_later(*engine, std::chrono::minutes(1));
  EXPECT_EQ(kind_bytes(engine->memory().devices.front().kinds, "weights"), weights) << "every layer is back";
}

// D4: the card itself shrinks by 30 % in the middle of a chat, and grows again.
TEST(Yield, FollowsACardThatShrinks) {
  EngineOptions options = tiny_options("fake:8MiB");
  options.memory = hands_off();
  options.memory.yield_to_others = true;
  const auto engine = must(Engine::open(options));
  const std::size_t weights = used(*engine);
  const auto conversation = must(engine->new_conversation());
  must(conversation->generate(prompt_of(100), greedy(5), nullptr, nullptr));
  const std::size_t smaller = used(*engine) * 7 / 10;
  fake(*engine).apply({.total_bytes = smaller});
  expect_equal(must(conversation->generate(prompt_of(130), greedy(30), nullptr, nullptr)), cold_run(prompt_of(130), 30));
  EXPECT_LE(used(*engine), smaller);
  EXPECT_LT(kind_bytes(engine->memory().devices.front().kinds, "weights"), weights);
  fake(*engine).apply({.total_bytes = std::size_t{8} << 20});
  look_later(*engine, std::chrono::minutes(1));
  EXPECT_EQ(kind_bytes(engine->memory().devices.front().kinds, "weights"), weights);
  expect_equal(must(conversation->generate(prompt_of(150), greedy(5), nullptr, nullptr)), cold_run(prompt_of(150), 5));
}

// B7: a driver that spills instead of failing is noticed, once.
TEST(Spill, IsSaidOnce) {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  const auto engine = must(Engine::open(options));
  const auto conversation = must(engine->new_conversation());
  fake(*engine).apply({.step_ms = std::chrono::milliseconds(1)});
  must(conversation->generate(prompt_of(20), greedy(20), nullptr, nullptr));
  EXPECT_TRUE(engine->take_warnings().empty());
  // A step of 100 ms against some milliseconds: a busy machine or a sanitizer does not change which is which.
  fake(*engine).apply({.soft_limit_bytes = used(*engine), .slow_factor = 100});
  const auto other = must(engine->new_conversation());
  for (int turn = 1; turn <= 2; ++turn) {
    must(other->generate(prompt_of(static_cast<std::size_t>(turn) * 100), greedy(11), nullptr, nullptr));
  }
  const std::vector<std::string> warnings = engine->take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings.front().find("slower"), std::string::npos);
}

// B8: a device that refuses large address ranges is used all the same, and it is said.
TEST(Addresses, RefusedOnesMeanFallback) {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  ASSERT_EQ(setenv("EBB_FAKE", R"({"reserve_limit_bytes": "3MiB"})", 1), 0);
  const auto engine = must(Engine::open(options));
  ASSERT_EQ(unsetenv("EBB_FAKE"), 0);
  const auto conversation = must(engine->new_conversation());
  expect_equal(must(conversation->generate(prompt_of(500), greedy(4), nullptr, nullptr)), cold_run(prompt_of(500), 4));
  EXPECT_TRUE(engine->memory().devices.front().address_fallback);
}

}  // namespace
}  // namespace ebb::tests
