// `ebb bench memory`: the same turns under four strategies, and resets after chats of several lengths.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <random>
#include <utility>

#include "cli/commands.h"
#include "cli/memory_report.h"
#include "cli/open_model.h"
#include "cli/random_tokens.h"
#include "cli/terminal.h"
#include "engine/conversation.h"

namespace ebb::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTurns = 10, kMessageTokens = 512, kAnswerTokens = 64;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Script {
  std::size_t turns = kTurns;
  std::size_t message_tokens = kMessageTokens;
  std::size_t answer_tokens = kAnswerTokens;

  [[nodiscard]] std::size_t turn_tokens() const { return message_tokens + answer_tokens; }
};

// What was asked for, or the usual sizes made smaller until twice the turns, the long chat, fit into the context.
Result<Script> script_for(const engine::ModelInfo& info, const Options& options) {
  Script script;
  if (options.turns != 0) script.turns = options.turns;
  const std::size_t room = (info.context - 1) / script.turns;  // <bos> comes first
  if (options.turn_tokens == 0 && options.reply_tokens == 0 && room >= 4) {
    const std::size_t fits = std::min(script.turn_tokens(), room / 2);
    script.answer_tokens = std::max<std::size_t>(1, fits / 9);  // as the usual sizes are to each other
    script.message_tokens = fits - script.answer_tokens;
  }
  if (options.turn_tokens != 0) script.message_tokens = options.turn_tokens;
  if (options.reply_tokens != 0) script.answer_tokens = options.reply_tokens;
  if (script.turn_tokens() > room) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format(
            "{} turns of {} + {} tokens need a context of {}; it holds {} (fewer --turns, or smaller -p and -n)",
            script.turns, script.message_tokens, script.answer_tokens, script.turns * script.turn_tokens() + 1,
            info.context));
  }
  return script;
}

struct Strategy {
  const char* name;
  bool after_generation;
  bool every_turns;
  bool at_the_end;  // level 3, as a user's word after the last turn
};

// The background watch is off in all of them, so that nothing else decides.
Options with_strategy(const Options& options, const Strategy& strategy) {
  Options wanted = options;
  wanted.verbosity = 0;
  engine::MemoryOptions& memory = wanted.engine.memory;
  memory.auto_gc = false;
  memory.after_generation = strategy.after_generation;
  if (!strategy.every_turns) memory.full_every_turns = 0;
  return wanted;
}

// A chat that grows turn by turn; the same tokens for each strategy.
class ScriptedChat {
 public:
  ScriptedChat(engine::Engine& model, engine::Conversation& conversation, const Script& script)
      : model_(model), conversation_(conversation), script_(script), history_{model.bos()} {}

  Result<double> answer_turn() {
    add(script_.message_tokens);
    engine::GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = static_cast<std::int64_t>(script_.answer_tokens);
    options.ignore_end = true;
    const auto begin = Clock::now();
    EBB_TRY_ASSIGN(const engine::Answer answer,
                   conversation_.generate(
                       history_, options, [](const engine::TokenEvent&) { return go_on(); },
                       [](std::size_t, std::size_t) { return go_on(); }));
    const double elapsed = milliseconds_since(begin);
    if (answer.finish == engine::FinishReason::Cancelled) return fail(ErrorCode::Cancelled, "stopped");
    history_.insert(history_.end(), answer.tokens.begin(), answer.tokens.end());
    return elapsed;
  }

  // Reads a whole turn, the answer's share too: for memory it does not matter who wrote the tokens.
  Status read_turn() {
    add(script_.turn_tokens());
    EBB_TRY(conversation_.sync(history_, [](std::size_t, std::size_t) { return go_on(); }));
    return {};
  }

  [[nodiscard]] std::size_t tokens() const { return history_.size(); }

 private:
  void add(std::size_t count) {
    const Tokens more = random_tokens(model_, count, random_);
    history_.insert(history_.end(), more.begin(), more.end());
  }

  engine::Engine& model_;
  engine::Conversation& conversation_;
  const Script script_;
  Tokens history_;
  std::mt19937_64 random_{1};
};

// Everything has run once and nothing but the weights is left.
Result<std::size_t> reach_floor(engine::Engine& model, engine::Conversation& conversation) {
  ScriptedChat chat(model, conversation, {1, 4, 2});
  EBB_TRY(chat.answer_turn());
  conversation.reset();
  model.reclaim(engine::Level::Full);
  return memory_point(model.memory()).device_bytes;
}

