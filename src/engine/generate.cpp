// Conversation::generate: one answer, token by token.
#include <array>
#include <chrono>
#include <utility>

#include "engine/conversation.h"
#include "engine/internal/conversation_state.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "tokenizer/text_stream.h"

namespace ebb::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

bool ends_generation(const tokenizer::SpecialIds& special, std::int32_t id) {
  return id >= 0 && (id == special.eos || id == special.end_of_turn);
}

TokenLogProbs describe(const tokenizer::Tokenizer& tokenizer, const LogProbs& values) {
  const auto named = [&](const IdLogProb& value) {
    return TokenLogProb{value.id, std::string(tokenizer.bytes(value.id)), value.log_prob};
  };
  TokenLogProbs result{named(values.chosen), {}};
  for (const IdLogProb& value : values.top) result.top.push_back(named(value));
  return result;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::EndToken:
    case FinishReason::StopString:
      return "stop";
    case FinishReason::Length:
      return "length";
    case FinishReason::ContextFull:
      return "context";
    case FinishReason::Cancelled:
      return "cancelled";
  }
  return "";
}

Result<Answer> Conversation::generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                      const TokenSink& sink, const Progress& progress) {
  const Engine::State& engine = state_->engine;
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer;
  const tokenizer::SpecialIds& special = tokenizer.special();
  EBB_TRY(state_->check(prompt));
  // Padding and image markers are never an answer (spec: generation defaults).
  const std::array<std::int32_t, 4> forbidden = {special.pad, special.bos, special.start_of_image, special.end_of_image};
  EBB_TRY_ASSIGN(Sampler sampler, Sampler::create(options.sampling, engine.info.vocabulary, forbidden));

  Answer answer;
  answer.seed = sampler.seed();
  answer.usage.prompt_tokens = prompt.size();
  std::vector<std::int32_t> history(prompt.begin(), prompt.end());
  // Chosen while the step's logits are still there: between steps another conversation may use the same memory.
  Result<std::int32_t> next = 0;
  TokenLogProbs next_log_probs;
  const auto choose = [&](std::size_t, std::span<const float> row) {
    const std::span<const float> logits = row.first(engine.info.vocabulary);
    next = sampler.sample(logits, history);
    if (next && options.log_probs >= 0) {
      next_log_probs = describe(tokenizer, log_probs(logits, *next, static_cast<std::size_t>(options.log_probs)));
    }
  };

  Pass pass(*state_, Pass::Kind::Answer);
  const Clock::time_point start = Clock::now();
  EBB_TRY_ASSIGN(answer.usage.cached_tokens, pass.begin(prompt, prompt.size() - 1));
  EBB_TRY(pass.extend(prompt, prompt.size() - 1, choose, progress));
  answer.timings.prompt_ms = ms_since(start);

  const Clock::time_point decode_start = Clock::now();
  tokenizer::TextStream characters;
  StopStrings stops(options.stop);
  const auto show = [&](std::string_view text, std::int32_t id, const TokenLogProbs* log_probs_of_token) {
    answer.text += text;
    return !sink || sink(TokenEvent{id, text, log_probs_of_token});
  };
  answer.finish = FinishReason::Length;
  while (options.max_tokens < 0 || answer.tokens.size() < static_cast<std::size_t>(options.max_tokens)) {
    if (history.size() >= engine.info.context) {
      answer.finish = FinishReason::ContextFull;
      break;
    }
    EBB_TRY_ASSIGN(const std::int32_t id, next);
    answer.tokens.push_back(id);
    history.push_back(id);
    const TokenLogProbs* log_probs_of_token = nullptr;
    if (options.log_probs >= 0) log_probs_of_token = &answer.log_probs.emplace_back(std::exchange(next_log_probs, {}));
    if (!options.ignore_end && ends_generation(special, id)) {
      answer.finish = FinishReason::EndToken;
      break;
    }
    const std::string_view bytes = tokenizer.is_control(id) ? std::string_view() : tokenizer.bytes(id);
    const bool go_on = show(stops.push(characters.push(bytes)), id, log_probs_of_token);
    if (stops.stopped()) {
      answer.finish = FinishReason::StopString;
      answer.stop_string = stops.met();
      break;
    }
    if (!go_on) {
      answer.finish = FinishReason::Cancelled;
      break;
    }
    const bool last = options.max_tokens >= 0 && answer.tokens.size() == static_cast<std::size_t>(options.max_tokens);
    if (last) continue;
    if (Status stepped = pass.extend(history, history.size() - 1, choose, nullptr); !stepped) {
      if (stepped.error().code != ErrorCode::Cancelled) return tl::unexpected<Error>(std::move(stepped).error());
      answer.finish = FinishReason::Cancelled;
      break;
    }
  }
  if (answer.finish != FinishReason::StopString) {
    const std::int32_t last_id = answer.tokens.empty() ? -1 : answer.tokens.back();
    std::string tail = stops.push(characters.finish());
    if (!stops.stopped()) tail += stops.finish();
    if (!tail.empty()) show(tail, last_id, nullptr);
  }
  answer.usage.completion_tokens = answer.tokens.size();
  answer.timings.completion_ms = ms_since(decode_start);
  return answer;
}

}  // namespace ebb::engine
