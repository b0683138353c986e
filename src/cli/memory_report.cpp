#include "cli/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

using Json = nlohmann::ordered_json;

double share(std::size_t part_end, std::size_t part_begin, std::size_t whole) {
  if (whole == 0 || part_begin > part_end) return 0;
  return static_cast<double>(part_end - part_begin) / static_cast<double>(whole);
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }
// A floor that was higher than what a turn left would be a fault of the measurement; it shows as 0 in no report.
double above_floor_mib(const StrategyResult& strategy, const TurnResult& turn) {
  return mib(turn.after.device_bytes) - mib(strategy.floor_bytes);
}

std::size_t turn_count(const MemoryReport& report) {
  return report.strategies.empty() ? 0 : report.strategies.front().turns.size();
}

std::string strategies_markdown(const MemoryReport& report) {
  std::string table = fmt::format(
      "\nAfter {} turns\n\n"
      "| strategy | on the device | above the floor | internal | in the pool | all waste | mean answer |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n",
      turn_count(report));
  for (const StrategyResult& strategy : report.strategies) {
    if (strategy.turns.empty()) continue;
    const TurnResult& last = strategy.turns.back();
    table += fmt::format("| {} | {} | {:.2f} MiB | {:.2f} % | {:.2f} % | {:.2f} % | {:.0f} ms |\n", strategy.name,
                         format_bytes(last.after.device_bytes), above_floor_mib(strategy, last),
                         last.after.internal_fragmentation() * 100, last.after.pool_share() * 100,
                         last.after.waste() * 100, strategy.mean_answer_ms());
  }
  return table;
}

std::string turns_markdown(const MemoryReport& report) {
  std::string head = "\nMiB above the floor, after each turn\n\n| turn |", rule = "|---:|";
  for (const StrategyResult& strategy : report.strategies) {
    head += fmt::format(" {} |", strategy.name);
    rule += "---:|";
  }
  std::string table = head + "\n" + rule + "\n";
  for (std::size_t turn = 0; turn < turn_count(report); ++turn) {
    table += fmt::format("| {} |", turn + 1);
    for (const StrategyResult& strategy : report.strategies) {
      table += fmt::format(" {:.2f} |", above_floor_mib(strategy, strategy.turns[turn]));
    }
    table += "\n";
  }
  return table;
}

std::string resets_markdown(const MemoryReport& report) {
  std::string table =
      "\nReset\n\n"
      "| chat | turns | tokens | on the device before | after | the chat's bytes | released | median | slowest | "
      "confirmed "
      "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
  for (const ResetResult& reset : report.resets) {
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {:.1f} % | {:.2f} ms | {:.2f} ms | {} |\n", reset.chat,
                         reset.turns, reset.tokens, format_bytes(reset.before_bytes), format_bytes(reset.after_bytes),
                         format_bytes(reset.chat_bytes), reset.released_share() * 100, reset.median_ms(),
                         reset.ms.back(), reset.confirmed ? "yes" : "no");
  }
  return table;
}

std::string as_markdown(const MemoryReport& report) {
  const engine::ModelInfo& model = report.model;
  std::string text = fmt::format("{}, {}, on {}, KV {}, {} threads; a turn is {} tokens read and {} written\n",
                                 model.name, model.types, report.devices, model.kv_type, model.threads,
                                 report.message_tokens, report.answer_tokens);
  if (!report.strategies.empty()) {
    text += fmt::format("floor (weights loaded, no chat): {} by the device's own count\n",
                        format_bytes(report.strategies.front().floor_bytes));
  }
  return text + strategies_markdown(report) + turns_markdown(report) + resets_markdown(report);
}

// One value a line, so that both tables fit in one file.
std::string as_csv(const MemoryReport& report) {
  std::string text = "table,case,turn,quantity,value\n";
  const auto add = [&](std::string_view table, std::string_view name, std::size_t turn, std::string_view quantity,
                       const auto& value) {
    text += fmt::format("{},{},{},{},{}\n", table, name, turn, quantity, value);
  };
  for (const StrategyResult& strategy : report.strategies) {
    add("turns", strategy.name, 0, "floor_bytes", strategy.floor_bytes);
    for (std::size_t i = 0; i < strategy.turns.size(); ++i) {
      const TurnResult& turn = strategy.turns[i];
      add("turns", strategy.name, i + 1, "device_bytes", turn.after.device_bytes);
      add("turns", strategy.name, i + 1, "held_bytes", turn.after.held_bytes);
      add("turns", strategy.name, i + 1, "mapped_bytes", turn.after.mapped_bytes);
      add("turns", strategy.name, i + 1, "live_bytes", turn.after.live_bytes);
      add("turns", strategy.name, i + 1, "answer_ms", fmt::format("{:.3f}", turn.answer_ms));
    }
  }
  for (const ResetResult& reset : report.resets) {
    add("reset", reset.chat, reset.turns, "tokens", reset.tokens);
    add("reset", reset.chat, reset.turns, "before_bytes", reset.before_bytes);
    add("reset", reset.chat, reset.turns, "after_bytes", reset.after_bytes);
    add("reset", reset.chat, reset.turns, "chat_bytes", reset.chat_bytes);
    add("reset", reset.chat, reset.turns, "confirmed", reset.confirmed);
    for (const double ms : reset.ms) add("reset", reset.chat, reset.turns, "ms", fmt::format("{:.4f}", ms));
  }
  return text;
}

