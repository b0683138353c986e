// `ebb bench speed`: tokens a second for prompts and answers of given sizes, each after a run to warm up.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "engine/conversation.h"

namespace ebb::cli {

namespace {

using Tokens = std::vector<std::int32_t>;

struct Row {
  std::string test;  // "prompt 512", "answer 128"
  std::size_t tokens = 0;
  std::vector<double> tokens_per_second;  // ascending once complete

  [[nodiscard]] double median() const {
    const std::size_t half = tokens_per_second.size() / 2;
    return tokens_per_second.size() % 2 == 1 ? tokens_per_second[half]
                                             : (tokens_per_second[half - 1] + tokens_per_second[half]) / 2;
  }
};

// Ids past the first 1,000, which hold control, unused and byte tokens in Gemma's vocabulary.
Tokens random_prompt(const engine::Engine& model, std::size_t count, std::mt19937_64& random) {
  const auto vocabulary = static_cast<std::int32_t>(model.info().vocabulary);
  const std::int32_t first = vocabulary > 2000 ? 1000 : 0;
  Tokens tokens{model.bos()};
  while (tokens.size() < count) {
    tokens.push_back(first + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocabulary - first)));
  }
  tokens.resize(count);
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
Result<Row> measure_row(std::string test, std::size_t tokens, int repetitions, bool progress, const Measure& measure) {
  Row row{std::move(test), tokens, {}};
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

Result<std::vector<Row>> measure_all(engine::Engine& model, const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Conversation> conversation, model.new_conversation());
  std::mt19937_64 random(1);  // the same tokens each time
  std::vector<Row> rows;
  for (const std::size_t size : options.prompt_sizes) {
    if (size == 0) continue;
    const Tokens prompt = random_prompt(model, size, random);
    EBB_TRY_ASSIGN(Row row, measure_row(fmt::format("prompt {}", size), size, options.repetitions,
                                        options.verbosity >= 1, [&] { return time_prompt(*conversation, prompt); }));
    rows.push_back(std::move(row));
  }
  for (const std::size_t size : options.answer_sizes) {
    if (size == 0) continue;
    EBB_TRY_ASSIGN(Row row,
                   measure_row(fmt::format("answer {}", size), size, options.repetitions, options.verbosity >= 1,
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

std::string as_markdown(const engine::ModelInfo& info, const std::vector<Row>& rows, std::size_t peak) {
  std::string table = fmt::format("{}, {} threads, {}, peak memory {:.1f} MiB\n\n", info.name, info.threads,
                                  info.arithmetic, static_cast<double>(peak) / 1048576.0);
  table += "| test | median tok/s | lowest | highest | runs |\n|---|---:|---:|---:|---:|\n";
  for (const Row& row : rows) {
    table += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {} |\n", row.test, row.median(),
                         row.tokens_per_second.front(), row.tokens_per_second.back(), row.tokens_per_second.size());
  }
  return table;
}

std::string as_csv(const engine::ModelInfo& info, const std::vector<Row>& rows, std::size_t peak) {
  std::string name = info.name;
  std::ranges::replace(name, '"', '\'');
  std::string table = "model,threads,arithmetic,test,tokens,median_tokens_per_second,lowest,highest,runs,peak_bytes\n";
  for (const Row& row : rows) {
    table += fmt::format("\"{}\",{},{},{},{},{:.3f},{:.3f},{:.3f},{},{}\n", name, info.threads, info.arithmetic,
                         row.test, row.tokens, row.median(), row.tokens_per_second.front(),
                         row.tokens_per_second.back(), row.tokens_per_second.size(), peak);
  }
  return table;
}

std::string as_json(const engine::ModelInfo& info, const std::vector<Row>& rows, std::size_t peak) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back({{"test", row.test},
                    {"tokens", row.tokens},
                    {"median_tokens_per_second", row.median()},
                    {"samples", row.tokens_per_second}});
  }
  const Json object{{"model", info.name},      {"types", info.types},           {"file_bytes", info.file_bytes},
                    {"threads", info.threads}, {"arithmetic", info.arithmetic}, {"kv_type", info.kv_type},
                    {"peak_bytes", peak},      {"rows", std::move(list)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<int> run_bench_speed(const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));
  EBB_TRY_ASSIGN(const std::vector<Row> rows, measure_all(*model, options));
  if (rows.empty()) return fail(ErrorCode::InvalidArgument, "nothing to measure: -p and -n are both 0");
  const std::size_t peak = peak_bytes();
  switch (options.format) {
    case TableFormat::Markdown:
      EBB_TRY(write_output(as_markdown(model->info(), rows, peak)));
      break;
    case TableFormat::Csv:
      EBB_TRY(write_output(as_csv(model->info(), rows, peak)));
      break;
    case TableFormat::Json:
      EBB_TRY(write_output(as_json(model->info(), rows, peak)));
      break;
  }
  return kExitDone;
}

}  // namespace ebb::cli
