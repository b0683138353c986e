// What comes back from a generation: events while it runs, the answer when it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::engine {

/// Natural logarithms of the model's own softmax, before any sampling option.
struct TokenLogProb {
  std::int32_t id = 0;
  std::string bytes;  // may be part of a character
  double log_prob = 0;
};
struct TokenLogProbs {
  TokenLogProb chosen;
  std::vector<TokenLogProb> top;  // best first
};

/// One step of an answer. `text` holds whole characters that may be shown now; it may be empty.
struct TokenEvent {
  std::int32_t id = 0;
  std::string_view text;
  const TokenLogProbs* log_probs = nullptr;  // when asked for
};

enum class FinishReason : std::uint8_t {
  EndToken,     // the model ended its turn
  StopString,   // one of GenerateOptions::stop
  Length,       // max_tokens
  ContextFull,  // the context has no room for another token
  Cancelled,
};
[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);  // "stop", "stop", "length", "context", "cancelled"

struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // prompt tokens that were not evaluated again (S8)
  std::size_t completion_tokens = 0;
};
struct Timings {
  double prompt_ms = 0;      // evaluating the prompt
  double completion_ms = 0;  // all decode steps
};

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;  // as generated, the end token included
  FinishReason finish = FinishReason::EndToken;
  std::string stop_string;  // the one met, when finish is StopString
  Usage usage;
  Timings timings;
  std::uint64_t seed = 0;  // the seed used
  std::vector<TokenLogProbs> log_probs;
};

/// Called after each token; return false to stop the answer.
using TokenSink = std::function<bool(const TokenEvent& event)>;
/// Called while a prompt is evaluated; return false to cancel.
using Progress = std::function<bool(std::size_t done_tokens, std::size_t total_tokens)>;

}  // namespace ebb::engine
