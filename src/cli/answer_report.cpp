#include "cli/answer_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ebb::cli {

namespace {

using Json = nlohmann::ordered_json;

double per_second(std::size_t tokens, double milliseconds) {
  return milliseconds > 0 ? static_cast<double>(tokens) * 1000.0 / milliseconds : 0.0;
}

std::size_t evaluated_tokens(const engine::Usage& usage) {
  return usage.prompt_tokens - std::min(usage.prompt_tokens, usage.cached_tokens);
}

Json token_json(const engine::TokenLogProb& token) {
  Json bytes = Json::array();
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"id", token.id}, {"text", token.bytes}, {"bytes", std::move(bytes)}, {"log_prob", token.log_prob}};
}

// Length of the UTF-8 sequence at the front, or 0 when there is none.
std::size_t sequence_length(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes.front());
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length > bytes.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(bytes[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string answer_json(const engine::Answer& answer, const std::string& model_name) {
  Json object;
  object["model"] = model_name;
  object["text"] = answer.text;
  object["tokens"] = answer.tokens;
  object["finish_reason"] = engine::finish_reason_name(answer.finish);
  object["stop_string"] = answer.finish == engine::FinishReason::StopString ? Json(answer.stop_string) : Json(nullptr);
  object["seed"] = answer.seed;
  object["usage"] = {{"prompt_tokens", answer.usage.prompt_tokens},
                     {"cached_tokens", answer.usage.cached_tokens},
                     {"completion_tokens", answer.usage.completion_tokens},
                     {"total_tokens", answer.usage.prompt_tokens + answer.usage.completion_tokens}};
  object["timings"] = {
      {"prompt_ms", answer.timings.prompt_ms},
      {"prompt_tokens_per_second", per_second(evaluated_tokens(answer.usage), answer.timings.prompt_ms)},
      {"completion_ms", answer.timings.completion_ms},
      {"completion_tokens_per_second", per_second(answer.usage.completion_tokens, answer.timings.completion_ms)}};
  if (!answer.log_probs.empty()) {
    Json all = Json::array();
    for (const engine::TokenLogProbs& step : answer.log_probs) {
      Json entry = token_json(step.chosen);
      entry["top"] = Json::array();
      for (const engine::TokenLogProb& other : step.top) entry["top"].push_back(token_json(other));
      all.push_back(std::move(entry));
    }
    object["log_probs"] = std::move(all);
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string timing_line(const engine::Answer& answer) {
  const engine::Usage& usage = answer.usage;
  const std::string cached = usage.cached_tokens > 0 ? fmt::format(" ({} kept from before)", usage.cached_tokens) : "";
  return fmt::format("prompt {} tokens{}, {:.1f} tok/s; answer {} tokens, {:.1f} tok/s; seed {}", usage.prompt_tokens,
                     cached, per_second(evaluated_tokens(usage), answer.timings.prompt_ms), usage.completion_tokens,
                     per_second(usage.completion_tokens, answer.timings.completion_ms), answer.seed);
}

std::string ending_note(const engine::Answer& answer, const engine::ModelInfo& info) {
  if (answer.finish == engine::FinishReason::ContextFull) {
    return fmt::format(
        "the answer stopped because the context of {} tokens is full; use a larger -c (this model was trained for {})",
        info.context, info.trained_context);
  }
  return answer.finish == engine::FinishReason::Length ? "the answer was cut at the number of tokens that -n allows"
                                                       : "";
}

std::string log_prob_table(const engine::Answer& answer) {
  std::string table;
  for (const engine::TokenLogProbs& step : answer.log_probs) {
    table += fmt::format("{:9.4f}  {:>6}  {:<16}", step.chosen.log_prob, step.chosen.id, escaped(step.chosen.bytes));
    for (const engine::TokenLogProb& other : step.top) {
      table += fmt::format("  {} {:.4f}", escaped(other.bytes), other.log_prob);
    }
    table += '\n';
  }
  return table;
}

std::string escaped(std::string_view bytes) {
  std::string result;
  while (!bytes.empty()) {
    const auto lead = static_cast<unsigned char>(bytes.front());
    const std::size_t length = sequence_length(bytes);
    if (lead == '\n') {
      result += "\\n";
    } else if (lead == '\t') {
      result += "\\t";
    } else if (lead == '\\') {
      result += "\\\\";
    } else if (length == 0 || lead < 0x20 || lead == 0x7F) {
      result += fmt::format("\\x{:02X}", lead);
    } else {
      result += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace ebb::cli
