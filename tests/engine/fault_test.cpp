// Every device call failing at every position through a chat's whole life: load, prefill, decode, growth, park, return,
// reclaim, unload, load, reset (B6, M13, X6). No crash, nothing leaked, the next request right.
//
// M13 (class): what can fail while a chat or the weights are parked or come back is a device call or a limit. The calls
// are enumerated below by kind and position over the whole script, so each point of each act is hit; limits are hit in
// budget_test.cpp.
#include <gtest/gtest.h>

#include "engine/tiny_engine.h"

namespace ebb::tests {
namespace {

using device::FailRule;
using device::FakeCall;
using engine::Answer;
using engine::Engine;
using engine::EngineOptions;
using engine::Level;

EngineOptions options_for_faults() {
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  options.context_tokens = 256;
  options.chunk_tokens = 16;
  return options;
}

/// A life in short. Errors are the point here; what they leave behind is checked by the caller.
void live(Engine& engine, engine::Conversation& chat, engine::Conversation& other) {
  static_cast<void>(chat.generate(prompt_of(24), greedy(2), nullptr, nullptr));
  static_cast<void>(other.generate(prompt_of(20, 3), greedy(1), nullptr, nullptr));
  static_cast<void>(chat.park());
  static_cast<void>(chat.generate(prompt_of(40), greedy(2), nullptr, nullptr));
  static_cast<void>(chat.generate(prompt_of(37), greedy(2), nullptr, nullptr));  // goes back, past what the window holds
  engine.reclaim(Level::Turns);
  static_cast<void>(engine.unload());
  static_cast<void>(chat.generate(prompt_of(44), greedy(1), nullptr, nullptr));
  engine.reclaim(Level::Full, true);
  static_cast<void>(engine.load());
  other.reset();
}

class Faults : public testing::TestWithParam<FakeCall> {};

TEST_P(Faults, LeaveNothingBehindWhereverTheyStrike) {
  const Answer expected = cold_run(prompt_of(30), 3);
  const auto clean = must(Engine::open(options_for_faults()));
  const std::size_t loaded = used(*clean);
  std::uint64_t calls = 0;
  {
    const auto chat = must(clean->new_conversation());
    const auto other = must(clean->new_conversation());
    const std::uint64_t before = fake(*clean).status().calls_of(GetParam());
    live(*clean, *chat, *other);
    calls = fake(*clean).status().calls_of(GetParam()) - before;
  }
  ASSERT_GT(calls, 0U) << "the script never makes this call";
  const std::uint64_t stride = std::max<std::uint64_t>(1, calls / 60);  // positions are alike in long runs of one call
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{3}}) {
    for (std::uint64_t nth = 1; nth <= calls; nth += nth < 40 ? 1 : stride) {
      const auto engine = must(Engine::open(options_for_faults()));
      {
        const auto chat = must(engine->new_conversation());
        const auto other = must(engine->new_conversation());
        fake(*engine).apply({.fail = FailRule{GetParam(), nth, count}});
        live(*engine, *chat, *other);
        fake(*engine).apply({.fail = std::optional<FailRule>()});
        must(engine->load());
        look_later(*engine, std::chrono::minutes(1));  // what left under pressure comes back
        expect_equal(must(chat->generate(prompt_of(30), greedy(3), nullptr, nullptr)), expected);
        expect_equal(must(other->generate(prompt_of(30), greedy(3), nullptr, nullptr)), expected);
        chat->reset();
        other->reset();
        ASSERT_EQ(used(*engine), loaded) << "call " << nth << " of " << calls;
      }
      must(engine->unload());
      ASSERT_EQ(used(*engine), 0U) << "call " << nth;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCall, Faults,
                         testing::Values(FakeCall::Create, FakeCall::Map, FakeCall::Access, FakeCall::Unmap,
                                         FakeCall::Release, FakeCall::Copy, FakeCall::Step, FakeCall::Reserve));

// The same for the load itself: each position of each call while an engine opens. Refused addresses do not stop a load:
// they mean fallback (B8, budget_test.cpp).
TEST(LoadFaults, GiveEverythingBackAndSayWhy) {
  for (const char* call : {"create", "map", "access", "copy"}) {
    int failed = 0;
    for (int nth = 1; nth <= 400; ++nth) {
      const std::string rule = "{\"fail\": {\"call\": \"" + std::string(call) + "\", \"nth\": " + std::to_string(nth) + ", \"count\": 1}}";
      ASSERT_EQ(setenv("EBB_FAKE", rule.c_str(), 1), 0);
      const auto engine = Engine::open(options_for_faults());
      ASSERT_EQ(unsetenv("EBB_FAKE"), 0);
      if (engine) break;
      ++failed;
      EXPECT_FALSE(engine.error().message.empty());
    }
    EXPECT_GT(failed, 0) << call;
  }
}

// X6: a lost device ends requests with an error that says to restart; nothing aborts, other acts answer.
TEST(DeviceLost, EndsRequestsAndNothingElse) {
  for (const std::uint64_t nth : {1, 5, 20, 60}) {
    const auto engine = must(Engine::open(options_for_faults()));
    const auto chat = must(engine->new_conversation());
    must(chat->generate(prompt_of(24), greedy(2), nullptr, nullptr));
    fake(*engine).apply({.fail = FailRule{FakeCall::Lost, nth, 1}});
    Result<Answer> answer = Answer{};
    for (int turn = 0; turn < 20 && answer; ++turn) {
      answer = chat->generate(prompt_of(30 + static_cast<std::size_t>(turn) * 8), greedy(4), nullptr, nullptr);
    }
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, ErrorCode::DeviceLost);
    EXPECT_NE(answer.error().message.find("restart"), std::string::npos) << answer.error().message;
    EXPECT_EQ(chat->generate(prompt_of(10), greedy(1), nullptr, nullptr).error().code, ErrorCode::DeviceLost);
    EXPECT_EQ(engine->memory().devices.size(), 1U);
    chat->reset();
    static_cast<void>(engine->unload());
  }
}

}  // namespace
}  // namespace ebb::tests
