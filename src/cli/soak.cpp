// `ebb soak`: chats side by side, with turns, stopped answers, parking, resets and deletions, in cycles; after each
// cycle nothing but the weights may be left. The same work for the same flags; fails when what is left grows.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/random_tokens.h"
#include "cli/soak_report.h"
#include "cli/terminal.h"
#include "engine/conversation.h"

namespace ebb::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMessageTokens = 48, kAnswerTokens = 8, kTurns = 100;
constexpr std::size_t kMostTurnsOfAChat = 3;
constexpr std::size_t kLines = 20;  // of the report, about

// One of `sides` on average; every cycle and chat has dice of its own, so threads change no one's throws.
bool one_in(std::mt19937_64& dice, std::uint64_t sides) { return dice() % sides == 0; }

// One chat of one cycle, on a thread of its own.
class SoakChat {
 public:
  SoakChat(engine::Engine& model, engine::Conversation& conversation, const Options& options, std::uint64_t seed)
      : model_(model),
        conversation_(conversation),
        message_tokens_(options.turn_tokens != 0 ? options.turn_tokens : kMessageTokens),
        answer_tokens_(options.reply_tokens != 0 ? options.reply_tokens : kAnswerTokens),
        dice_(seed),
        history_{model.bos()} {}

  void run() {
    const std::size_t turns = 1 + dice_() % kMostTurnsOfAChat;
    while (result_ && turns_ < turns && has_room() && go_on()) {
      result_ = turn();
      if (result_ && one_in(dice_, 4)) result_ = conversation_.park().map([](const engine::Receipt&) {});
    }
  }

  [[nodiscard]] const Status& result() const { return result_; }
  [[nodiscard]] std::size_t turns() const { return turns_; }

 private:
  [[nodiscard]] bool has_room() const { return history_.size() + 1 + answer_tokens_ <= model_.info().context; }

  Status turn() {
    const std::size_t room = model_.info().context - history_.size() - answer_tokens_;
    const std::size_t wanted = 1 + dice_() % (2 * message_tokens_);
    const Tokens message = random_tokens(model_, std::min(wanted, room), dice_);
    history_.insert(history_.end(), message.begin(), message.end());
    engine::GenerateOptions options;
    options.sampling.seed = dice_();
    options.max_tokens = static_cast<std::int64_t>(answer_tokens_);
    options.ignore_end = true;
    const bool stops_early = one_in(dice_, 4);
    EBB_TRY_ASSIGN(const engine::Answer answer,
                   conversation_.generate(
                       history_, options, [&](const engine::TokenEvent&) { return !stops_early && go_on(); },
                       [](std::size_t, std::size_t) { return go_on(); }));
    history_.insert(history_.end(), answer.tokens.begin(), answer.tokens.end());
    ++turns_;
    return {};
  }

  engine::Engine& model_;
  engine::Conversation& conversation_;
  const std::size_t message_tokens_, answer_tokens_;
  std::mt19937_64 dice_;
  Tokens history_;
  Status result_;
  std::size_t turns_ = 0;
};

class Soak {
 public:
  Soak(engine::Engine& model, const Options& options)
      : model_(model),
        options_(options),
        most_turns_(options.turns != 0 || options.soak_seconds != 0 ? options.turns : kTurns) {}

  Status run() {
    EBB_TRY(write_output(floor_heading()));
    ProgressBar bar("soak", options_.verbosity >= 1);
    while (share_done() < 1 && leak_.empty() && go_on()) {
      const double before = share_done();
      EBB_TRY(cycle());
      const FloorPoint floor = floor_now();
      watch_.add(floor);
      bar.update(static_cast<std::size_t>(share_done() * 1000), 1000, fmt::format("{} turns", turns_));
      const bool next_line =
          static_cast<std::size_t>(before * kLines) != static_cast<std::size_t>(share_done() * kLines);
      if (watch_.cycles() > 1 && !next_line) continue;
      bar.clear();
      EBB_TRY(write_output(floor_line(floor)));
    }
    return {};
  }

  [[nodiscard]] SoakVerdict verdict() const { return watch_.verdict(); }
  [[nodiscard]] const std::string& leak() const { return leak_; }

 private:
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  // Of the turns or of the time, whichever is further.
  [[nodiscard]] double share_done() const {
    double share = 0;
    if (most_turns_ != 0) share = static_cast<double>(turns_) / static_cast<double>(most_turns_);
    if (options_.soak_seconds != 0) share = std::max(share, seconds() / static_cast<double>(options_.soak_seconds));
    return std::min(share, 1.0);
  }

  // On a thread of its own: what the C library keeps at hand for a thread (of chunks that the chats' threads allocated,
  // filling up over hundreds of cycles) leaves with the thread, so the floor is what the engine holds.
  Status cycle() {
    Status result;
    std::thread([&] { result = talk_and_reset(); }).join();
    return result;
  }

  Status talk_and_reset() {
    while (conversations_.size() < std::max<std::size_t>(1, options_.engine.parallel)) {
      EBB_TRY_ASSIGN(auto conversation, model_.new_conversation());
      conversations_.push_back(std::move(conversation));
    }
    std::vector<std::unique_ptr<SoakChat>> chats;
    std::vector<std::thread> threads;
    for (const auto& conversation : conversations_) {
      const std::uint64_t seed = watch_.cycles() * 1000 + chats.size();
      chats.push_back(std::make_unique<SoakChat>(model_, *conversation, options_, seed));
    }
    for (const auto& chat : chats) threads.emplace_back([&chat] { chat->run(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& chat : chats) {
      turns_ += chat->turns();
      if (!chat->result() && !interrupted()) return chat->result();
    }
    end_cycle();
    return {};
  }

  void end_cycle() {
    for (const auto& conversation : conversations_) conversation->reset();
    for (const engine::ConversationStatus& chat : model_.memory().conversations) {
      if (chat.device_bytes + chat.host_bytes == 0) continue;
      leak_ = fmt::format("chat {} still holds {} after its reset\n", chat.id,
                          format_bytes(chat.device_bytes + chat.host_bytes));
    }
    if (watch_.cycles() % 4 == 3) conversations_.pop_back();  // deleted; the next cycle opens another
    model_.reclaim(engine::Level::Turns);
  }

  [[nodiscard]] FloorPoint floor_now() const {
    const engine::MemoryStatus status = model_.memory();
    FloorPoint floor{seconds(), turns_, 0, status.host.anon_bytes};
    for (const engine::DeviceStatus& device : status.devices) floor.device_bytes += device.used_by_us_bytes;
    return floor;
  }

  engine::Engine& model_;
  const Options& options_;
  const std::size_t most_turns_;  // 0 = as many as the time allows
  const Clock::time_point begin_ = Clock::now();
  std::vector<std::unique_ptr<engine::Conversation>> conversations_;
  FloorWatch watch_;
  std::string leak_;  // what a reset did not give back
  std::size_t turns_ = 0;
};

}  // namespace

Result<int> run_soak(const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));
  Soak soak(*model, options);
  EBB_TRY(soak.run());
  const SoakVerdict verdict = soak.verdict();
  EBB_TRY(write_output(soak.leak() + verdict_text(verdict)));
  if (interrupted()) return kExitInterrupted;
  return !soak.leak().empty() || verdict.device_creeps || verdict.host_creeps ? kExitFailed : kExitDone;
}

}  // namespace ebb::cli
