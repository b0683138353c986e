// Conversations on the tiny model (window 16): what is kept, what is evaluated again, what comes back.
#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/chat.h"
#include "device/fake/fake_device.h"
#include "engine/engine.h"
#include "engine/internal/engine_state.h"
#include "support/must.h"

namespace ebb::engine {
namespace {

constexpr std::size_t kWindow = 16;

using tests::must;

std::unique_ptr<Engine> open(std::size_t context_tokens = 0, const std::string& devices = "cpu", std::size_t chunk_tokens = 512) {
  EngineOptions options;
  options.model = std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base";
  options.context_tokens = context_tokens;
  options.devices = devices;
  options.chunk_tokens = chunk_tokens;
  options.threads = 2;
  return must(Engine::open(options));
}

std::vector<std::int32_t> prompt_of(std::size_t count, std::int32_t seed = 0) {
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < count) ids.push_back(14 + (seed + static_cast<std::int32_t>(ids.size()) * 37) % 250);
  return ids;
}

GenerateOptions greedy(std::int64_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = tokens;
  options.ignore_end = true;
  options.log_probs = 2;
  return options;
}

void expect_equal(const Answer& left, const Answer& right) {
  EXPECT_EQ(left.tokens, right.tokens);
  EXPECT_EQ(left.text, right.text);
  ASSERT_EQ(left.log_probs.size(), right.log_probs.size());
  for (std::size_t idx = 0; idx < left.log_probs.size(); ++idx) {
    EXPECT_EQ(left.log_probs[idx].chosen.log_prob, right.log_probs[idx].chosen.log_prob) << "to the last digit, token " << idx;
  }
}

Answer cold_run(const std::vector<std::int32_t>& prompt, std::int64_t tokens) {
  const auto engine = open();
  return must(must(engine->new_conversation())->generate(prompt, greedy(tokens), nullptr, nullptr));
}

std::size_t pool_bytes(const Engine& engine) { return engine.memory().devices.front().used_by_us_bytes; }

// S1, S8
TEST(Conversation, AnswersAgainWithoutThePromptAndEqualsAColdRun) {
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  const std::vector<std::int32_t> prompt = prompt_of(100);
  const Answer first = must(conversation->generate(prompt, greedy(10), nullptr, nullptr));
  EXPECT_EQ(first.usage.cached_tokens, 0U);
  const Answer again = must(conversation->generate(prompt, greedy(10), nullptr, nullptr));
  EXPECT_LE(prompt.size() - again.usage.cached_tokens, kWindow);
  expect_equal(again, first);
  expect_equal(again, cold_run(prompt, 10));
}

TEST(Conversation, EditedPromptKeepsTheCommonPrefix) {
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  must(conversation->generate(prompt_of(100), greedy(10), nullptr, nullptr));
  std::vector<std::int32_t> edited = prompt_of(100);
  edited[80] = 20;
  const Answer answer = must(conversation->generate(edited, greedy(10), nullptr, nullptr));
  EXPECT_EQ(answer.usage.cached_tokens, 80U);
  expect_equal(answer, cold_run(edited, 10));
}

// S7
TEST(Conversation, OneConversationNeverReachesAnother) {
  const auto engine = open();
  const auto left = must(engine->new_conversation());
  const auto right = must(engine->new_conversation());
  must(left->generate(prompt_of(70, 5), greedy(8), nullptr, nullptr));
  const Answer answer = must(right->generate(prompt_of(60), greedy(10), nullptr, nullptr));
  must(left->generate(prompt_of(40, 9), greedy(8), nullptr, nullptr));
  expect_equal(answer, cold_run(prompt_of(60), 10));
  const Answer more = must(right->generate(prompt_of(60), greedy(10), nullptr, nullptr));
  expect_equal(more, answer);
}

// M1, M5: a reset gives every page back to the device, whatever came before.
TEST(Conversation, ResetGivesEverythingBack) {
  for (const std::string devices : {"cpu", "fake:64MiB"}) {
    const auto engine = open(0, devices);
    const auto conversation = must(engine->new_conversation());
    must(conversation->generate(prompt_of(10), greedy(2), nullptr, nullptr));
    conversation->reset();
    const std::size_t floor = pool_bytes(*engine);
    for (const std::size_t length : {std::size_t{10}, std::size_t{900}, std::size_t{40}, std::size_t{2000}}) {
      must(conversation->generate(prompt_of(length), greedy(5), nullptr, nullptr));
      EXPECT_GT(conversation->reset().freed_bytes, 0U);
      EXPECT_TRUE(conversation->tokens().empty());
    }
    must(conversation->generate(prompt_of(10), greedy(2), nullptr, nullptr));
    conversation->reset();
    const MemoryStatus status = engine->memory();
    EXPECT_EQ(status.conversations.front().device_bytes, 0U) << devices;
    std::size_t scratch = 0;
    for (const auto& [kind, bytes] : status.devices.front().kinds) scratch += kind == "scratch" ? bytes : 0;
    EXPECT_LE(pool_bytes(*engine), floor + scratch) << devices << ": only the step's scratch may have grown";
  }
}

// S2: a full context is an error before the answer, a visible reason after it.
TEST(Conversation, FullContextIsSaidNotSilent) {
  const auto engine = open(64);
  const auto conversation = must(engine->new_conversation());
  const Result<Answer> refused = conversation->generate(prompt_of(65), greedy(1), nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::ContextFull);
  EXPECT_NE(refused.error().message.find("65"), std::string::npos);
  EXPECT_NE(refused.error().message.find("64"), std::string::npos);
  const Answer cut = must(conversation->generate(prompt_of(60), greedy(100), nullptr, nullptr));
  EXPECT_EQ(cut.finish, FinishReason::ContextFull);
  EXPECT_EQ(cut.usage.completion_tokens, 4U);
}

TEST(Conversation, RefusesWhatTheModelDoesNotHave) {
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  EXPECT_EQ(conversation->generate({}, greedy(1), nullptr, nullptr).error().code, ErrorCode::InvalidArgument);
  const std::vector<std::int32_t> bad = {2, 99999};
  EXPECT_EQ(conversation->generate(bad, greedy(1), nullptr, nullptr).error().code, ErrorCode::InvalidArgument);
  expect_equal(must(conversation->generate(prompt_of(30), greedy(5), nullptr, nullptr)), cold_run(prompt_of(30), 5));
}

TEST(Conversation, CancelDuringThePromptKeepsWhatWasEvaluated) {
  const auto engine = open(0, "cpu", 8);
  const auto conversation = must(engine->new_conversation());
  const Progress stop_half_way = [](std::size_t done, std::size_t total) { return done * 2 < total; };
  const Result<Answer> cancelled = conversation->generate(prompt_of(80), greedy(5), nullptr, stop_half_way);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled);
  EXPECT_EQ(conversation->tokens().size(), 40U);
  const Answer answer = must(conversation->generate(prompt_of(80), greedy(5), nullptr, nullptr));
  EXPECT_EQ(answer.usage.cached_tokens, 40U);
  expect_equal(answer, cold_run(prompt_of(80), 5));
}

