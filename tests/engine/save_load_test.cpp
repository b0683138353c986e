// S3: chats on disk and back, on the tiny model (window 16). A restored chat must be the saved one in all that a later
// call can see: the next answer to the last digit, what it evaluates, how far it can be taken back. Cases: held on the
// host, on one device, on two, parked, shorter and longer than the window and than the rewind record, messages alone;
// and every reason to refuse, after each of which the chat at hand is as it was.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/chat.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/internal/saved_chat.h"
#include "engine/tiny_engine.h"
#include "support/must.h"
#include "support/small_disk.h"
#include "support/temp_folder.h"

namespace ebb::engine {
namespace {

using tests::cold_run;
using tests::expect_equal;
using tests::greedy;
using tests::hands_off;
using tests::must;
using tests::prompt_of;
using tests::read_file;
using tests::TempFolder;
using tests::tiny_options;

constexpr std::size_t kWindow = 16;

std::unique_ptr<Engine> open(const std::string& devices = "cpu") {
  EngineOptions options = tiny_options(devices);
  options.memory = hands_off();
  return must(Engine::open(options));
}

Answer answer(Conversation& conversation, const std::vector<std::int32_t>& prompt, std::int64_t tokens = 10) {
  return must(conversation.generate(prompt, greedy(tokens), nullptr, nullptr));
}

std::vector<std::int32_t> continued(const std::vector<std::int32_t>& prompt, const Answer& said) {
  std::vector<std::int32_t> all = prompt;
  all.insert(all.end(), said.tokens.begin(), said.tokens.end());
  for (const std::int32_t id : {20, 33, 21}) all.push_back(id);
  return all;
}

/// A chat of 110 tokens in a file, and what it would have said next.
class SaveLoad : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "chat"; }

  void save_one() {
    const auto engine = open();
    const auto conversation = must(engine->new_conversation());
    const Answer said = answer(*conversation, prompt_of(100));
    must(conversation->save(path(), {}));
    more_ = continued(prompt_of(100), said);
    next_ = answer(*conversation, more_);
  }

  /// A conversation that holds something else, refuses the file, and goes on as if nothing had been.
  void expect_refused(const EngineOptions& options, ErrorCode code, const std::string& says) {
    const auto engine = must(Engine::open(options));
    const auto conversation = must(engine->new_conversation());
    answer(*conversation, prompt_of(30, 5), 4);
    const std::vector<std::int32_t> before = conversation->tokens();
    const std::size_t bytes = engine->memory().devices.front().used_by_us_bytes;
    const auto loaded = conversation->load(path());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(says), std::string::npos) << loaded.error().message;
    EXPECT_EQ(conversation->tokens(), before);
    EXPECT_EQ(engine->memory().devices.front().used_by_us_bytes, bytes);
    // Pressure may have cost the rewind record, which is a cache; the conversation itself goes on.
    const Answer next = answer(*conversation, before, 1);
    if (code != ErrorCode::OutOfMemory) {
      EXPECT_EQ(next.usage.cached_tokens, before.size() - 1);
    }
    const auto fresh = must(Engine::open(options));
    expect_equal(next, answer(*must(fresh->new_conversation()), before, 1));
  }

  TempFolder folder_;
  std::vector<std::int32_t> more_;
  Answer next_;
};

TEST_F(SaveLoad, GoesOnAsIfNeverSaved) {
  // 10 + 5: inside the window; 100: past it; 1200: past window and record (1024).
  for (const std::size_t length : {std::size_t{10}, std::size_t{100}, std::size_t{1200}}) {
    for (const std::string devices : {"cpu", "fake:64MiB", "fake:64MiB,fake:64MiB"}) {
      SCOPED_TRACE(devices + ", " + std::to_string(length));
      std::vector<std::int32_t> more;
      Answer expected;
      {
        const auto engine = open(devices);
        const auto conversation = must(engine->new_conversation());
        const Answer said = answer(*conversation, prompt_of(length), 5);
        must(conversation->save(path(), {}));
        EXPECT_FALSE(engine->memory().conversations.front().state == ConversationState::Parked) << "it is where it was";
        more = continued(prompt_of(length), said);
        expected = answer(*conversation, more);
      }
      for (const std::string later : {"cpu", "fake:64MiB"}) {
        const auto engine = open(later);
        const auto conversation = must(engine->new_conversation());
        must(conversation->load(path()));
        EXPECT_EQ(conversation->tokens().size(), length + 4);
        const Answer next = answer(*conversation, more);
        EXPECT_EQ(next.usage.cached_tokens, length + 4) << "zero prefill: all that was held";
        EXPECT_EQ(next.usage.cached_tokens, expected.usage.cached_tokens);
        expect_equal(next, expected);
      }
      expect_equal(expected, cold_run(more, 10));
    }
  }
}

