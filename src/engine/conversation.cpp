#include "engine/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/internal/conversation_state.h"
#include "engine/sampler.h"

namespace ebb::engine {

Conversation::Conversation(std::unique_ptr<State> state) : state_(std::move(state)) {
  const std::lock_guard lock(state_->engine.registry);
  state_->engine.conversations.emplace(state_->id, state_.get());
}

Conversation::~Conversation() {
  Engine::State& engine = state_->engine;
  const std::lock_guard step(engine.step);
  {
    const std::lock_guard lock(engine.registry);
    engine.conversations.erase(state_->id);
  }
  if (state_->cache != nullptr) static_cast<void>(engine.reclaimer->reset(*state_, Action::Delete, Reason::Delete));
}

Result<std::unique_ptr<Conversation>> Engine::new_conversation() {
  const std::lock_guard step(state_->step);
  auto state = std::make_unique<Conversation::State>(*state_, ++state_->last_owner);
  return std::unique_ptr<Conversation>(new Conversation(std::move(state)));
}

Status Conversation::State::check(std::span<const std::int32_t> all) const {
  const std::size_t context = engine.info.context;
  if (all.empty()) return fail(ErrorCode::InvalidArgument, "the prompt is empty; give at least one token");
  if (all.size() > context) {
    return fail(ErrorCode::ContextFull,
                fmt::format("the prompt has {} tokens and the context holds {}; shorten it, or open the model with a larger "
                            "context (-c, at most {} for this model)",
                            all.size(), context, engine.info.trained_context));
  }
  const auto rows = static_cast<std::int32_t>(engine.model->vocabulary());
  for (const std::int32_t token : all) {
    if (token < 0 || token >= rows) {
      return fail(ErrorCode::InvalidArgument, fmt::format("token id {} does not exist; ids go from 0 to {}", token, rows - 1));
    }
  }
  return {};
}

Result<std::size_t> Conversation::State::rewind(std::size_t count) {
  if (cache == nullptr) return std::size_t{0};
  std::size_t kept = cache->can_rewind(count) ? std::min(count, tokens.size()) : 0;
  if (!cache->rewind(kept)) {
    kept = 0;  // a window could not be filled again; all is evaluated anew
    EBB_TRY(cache->rewind(0));
  }
  tokens.resize(kept);
  publish();
  return kept;
}

void Conversation::State::forget() {
  ++epoch;
  cache.reset();
  tokens = {};
  logits = {};
  publish();
}

void Conversation::State::publish() {
  parked = cache != nullptr && cache->parked();
  token_count = tokens.size();
}

Result<SyncResult> Conversation::sync(std::span<const std::int32_t> tokens, const Progress& progress) {
  EBB_TRY(state_->check(tokens));
  Pass pass(*state_, Pass::Kind::Evaluation);
  EBB_TRY_ASSIGN(const std::size_t kept, pass.begin(tokens, tokens.size() - 1));
  EBB_TRY(pass.extend(
      tokens, tokens.size() - 1,
      [&](std::size_t, std::span<const float> logits) { state_->logits.assign(logits.begin(), logits.end()); }, progress));
  return SyncResult{kept, tokens.size() - kept};
}

Result<std::vector<double>> Conversation::score(std::span<const std::int32_t> tokens, std::size_t first_pos) {
  EBB_TRY(state_->check(tokens));
  Pass pass(*state_, Pass::Kind::Evaluation);
  EBB_TRY_ASSIGN(const std::size_t kept, pass.begin(tokens, 0));
  EBB_CHECK(kept == 0, "{} tokens kept", kept);
  std::vector<double> scores;
  const auto sink = [&](std::size_t pos, std::span<const float> logits) {
    if (pos + 1 < tokens.size()) scores.push_back(log_probs(logits, tokens[pos + 1], 0).chosen.log_prob);
  };
  EBB_TRY(pass.extend(tokens, first_pos, sink, nullptr));
  return scores;
}

std::span<const float> Conversation::logits() const {
  return std::span(state_->logits).first(std::min(state_->logits.size(), state_->engine.info.vocabulary));
}

const std::vector<std::int32_t>& Conversation::tokens() const { return state_->tokens; }

void Conversation::rewind(std::size_t count) {
  const std::lock_guard step(state_->engine.step);
  const Result<std::size_t> kept = state_->rewind(count);
  EBB_CHECK(kept.has_value(), "giving pages back failed: {}", kept.error().message);
}

Receipt Conversation::reset() {
  const std::lock_guard step(state_->engine.step);
  return state_->engine.reclaimer->reset(*state_, Action::Reset, Reason::User);
}

Result<Receipt> Conversation::park() {
  const std::lock_guard step(state_->engine.step);
  return state_->engine.reclaimer->park(*state_, Reason::User);
}

void Conversation::stop() {
  const std::lock_guard step(state_->engine.step);
  ++state_->epoch;
}

std::uint64_t Conversation::id() const { return state_->id; }

}  // namespace ebb::engine