TEST(Conversation, SinkEndsTheAnswer) {
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  int calls = 0;
  const Answer answer = must(conversation->generate(prompt_of(20), greedy(50), [&](const TokenEvent&) { return ++calls < 3; }, nullptr));
  EXPECT_EQ(answer.finish, FinishReason::Cancelled);
  EXPECT_EQ(answer.usage.completion_tokens, 3U);
}

// T12: the same seed gives the same text; the seed used is reported and gives it again.
TEST(Conversation, SeedsRepeat) {
  const auto engine = open();
  GenerateOptions options = greedy(20);
  options.sampling.temperature = 1;
  const auto answer = [&] {
    return must(must(engine->new_conversation())->generate(prompt_of(20), options, nullptr, nullptr));
  };
  const Answer first = answer();
  options.sampling.seed = first.seed;
  expect_equal(answer(), first);
}

// B6 in the small: an allocation that fails is that request's error; the next one works.
TEST(Conversation, OutOfMemoryFailsOneRequest) {
  const auto engine = open(0, "fake:16MiB");
  const auto conversation = must(engine->new_conversation());
  device::FakeSettings failing;
  failing.fail = device::FailRule{device::FakeCall::Create, 1, 1000};
  auto& device = dynamic_cast<device::FakeDevice&>(engine->state().pools->device(0));
  device.apply(failing);
  const Result<Answer> refused = conversation->generate(prompt_of(300), greedy(1), nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory) << refused.error().message;
  failing.fail = std::optional<device::FailRule>();
  device.apply(failing);
  expect_equal(must(conversation->generate(prompt_of(300), greedy(1), nullptr, nullptr)), cold_run(prompt_of(300), 1));
}

TEST(Chat, SaysRegeneratesAndResets) {
  const auto engine = open();
  const auto chat = must(Chat::create(*engine));
  EXPECT_FALSE(chat->regenerate(greedy(3), nullptr, nullptr));
  chat->set_system("be brief");
  const Answer first = must(chat->say("ab", greedy(6), nullptr, nullptr));
  ASSERT_EQ(chat->messages().size(), 3U);
  EXPECT_EQ(chat->messages()[2].role, "assistant");
  const Answer again = must(chat->regenerate(greedy(6), nullptr, nullptr));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(chat->messages().size(), 3U);
  EXPECT_FALSE(chat->set_messages({{"narrator", "x"}}));
  EXPECT_GT(chat->reset().freed_bytes, 0U);
  EXPECT_EQ(chat->messages().size(), 1U) << "the system text stays";
}

}  // namespace
}  // namespace ebb::engine