Result<StrategyResult> measure_strategy(engine::Engine& model, const Strategy& strategy, const std::string& name,
                                        const Script& script, ProgressBar& bar) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Conversation> conversation, model.new_conversation());
  StrategyResult result{name, 0, {}};
  EBB_TRY_ASSIGN(result.floor_bytes, reach_floor(model, *conversation));
  ScriptedChat chat(model, *conversation, script);
  for (std::size_t turn = 0; turn < script.turns; ++turn) {
    bar.update(turn, script.turns, name);
    EBB_TRY_ASSIGN(const double elapsed, chat.answer_turn());
    if (strategy.at_the_end && turn + 1 == script.turns) model.reclaim(engine::Level::Full);
    result.turns.push_back({memory_point(model.memory()), elapsed});
  }
  return result;
}

std::size_t device_bytes_of(const engine::MemoryStatus& status, std::uint64_t id) {
  const auto chat = std::ranges::find(status.conversations, id, &engine::ConversationStatus::id);
  return chat == status.conversations.end() ? 0 : chat->device_bytes;
}

Result<ResetResult> measure_reset(engine::Engine& model, std::string name, std::size_t turns, const Script& script,
                                  int repetitions, ProgressBar& bar) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Conversation> conversation, model.new_conversation());
  ResetResult result;
  result.chat = std::move(name);
  result.turns = turns;
  result.confirmed = true;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    bar.update(static_cast<std::size_t>(repetition), static_cast<std::size_t>(repetitions), result.chat);
    ScriptedChat chat(model, *conversation, script);
    for (std::size_t turn = 0; turn < turns; ++turn) EBB_TRY(chat.read_turn());
    model.reclaim(engine::Level::Answer);  // what a chat's answer would have left behind it
    const engine::MemoryStatus before = model.memory();
    const auto begin = Clock::now();
    const engine::Receipt receipt = conversation->reset();
    result.ms.push_back(milliseconds_since(begin));
    result.tokens = chat.tokens();
    result.chat_bytes = device_bytes_of(before, conversation->id());
    result.before_bytes = memory_point(before).device_bytes;
    result.after_bytes = memory_point(model.memory()).device_bytes;
    result.confirmed = result.confirmed && receipt.confirmed;
  }
  std::ranges::sort(result.ms);
  return result;
}

Result<std::vector<ResetResult>> measure_resets(engine::Engine& model, const Script& script, int repetitions,
                                                ProgressBar& bar) {
  const std::size_t most_turns = (model.info().context - 1) / script.turn_tokens();
  const std::size_t short_turns = std::min<std::size_t>(2, most_turns);
  const std::size_t long_turns = std::min(2 * script.turns, most_turns);
  std::vector<ResetResult> results;
  for (const auto& [name, turns] : {std::pair{"short chat", short_turns}, std::pair{"the chat above", script.turns},
                                    std::pair{"long chat", long_turns}}) {
    EBB_TRY_ASSIGN(ResetResult result, measure_reset(model, name, turns, script, repetitions, bar));
    results.push_back(std::move(result));
  }
  return results;
}

std::string device_names(const engine::MemoryStatus& status) {
  std::string names;
  for (const engine::DeviceStatus& device : status.devices) names += (names.empty() ? "" : " + ") + device.name;
  return names;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  if (file && file << text && file.flush()) return {};
  return fail(ErrorCode::Io, fmt::format("{}: cannot be written", path));
}

}  // namespace

Result<int> run_bench_memory(const Options& options) {
  const int every = options.engine.memory.full_every_turns > 0 ? options.engine.memory.full_every_turns : 5;
  Options wanted = options;
  wanted.engine.memory.full_every_turns = every;
  constexpr std::array<Strategy, 4> kStrategies{{{"none", false, false, false},
                                                 {"after each answer", true, false, false},
                                                 {"+ every {} turns", true, true, false},
                                                 {"three levels", true, true, true}}};
  MemoryReport report;
  ProgressBar bar("bench memory", options.verbosity >= 1);
  for (const Strategy& strategy : kStrategies) {
    EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(with_strategy(wanted, strategy)));
    EBB_TRY_ASSIGN(const Script script, script_for(model->info(), options));
    const std::string name = fmt::format(fmt::runtime(strategy.name), every);
    EBB_TRY_ASSIGN(StrategyResult result, measure_strategy(*model, strategy, name, script, bar));
    report.strategies.push_back(std::move(result));
    if (&strategy != &kStrategies.back()) continue;
    report.model = model->info();
    report.devices = device_names(model->memory());
    report.message_tokens = script.message_tokens;
    report.answer_tokens = script.answer_tokens;
    EBB_TRY_ASSIGN(report.resets, measure_resets(*model, script, options.repetitions, bar));
  }
  bar.clear();
  EBB_TRY(write_output(memory_report(report, options.format)));
  if (!options.svg_file.empty()) EBB_TRY(write_file(options.svg_file, svg_of(memory_chart(report))));
  return kExitDone;
}

}  // namespace ebb::cli