// S1 after S3: the record travels too.
TEST_F(SaveLoad, ARestoredAnswerCanBeTakenBack) {
  save_one();
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  must(conversation->load(path()));
  const Answer again = answer(*conversation, prompt_of(100));
  EXPECT_LE(prompt_of(100).size() - again.usage.cached_tokens, kWindow);
  expect_equal(again, cold_run(prompt_of(100), 10));
}

TEST_F(SaveLoad, WhereItLayMakesNoDifferenceToTheFile) {
  std::vector<std::string> files;
  for (const std::string devices : {"cpu", "fake:64MiB", "fake:64MiB,fake:64MiB"}) {
    const auto engine = open(devices);
    const auto conversation = must(engine->new_conversation());
    answer(*conversation, prompt_of(100));
    must(conversation->save(path(), {}));
    files.push_back(read_file(path()));
    must(conversation->park());
    must(conversation->save(path(), {}));
    files.push_back(read_file(path()));
    EXPECT_TRUE(engine->memory().conversations.front().state == ConversationState::Parked) << "it stays where it was";
    const auto other = must(engine->new_conversation());
    must(other->load(path()));
    must(other->save(path(), {}));
    files.push_back(read_file(path()));
  }
  for (const std::string& file : files) EXPECT_TRUE(file == files.front());
}

TEST_F(SaveLoad, TakesThePlaceOfAnotherChat) {
  save_one();
  const auto engine = open("fake:64MiB");
  const auto conversation = must(engine->new_conversation());
  answer(*conversation, prompt_of(400, 7));
  must(conversation->load(path()));
  expect_equal(answer(*conversation, more_), next_);
  conversation->reset();
  EXPECT_EQ(engine->memory().conversations.front().device_bytes, 0U);
  EXPECT_EQ(engine->memory().conversations.front().host_bytes, 0U);
}

TEST_F(SaveLoad, MessagesAloneComeBackToo) {
  const auto engine = open();
  const auto chat = must(Chat::create(*engine));
  must(chat->set_messages({{"system", "s"}, {"user", "ab"}, {"assistant", "c"}}));
  must(chat->save(path()));
  const auto other = must(Chat::create(*engine));
  must(other->say("de", greedy(3), nullptr, nullptr));
  must(other->load(path()));
  ASSERT_EQ(other->messages().size(), 3U);
  EXPECT_EQ(other->messages()[0].text, "s");
  EXPECT_EQ(other->messages()[2].role, "assistant");
  EXPECT_TRUE(other->conversation().tokens().empty());
}

TEST_F(SaveLoad, AChatGoesOnInAnotherEngine) {
  Answer expected;
  {
    const auto engine = open();
    const auto chat = must(Chat::create(*engine));
    chat->set_system("be brief");
    must(chat->say("ab", greedy(6), nullptr, nullptr));
    must(chat->save(path()));
    expected = must(chat->say("cd", greedy(6), nullptr, nullptr));
  }
  const auto engine = open();
  const auto chat = must(Chat::create(*engine));
  must(chat->load(path()));
  const Answer next = must(chat->say("cd", greedy(6), nullptr, nullptr));
  expect_equal(next, expected);
  EXPECT_EQ(next.usage.cached_tokens, expected.usage.cached_tokens);
}

TEST_F(SaveLoad, WhatDoesNotFitIsRefusedByName) {
  save_one();
  EngineOptions options = tiny_options("cpu");
  options.memory = hands_off();
  const auto with = [&](auto change) {
    EngineOptions changed = options;
    change(changed);
    return changed;
  };
  expect_refused(with([](EngineOptions& o) { o.kv_type = "bf16"; }), ErrorCode::InvalidArgument, "saved with KV type f16; this model runs with bf16");
  expect_refused(with([](EngineOptions& o) { o.exact = true, o.kv_type = "f16"; }), ErrorCode::InvalidArgument, "saved with arithmetic int16 activations");
  expect_refused(with([](EngineOptions& o) { o.context_tokens = 64; }), ErrorCode::ContextFull, "-c 109 or more");
  const std::filesystem::path vectors = EBB_VECTORS_DIR;
  expect_refused(with([&](EngineOptions& o) { o.model = vectors / "text" / "t2-head128"; }), ErrorCode::InvalidArgument, "saved with another model, t0-base");
  // The same shapes and configuration; other weights, and the same weights in another precision.
  expect_refused(with([&](EngineOptions& o) { o.model = vectors / "gguf" / "t0-base-q8_0.gguf"; }), ErrorCode::InvalidArgument, "saved with another model, t0-base");
}

