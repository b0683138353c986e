#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/conversation.h"
#include "engine/engine.h"

namespace ebb::engine {

Result<PerplexityResult> perplexity(Engine& engine, std::span<const std::int32_t> tokens, std::size_t context_tokens,
                                    const std::function<bool(std::size_t, std::size_t, double)>& progress) {
  if (context_tokens < 4 || context_tokens > engine.info().context) {
    return fail(ErrorCode::InvalidArgument, fmt::format("windows of {} tokens; 4 to {} can be used (-c)", context_tokens,
                                                        engine.info().context));
  }
  if (tokens.size() < context_tokens) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("the text has {} tokens, fewer than one window of {}; give a longer text or a smaller -c",
                            tokens.size(), context_tokens));
  }
  EBB_TRY_ASSIGN(const std::unique_ptr<Conversation> conversation, engine.new_conversation());
  PerplexityResult result;
  double square_sum = 0;
  const std::size_t windows = tokens.size() / context_tokens;
  for (std::size_t window_idx = 0; window_idx < windows; ++window_idx) {
    const auto part = tokens.subspan(window_idx * context_tokens, context_tokens);
    std::vector<std::int32_t> window(part.begin(), part.end());
    window.front() = engine.bos();
    EBB_TRY_ASSIGN(const std::vector<double> scores, conversation->score(window, context_tokens / 2));
    for (const double log_prob : scores) {
      result.nll_sum -= log_prob;
      square_sum += log_prob * log_prob;
    }
    result.scored_tokens += scores.size();
    result.windows = window_idx + 1;
    const auto count = static_cast<double>(result.scored_tokens);
    const double mean = result.nll_sum / count;
    result.perplexity = std::exp(mean);
    // Delta method: the error of exp(mean) is exp(mean) times the error of the mean.
    result.standard_error = result.perplexity * std::sqrt(std::max(0.0, square_sum / count - mean * mean) / std::max(1.0, count - 1));
    if (progress && !progress(result.windows, windows, result.perplexity)) {
      return fail(ErrorCode::Cancelled, fmt::format("stopped after {} of {} windows", result.windows, windows));
    }
  }
  return result;
}

}  // namespace ebb::engine
