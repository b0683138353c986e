// One engine from many threads at once: chats that answer, and everybody who looks at memory or gives it back. Made for
// the thread sanitizer; the answers must be those of an engine alone all the same.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "engine/chat.h"
#include "engine/tiny_engine.h"
#include "support/temp_folder.h"

namespace ebb::tests {
namespace {

using engine::Answer;
using engine::Conversation;
using engine::Engine;
using engine::EngineOptions;
using engine::FinishReason;
using engine::Level;

/// Runs `act` again and again until it is told to end.
class Again {
 public:
  explicit Again(const std::function<void()>& act) : thread_([this, act] {
    while (!done_) act();
  }) {}
  Again(const Again&) = delete;  // owns a thread
  Again& operator=(const Again&) = delete;
  ~Again() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

EngineOptions two_cards() {
  EngineOptions options = tiny_options("fake:64MiB,fake:64MiB");
  options.context_tokens = 512;
  options.chunk_tokens = 32;
  options.memory.gc_interval_s = 1;
  options.memory.full_every_turns = 3;
  return options;
}

/// Whether somebody else ended the answer, by error before its first token, by its finish later.
bool is_cancelled(const Result<Answer>& answer) {
  return answer ? answer->finish == FinishReason::Cancelled : answer.error().code == ErrorCode::Cancelled;
}

/// Turns of one chat; an unload from elsewhere may end an answer, which is then asked for again.
void chat(Engine& engine, std::int32_t seed, std::size_t turns, std::atomic<std::size_t>& answers) {
  const auto conversation = must(engine.new_conversation());
  for (std::size_t turn = 1; turn <= turns; ++turn) {
    const std::vector<std::int32_t> prompt = prompt_of(25 * turn, seed);
    Result<Answer> answer = conversation->generate(prompt, greedy(3), nullptr, nullptr);
    while (is_cancelled(answer)) answer = conversation->generate(prompt, greedy(3), nullptr, nullptr);
    ++answers;
    expect_equal(must(std::move(answer)), cold_run(prompt, 3));
    if (turn % 3 == 0) conversation->reset();
    if (turn % 4 == 0) must(conversation->park());
  }
}

TEST(Threads, AnswersAreTheSameWhateverOthersDo) {
  const auto engine = must(Engine::open(two_cards()));
  std::atomic<std::size_t> answers = 0;
  {
    const Again looks([&] {
      const engine::MemoryStatus status = engine->memory();
      for (const engine::DeviceStatus& device : status.devices) EXPECT_EQ(device.untracked_bytes, 0U);
      static_cast<void>(engine->take_warnings());
    });
    const Again reclaims([&, turn = 0]() mutable {
      engine->reclaim(static_cast<Level>(1 + turn % 3), turn % 4 == 0);
      ++turn;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
    const Again unloads([&, seen = std::size_t{0}]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (answers < seen + 2) return;  // ends what is being written, so not before others came through
      seen = answers;
      EXPECT_TRUE(engine->unload());
      EXPECT_TRUE(engine->load());
    });
    std::vector<std::thread> chats;
    for (const std::int32_t seed : {1, 2, 3}) chats.emplace_back([&, seed] { chat(*engine, seed, 8, answers); });
    for (std::thread& thread : chats) thread.join();
  }
  must(engine->unload());
  EXPECT_EQ(used(*engine, 0) + used(*engine, 1), 0U);
}

// M14: stop, reset, park and deletion from elsewhere while an answer is being written.
TEST(Threads, AnAnswerEndsWhenSomebodyEndsItsChat) {
  const auto engine = must(Engine::open(two_cards()));
  device::FakeSettings slow;
  slow.step_ms = std::chrono::milliseconds(2);  // an answer of 450 tokens outlasts any pause of this thread
  fake(*engine).apply(slow);
  const std::vector<std::function<void(Conversation&)>> acts = {
      [](Conversation& conversation) { conversation.stop(); },
      [](Conversation& conversation) { conversation.reset(); },
      [](Conversation& conversation) { must(conversation.park()); },
  };
  for (const auto& act : acts) {
    const auto conversation = must(engine->new_conversation());
    std::atomic<bool> begun = false, acting = false;
    Result<Answer> answer = tl::unexpected<Error>(Error{});
    std::thread writer([&] {
      const auto sink = [&](const engine::TokenEvent&) {
        begun = true;
        while (!acting) std::this_thread::yield();
        return true;
      };
      answer = conversation->generate(prompt_of(20), greedy(450), sink, nullptr);
    });
    while (!begun) std::this_thread::yield();
    acting = true;
    act(*conversation);
    writer.join();
    EXPECT_TRUE(is_cancelled(answer));
    expect_equal(must(conversation->generate(prompt_of(30), greedy(3), nullptr, nullptr)), cold_run(prompt_of(30), 3));
  }
}

// The same while the chat is being saved: the file is whole or was never there, and the chat goes on.
TEST(Threads, ASaveIsWholeOrNotThere) {
  const auto engine = must(Engine::open(two_cards()));
  const TempFolder folder;
  const auto path = folder.path() / "chat";
  int saved = 0, cancelled = 0;
  for (int round = 0; round < 30; ++round) {
    const auto conversation = must(engine->new_conversation());
    must(conversation->generate(prompt_of(200), greedy(2), nullptr, nullptr));
    std::filesystem::remove(path);
    std::atomic<bool> begun = false;
    Status outcome;
    std::thread saver([&] {
      begun = true;
      outcome = conversation->save(path, {});
    });
    while (!begun) std::this_thread::yield();
    for (int spin = 0; spin < round * 40; ++spin) static_cast<void>(engine->info());
    switch (round % 3) {
      case 0:
        conversation->stop();
        break;
      case 1:
        conversation->reset();
        break;
      default:
        must(conversation->park());
    }
    saver.join();
    if (outcome) {
      ++saved;
      const auto other = must(engine->new_conversation());
      must(other->load(path));
    } else {
      ++cancelled;
      EXPECT_EQ(outcome.error().code, ErrorCode::Cancelled) << outcome.error().message;
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 0);
    }
    expect_equal(must(conversation->generate(prompt_of(60), greedy(3), nullptr, nullptr)), cold_run(prompt_of(60), 3));
  }
  EXPECT_EQ(saved + cancelled, 30);
}

}  // namespace
}  // namespace ebb::tests