// X7: a file whose checksum is right and whose facts are not.
TEST_F(SaveLoad, LyingFactsAllocateNothing) {
  save_one();
  EngineOptions options = tiny_options("cpu");
  options.memory = hands_off();
  const SavedChat honest = must(SavedChatReader::open(path())).chat();
  const auto write = [&](const SavedChat& chat) {
    auto writer = must(SavedChatWriter::create(path(), chat));
    const std::vector<std::byte> kv(chat.kv_bytes);
    must(writer.write(kv));
    must(writer.commit());
  };
  const auto lie = [&](auto change, ErrorCode code, const std::string& says) {
    SavedChat chat = honest;
    change(chat);
    write(chat);
    expect_refused(options, code, says);
  };
  lie([](SavedChat& c) { c.tokens.resize(2000, 20); }, ErrorCode::BadFile, "bytes of keys and values");
  lie([](SavedChat& c) { c.tokens.clear(), c.first_kept = c.record_base = 0; }, ErrorCode::BadFile, "bytes of keys and values");
  lie([](SavedChat& c) { c.kv_bytes += 1; }, ErrorCode::BadFile, "bytes of keys and values");
  lie([](SavedChat& c) { c.kv.window_tokens = 32; }, ErrorCode::BadFile, "bytes of keys and values");
  lie([](SavedChat& c) { c.first_kept = 109; }, ErrorCode::BadFile, "does not fit a cache");
  lie([](SavedChat& c) { c.tokens[3] = -1; }, ErrorCode::InvalidArgument, "token id -1");
  lie([](SavedChat& c) { c.tokens[3] = 1 << 30; }, ErrorCode::InvalidArgument, "token id");
}

TEST_F(SaveLoad, DamageIsNoticedWhereverItIs) {
  save_one();
  const std::string whole = read_file(path());
  EngineOptions options = tiny_options("cpu");
  options.memory = hands_off();
  const auto engine = must(Engine::open(options));
  const auto conversation = must(engine->new_conversation());
  answer(*conversation, prompt_of(30, 5), 4);
  const std::vector<std::int32_t> before = conversation->tokens();
  constexpr std::size_t kParts = 20;
  for (std::size_t part = 0; part < kParts; ++part) {
    std::string flipped = whole;
    const std::size_t at = (2 * part + 1) * whole.size() / (2 * kParts);
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    for (const std::string& bytes : {flipped, whole.substr(0, part * whole.size() / kParts)}) {
      folder_.write("chat", bytes);
      const auto loaded = conversation->load(path());
      ASSERT_FALSE(loaded) << part;
      EXPECT_EQ(loaded.error().code, ErrorCode::BadFile) << loaded.error().message;
    }
  }
  EXPECT_EQ(conversation->tokens(), before);
  expect_equal(answer(*conversation, continued(before, {})), cold_run(continued(before, {}), 10));
  folder_.write("chat", whole);
  must(conversation->load(path()));
  expect_equal(answer(*conversation, more_), next_);
}

// B6: the host's limit is too small for the saved chat.
TEST_F(SaveLoad, NoRoomIsAnErrorWithNumbersAndLosesNothing) {
  save_one();
  EngineOptions options = tiny_options("fake:64MiB");
  options.memory = hands_off();
  options.context_tokens = 128;
  options.memory.host_limit_bytes = must(Engine::open(options))->plan().host_planned_bytes;  // no room for a parked copy
  expect_refused(options, ErrorCode::OutOfMemory, "");
}

// X8
TEST_F(SaveLoad, AFailedSaveLosesNothing) {
  const auto engine = open("fake:64MiB");
  const auto conversation = must(engine->new_conversation());
  const Answer said = answer(*conversation, prompt_of(100));
  must(conversation->save(path(), {}));
  const std::string before = read_file(path());
  {
    const tests::SmallDisk disk(before.size() / 2);
    EXPECT_EQ(conversation->save(path(), {}).error().code, ErrorCode::Io);
  }
  EXPECT_EQ(conversation->save("/proc/chat", {}).error().code, ErrorCode::Io);
  EXPECT_TRUE(read_file(path()) == before);
  EXPECT_FALSE(engine->memory().conversations.front().state == ConversationState::Parked);
  const std::vector<std::int32_t> more = continued(prompt_of(100), said);
  const Answer next = answer(*conversation, more);
  EXPECT_EQ(next.usage.cached_tokens, 109U);
  expect_equal(next, cold_run(more, 10));
}

TEST_F(SaveLoad, NotWhileItIsBeingAnswered) {
  save_one();
  const auto engine = open();
  const auto conversation = must(engine->new_conversation());
  int refused = 0;
  const TokenSink sink = [&](const TokenEvent&) {
    for (const ErrorCode code : {conversation->save(path(), {}).error().code, conversation->load(path()).error().code}) {
      refused += code == ErrorCode::InvalidArgument ? 1 : 0;
    }
    return true;
  };
  const Answer said = must(conversation->generate(prompt_of(40), greedy(3), sink, nullptr));
  EXPECT_EQ(refused, 6);
  expect_equal(said, cold_run(prompt_of(40), 3));
  const auto other = must(engine->new_conversation());
  const TokenSink restores = [&](const TokenEvent&) { return other->load(path()).has_value(); };
  EXPECT_EQ(must(conversation->generate(prompt_of(40), greedy(3), restores, nullptr)).finish, FinishReason::Length)
      << "another conversation may";
  expect_equal(answer(*other, more_), next_);
}

}  // namespace
}  // namespace ebb::engine