Json turn_json(const TurnResult& turn) {
  return {{"device_bytes", turn.after.device_bytes},
          {"held_bytes", turn.after.held_bytes},
          {"mapped_bytes", turn.after.mapped_bytes},
          {"live_bytes", turn.after.live_bytes},
          {"fragmentation",
           {{"internal", turn.after.internal_fragmentation()},
            {"pool", turn.after.pool_share()},
            {"total", turn.after.waste()}}},
          {"answer_ms", turn.answer_ms}};
}

std::string as_json(const MemoryReport& report) {
  Json strategies = Json::array();
  for (const StrategyResult& strategy : report.strategies) {
    Json turns = Json::array();
    for (const TurnResult& turn : strategy.turns) turns.push_back(turn_json(turn));
    strategies.push_back({{"name", strategy.name},
                          {"floor_bytes", strategy.floor_bytes},
                          {"mean_answer_ms", strategy.mean_answer_ms()},
                          {"turns", std::move(turns)}});
  }
  Json resets = Json::array();
  for (const ResetResult& reset : report.resets) {
    resets.push_back({{"chat", reset.chat},
                      {"turns", reset.turns},
                      {"tokens", reset.tokens},
                      {"before_bytes", reset.before_bytes},
                      {"after_bytes", reset.after_bytes},
                      {"chat_bytes", reset.chat_bytes},
                      {"released_share", reset.released_share()},
                      {"ms", reset.ms},
                      {"confirmed", reset.confirmed}});
  }
  const Json object{{"model", report.model.name},
                    {"types", report.model.types},
                    {"kv_type", report.model.kv_type},
                    {"threads", report.model.threads},
                    {"devices", report.devices},
                    {"message_tokens", report.message_tokens},
                    {"answer_tokens", report.answer_tokens},
                    {"strategies", std::move(strategies)},
                    {"resets", std::move(resets)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

double MemoryPoint::internal_fragmentation() const { return share(mapped_bytes, live_bytes, mapped_bytes); }
double MemoryPoint::pool_share() const { return share(held_bytes, mapped_bytes, held_bytes); }
double MemoryPoint::waste() const { return share(held_bytes, live_bytes, held_bytes); }

MemoryPoint memory_point(const engine::MemoryStatus& status) {
  MemoryPoint point;
  for (const engine::DeviceStatus& device : status.devices) {
    point.device_bytes += device.used_by_us_bytes;
    point.live_bytes += device.live_bytes;
    point.mapped_bytes += device.mapped_bytes;
    point.held_bytes += device.held_bytes;
  }
  return point;
}

double StrategyResult::mean_answer_ms() const {
  if (turns.empty()) return 0;
  const double sum = std::accumulate(turns.begin(), turns.end(), 0.0,
                                     [](double so_far, const TurnResult& turn) { return so_far + turn.answer_ms; });
  return sum / static_cast<double>(turns.size());
}

double ResetResult::released_share() const {
  return chat_bytes == 0 ? 0 : std::min(1.0, share(before_bytes, after_bytes, chat_bytes));
}

double ResetResult::median_ms() const {
  const std::size_t half = ms.size() / 2;
  return ms.size() % 2 == 1 ? ms[half] : (ms[half - 1] + ms[half]) / 2;
}

std::string memory_report(const MemoryReport& report, TableFormat format) {
  switch (format) {
    case TableFormat::Markdown:
      return as_markdown(report);
    case TableFormat::Csv:
      return as_csv(report);
    case TableFormat::Json:
      return as_json(report);
  }
  return "";
}

LineChart memory_chart(const MemoryReport& report) {
  LineChart chart;
  chart.title = fmt::format("Memory of a chat by strategy: {}", report.model.name);
  chart.x_label = fmt::format("turns of {} + {} tokens", report.message_tokens, report.answer_tokens);
  chart.y_label = "MiB above the weights, by the device's count";
  for (const StrategyResult& strategy : report.strategies) {
    ChartLine line{strategy.name, {}};
    for (const TurnResult& turn : strategy.turns) line.values.push_back(above_floor_mib(strategy, turn));
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

}  // namespace ebb::cli
