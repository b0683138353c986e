#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

using Json = nlohmann::ordered_json;

// Percent of what reading the weights alone would allow; prompts have no such ceiling, since they reuse what they read.
double percent_of_ceiling(const SpeedReport& report, const SpeedRow& row) {
  return row.median() / report.ceiling.tokens_per_second() * 100;
}
bool has_percent(const SpeedReport& report, const SpeedRow& row) { return row.is_answer && report.ceiling.bytes_per_token > 0; }

std::string as_markdown(const SpeedReport& report) {
  std::string table = fmt::format("{}, {} threads, {}, peak memory {}\n", report.model.name, report.model.threads,
                                  report.model.arithmetic, format_bytes(report.peak_bytes));
  if (report.ceiling.bytes_per_token > 0) {
    table += fmt::format("ceiling of an answer: {} of weights a token, read at {:.1f} GB/s, allow {:.1f} tok/s\n",
                         format_bytes(report.ceiling.bytes_per_token), report.ceiling.read_bytes_per_second / 1e9,
                         report.ceiling.tokens_per_second());
  }
  table += "\n| test | median tok/s | lowest | highest | % of ceiling | runs |\n|---|---:|---:|---:|---:|---:|\n";
  for (const SpeedRow& row : report.rows) {
    table += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {} | {} |\n", row.test, row.median(),
                         row.tokens_per_second.front(), row.tokens_per_second.back(),
                         has_percent(report, row) ? fmt::format("{:.0f}", percent_of_ceiling(report, row)) : "",
                         row.tokens_per_second.size());
  }
  return table;
}

std::string as_csv(const SpeedReport& report) {
  std::string name = report.model.name;
  std::ranges::replace(name, '"', '\'');
  std::string table =
      "model,threads,arithmetic,test,tokens,median_tokens_per_second,lowest,highest,percent_of_ceiling,runs,peak_"
      "bytes\n";
  for (const SpeedRow& row : report.rows) {
    table += fmt::format("\"{}\",{},{},{},{},{:.3f},{:.3f},{:.3f},{},{},{}\n", name, report.model.threads,
                         report.model.arithmetic, row.test, row.tokens, row.median(), row.tokens_per_second.front(),
                         row.tokens_per_second.back(),
                         has_percent(report, row) ? fmt::format("{:.1f}", percent_of_ceiling(report, row)) : "",
                         row.tokens_per_second.size(), report.peak_bytes);
  }
  return table;
}

std::string as_json(const SpeedReport& report) {
  Json rows = Json::array();
  for (const SpeedRow& row : report.rows) {
    Json entry{{"test", row.test},
               {"tokens", row.tokens},
               {"median_tokens_per_second", row.median()},
               {"samples", row.tokens_per_second}};
    if (has_percent(report, row)) entry["percent_of_ceiling"] = percent_of_ceiling(report, row);
    rows.push_back(std::move(entry));
  }
  const engine::ModelInfo& model = report.model;
  Json object{{"model", model.name},
              {"types", model.types},
              {"file_bytes", model.file_bytes},
              {"threads", model.threads},
              {"arithmetic", model.arithmetic},
              {"kv_type", model.kv_type},
              {"peak_bytes", report.peak_bytes}};
  if (report.ceiling.bytes_per_token > 0) {
    object["ceiling"] = {{"weight_bytes_per_token", report.ceiling.bytes_per_token},
                         {"read_bytes_per_second", report.ceiling.read_bytes_per_second},
                         {"tokens_per_second", report.ceiling.tokens_per_second()}};
  }
  object["rows"] = std::move(rows);
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

double SpeedRow::median() const {
  const std::size_t half = tokens_per_second.size() / 2;
  const double upper = tokens_per_second[half];
  return tokens_per_second.size() % 2 == 1 ? upper : (tokens_per_second[half - 1] + upper) / 2;
}

std::string speed_report(const SpeedReport& report, TableFormat format) {
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

}  // namespace ebb::cli
