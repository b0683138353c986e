#include "engine/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/internal/conversation_state.h"
#include "engine/sampler.h"

namespace ebb::engine {

Conversation::Conversation(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->engine.conversations.emplace(state_->id, this);
}

Conversation::~Conversation() {
  state_->engine.conversations.erase(state_->id);
  reset();
}

Result<std::unique_ptr<Conversation>> Engine::new_conversation() {
  const memory::OwnerId id = ++state_->last_owner;
  auto state = std::unique_ptr<Conversation::State>(new Conversation::State{*state_, id, nullptr, {}, {}});
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
  const std::size_t kept = cache->can_rewind(count) ? std::min(count, tokens.size()) : 0;
  EBB_TRY(cache->rewind(kept));
  tokens.resize(kept);
  return kept;
}

Result<std::size_t> Conversation::State::keep_prefix(std::span<const std::int32_t> all) {
  const auto [mine, theirs] = std::mismatch(tokens.begin(), tokens.end(), all.begin(), all.end());
  const auto common = static_cast<std::size_t>(mine - tokens.begin());
  return rewind(std::min(common, all.size() - 1));
}

Status Conversation::State::extend(std::span<const std::int32_t> all, std::size_t first_logit_pos,
                                   const model::LogitSink& sink, const Progress& progress) {
  if (cache == nullptr) {
    const model::KvPools pools{std::vector<memory::PagePool*>(engine.model->config().layers, engine.pool.get()), engine.pool.get()};
    EBB_TRY_ASSIGN(cache, model::KvCache::create(pools, id, engine.model->config(), engine.kv_options));
  }
  const std::size_t begin = tokens.size();
  while (tokens.size() < all.size()) {
    const std::size_t first = tokens.size();
    if (progress && !progress(first - begin, all.size() - begin)) {
      return fail(ErrorCode::Cancelled, fmt::format("stopped after {} of {} prompt tokens", first, all.size()));
    }
    const std::span<const std::int32_t> chunk =
        all.subspan(first, std::min(engine.model->options().chunk_tokens, all.size() - first));
    const std::size_t first_logit_row = std::clamp(first_logit_pos, first, first + chunk.size()) - first;
    EBB_TRY(engine.model->forward(*cache, chunk, first_logit_row,
                                  [&](std::size_t row, std::span<const float> row_logits) { sink(first + row, row_logits); }));
    tokens.insert(tokens.end(), chunk.begin(), chunk.end());
  }
  if (progress) progress(all.size() - begin, all.size() - begin);
  return {};
}

Result<SyncResult> Conversation::sync(std::span<const std::int32_t> tokens, const Progress& progress) {
  EBB_TRY(state_->check(tokens));
  EBB_TRY_ASSIGN(const std::size_t kept, state_->keep_prefix(tokens));
  EBB_TRY(state_->extend(
      tokens, tokens.size() - 1,
      [&](std::size_t, std::span<const float> logits) { state_->logits.assign(logits.begin(), logits.end()); }, progress));
  return SyncResult{kept, tokens.size() - kept};
}

Result<std::vector<double>> Conversation::score(std::span<const std::int32_t> tokens, std::size_t first_pos) {
  EBB_TRY(state_->check(tokens));
  EBB_TRY_ASSIGN(const std::size_t kept, state_->rewind(0));
  EBB_CHECK(kept == 0, "{} tokens kept", kept);
  std::vector<double> scores;
  const auto sink = [&](std::size_t pos, std::span<const float> logits) {
    if (pos + 1 < tokens.size()) scores.push_back(log_probs(logits, tokens[pos + 1], 0).chosen.log_prob);
  };
  EBB_TRY(state_->extend(tokens, first_pos, sink, nullptr));
  return scores;
}

std::span<const float> Conversation::logits() const {
  return std::span(state_->logits).first(std::min(state_->logits.size(), state_->engine.info.vocabulary));
}

const std::vector<std::int32_t>& Conversation::tokens() const { return state_->tokens; }

void Conversation::rewind(std::size_t count) {
  const Result<std::size_t> kept = state_->rewind(count);
  EBB_CHECK(kept.has_value(), "giving pages back failed: {}", kept.error().message);
}

std::size_t Conversation::reset() {
  const std::size_t bytes = state_->cache == nullptr ? 0 : state_->cache->committed_bytes();
  state_->cache.reset();
  state_->tokens = {};
  state_->logits = {};
  state_->engine.pool->trim();
  return bytes;
}

std::uint64_t Conversation::id() const { return state_->id; }

}  // namespace ebb::engine
