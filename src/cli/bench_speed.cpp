// `ebb bench speed`: tokens a second for prompts and answers of given sizes, each after a run to warm up.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>

#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/random_tokens.h"
#include "cli/terminal.h"
#include "engine/conversation.h"

namespace ebb::cli {

namespace {

Tokens random_prompt(const engine::Engine& model, std::size_t count, std::mt19937_64& random) {
  Tokens tokens = random_tokens(model, count - 1, random);
  tokens.insert(tokens.begin(), model.bos());
  return tokens;
}

Result<double> time_prompt(engine::Conversation& conversation, const Tokens& prompt) {
  conversation.reset();
  const auto begin = std::chrono::steady_clock::now();
  EBB_TRY(conversation.sync(prompt, [](std::size_t, std::size_t) { return go_on(); }));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(prompt.size()) / elapsed.count();
}

Result<double> time_answer(engine::Conversation& conversation, const engine::Engine& model, std::size_t count) {
  conversation.reset();
  engine::GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = static_cast<std::int64_t>(count);
  options.ignore_end = true;
  const Tokens prompt{model.bos()};
  EBB_TRY_ASSIGN(const engine::Answer answer,
                 conversation.generate(prompt, options, [](const engine::TokenEvent&) { return go_on(); }, {}));
  if (answer.finish == engine::FinishReason::Cancelled) return fail(ErrorCode::Cancelled, "stopped");
  return static_cast<double>(answer.usage.completion_tokens) * 1000.0 / answer.timings.completion_ms;
}

template <typename Measure>
Result<SpeedRow> measure_row(std::string test, bool is_answer, std::size_t tokens, int repetitions, bool progress,
                             const Measure& measure) {
  SpeedRow row{std::move(test), is_answer, tokens, {}};
  ProgressBar bar(row.test, progress);
  EBB_TRY(measure());
  for (int done = 0; done < repetitions; ++done) {
    bar.update(static_cast<std::size_t>(done), static_cast<std::size_t>(repetitions));
    EBB_TRY_ASSIGN(const double speed, measure());
    row.tokens_per_second.push_back(speed);
  }
  std::ranges::sort(row.tokens_per_second);
  return row;
}

Result<std::vector<SpeedRow>> measure_all(engine::Engine& model, const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Conversation> conversation, model.new_conversation());
  std::mt19937_64 random(1);  // the same tokens each time
  std::vector<SpeedRow> rows;
  for (const std::size_t size : options.prompt_sizes) {
    if (size == 0) continue;
    const Tokens prompt = random_prompt(model, size, random);
    EBB_TRY_ASSIGN(SpeedRow row,
                   measure_row(fmt::format("prompt {}", size), false, size, options.repetitions, options.verbosity >= 1,
                               [&] { return time_prompt(*conversation, prompt); }));
    rows.push_back(std::move(row));
  }
  for (const std::size_t size : options.answer_sizes) {
    if (size == 0) continue;
    EBB_TRY_ASSIGN(SpeedRow row,
                   measure_row(fmt::format("answer {}", size), true, size, options.repetitions, options.verbosity >= 1,
                               [&] { return time_answer(*conversation, model, size); }));
    rows.push_back(std::move(row));
  }
  return rows;
}

// The most this process ever held in memory, mapped weights included.
std::size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace

Result<int> run_bench_speed(const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));
  SpeedReport report{model->info(), {}, 0, {}};
  EBB_TRY_ASSIGN(report.rows, measure_all(*model, options));
  if (report.rows.empty()) return fail(ErrorCode::InvalidArgument, "nothing to measure: -p and -n are both 0");
  report.peak_bytes = peak_bytes();
  const bool answers = std::ranges::any_of(report.rows, &SpeedRow::is_answer);
  if (answers) report.ceiling = engine::measure_decode_ceiling(*model);
  EBB_TRY(write_output(speed_report(report, options.format)));
  return kExitDone;
}

}  // namespace ebb::cli
