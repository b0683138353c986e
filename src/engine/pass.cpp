// One call on a conversation, forward pass by forward pass.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/internal/conversation_state.h"

namespace ebb::engine {
namespace {

constexpr std::size_t kLeastSharedTokens = 64;  // less is evaluated faster than it is copied

}  // namespace

Pass::Pass(Conversation::State& conversation, Kind kind) : conversation_(conversation), kind_(kind) {
  Engine::State& engine = conversation.engine;
  const std::lock_guard lock(engine.step);
  epoch_ = conversation.epoch;
  conversation.answering = true;
  conversation.last_use = ++engine.use_count;
  engine.keeper->note_use(Keeper::Clock::now());
}

Pass::~Pass() {
  Engine::State& engine = conversation_.engine;
  const std::lock_guard lock(engine.step);
  conversation_.answering = false;
  engine.keeper->note_use(Keeper::Clock::now());
  if (kind_ == Kind::Evaluation) return;
  ++engine.turn_count;
  engine.reclaimer->after_answer(conversation_);
}

Status Pass::still_ours() const {
  if (conversation_.epoch == epoch_) return {};
  return fail(ErrorCode::Cancelled, fmt::format("conversation {} was stopped", conversation_.id));
}

Status Pass::make_ready() {
  Engine::State& engine = conversation_.engine;
  if (!engine.model->loaded()) {
    EBB_TRY(engine.reclaimer->with_room({}, [&] { return engine.model->load_weights(); }));
  }
  if (conversation_.cache == nullptr) {
    EBB_TRY_ASSIGN(conversation_.cache,
                   model::KvCache::create(engine.kv_pools, conversation_.id, engine.model->config(), engine.kv_options));
  }
  if (conversation_.cache->parked()) {
    EBB_TRY(engine.reclaimer->with_room({conversation_.id, conversation_.tokens.size()}, [&] { return conversation_.cache->restore(); }));
    conversation_.publish();
  }
  return {};
}

Result<std::size_t> Pass::begin(std::span<const std::int32_t> all, std::size_t most) {
  const std::lock_guard step(conversation_.engine.step);
  EBB_TRY(still_ours());
  conversation_.engine.keeper->look(Keeper::Clock::now());
  if (conversation_.cache == nullptr) share_beginning(all.first(most));
  EBB_TRY(make_ready());
  const std::vector<std::int32_t>& tokens = conversation_.tokens;
  const auto [mine, theirs] = std::mismatch(tokens.begin(), tokens.end(), all.begin(), all.end());
  return conversation_.rewind(std::min(static_cast<std::size_t>(mine - tokens.begin()), most));
}

Status Pass::between_steps(const std::function<Status()>& act) {
  const std::lock_guard lock(conversation_.engine.step);
  EBB_TRY(still_ours());
  return act();
}

// A chat that begins like another one (the same system text) takes over the other's beginning instead of evaluating it:
// whole pages are shared, the rest is copied. Where there is no room for that, the prompt is evaluated.
void Pass::share_beginning(std::span<const std::int32_t> prompt) {
  const Conversation::State* source = nullptr;
  std::size_t most = kLeastSharedTokens - 1;
  const std::lock_guard lock(conversation_.engine.registry);
  for (const auto& [id, other] : conversation_.engine.conversations) {
    if (other->cache == nullptr || other->cache->parked()) continue;
    const auto [mine, theirs] = std::mismatch(prompt.begin(), prompt.end(), other->tokens.begin(), other->tokens.end());
    const auto common = static_cast<std::size_t>(mine - prompt.begin());
    if (common <= most || !other->cache->can_rewind(common)) continue;
    source = other;
    most = common;
  }
  if (source == nullptr) return;
  Result<std::unique_ptr<model::KvCache>> fork = source->cache->fork(conversation_.id, most);
  if (!fork) return;
  conversation_.cache = std::move(*fork);
  conversation_.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(most));
  conversation_.publish();
}

Result<std::size_t> Pass::position() {
  const std::lock_guard lock(conversation_.engine.step);
  EBB_TRY(still_ours());
  return conversation_.tokens.size();
}

Result<std::size_t> Pass::step(std::span<const std::int32_t> all, std::size_t first_logit_pos,
                               const model::LogitSink& sink) {
  Engine::State& engine = conversation_.engine;
  const std::lock_guard lock(engine.step);
  EBB_TRY(still_ours());
  EBB_TRY(make_ready());
  std::vector<std::int32_t>& tokens = conversation_.tokens;
  const std::size_t first = tokens.size();
  std::size_t rows = 0;
  const Keeper::Clock::time_point start = Keeper::Clock::now();
  // Room is sometimes made by making the step smaller, so each attempt asks again how large it may be.
  EBB_TRY(engine.reclaimer->with_room({conversation_.id, all.size()}, [&]() -> Status {
    rows = std::min(engine.model->options().chunk_tokens, all.size() - first);
    const std::size_t first_logit_row = std::clamp(first_logit_pos, first, first + rows) - first;
    return engine.model->forward(
        *conversation_.cache, all.subspan(first, rows), first_logit_row,
        [&](std::size_t row, std::span<const float> logits) { sink(first + row, logits); });
  }));
  const auto chunk = all.subspan(first, rows);
  tokens.insert(tokens.end(), chunk.begin(), chunk.end());
  conversation_.publish();
  engine.keeper->after_step(rows, Keeper::Clock::now() - start);
  return tokens.size();
}

Status Pass::extend(std::span<const std::int32_t> all, std::size_t first_logit_pos, const model::LogitSink& sink,
                    const Progress& progress) {
  EBB_TRY_ASSIGN(const std::size_t begin, position());
  std::size_t done = begin;
  while (done < all.size()) {
    if (progress && !progress(done - begin, all.size() - begin)) {
      return fail(ErrorCode::Cancelled, fmt::format("stopped after {} of {} prompt tokens", done, all.size()));
    }
    EBB_TRY_ASSIGN(done, step(all, first_logit_pos, sink));
  }
  if (progress) progress(all.size() - begin, all.size() - begin);
  return {};
}

}  // namespace ebb::engine
