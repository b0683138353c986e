#include "engine/internal/reclaimer.h"

#include <algorithm>
#include <utility>

#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"
#include "engine/internal/receipt_scope.h"

namespace ebb::engine {
namespace {

using std::chrono::milliseconds;

// A driver that counts released bytes late has so long before a receipt says "not confirmed" (M10).
constexpr milliseconds kPatience{5000};

}  // namespace

std::vector<Conversation::State*> Reclaimer::idle_by_use() const {
  std::vector<Conversation::State*> idle;
  {
    const std::lock_guard lock(engine_.registry);
    for (const auto& [id, conversation] : engine_.conversations) {
      if (!conversation->answering && conversation->cache != nullptr) idle.push_back(conversation);
    }
  }
  std::ranges::sort(idle, {}, &Conversation::State::last_use);
  return idle;
}

bool Reclaimer::is_anyone_answering() const {
  const std::lock_guard lock(engine_.registry);
  return std::ranges::any_of(engine_.conversations, [](const auto& entry) { return entry.second->answering.load(); });
}

Receipt Reclaimer::reclaim(Level level, bool all, Reason reason) {
  ReceiptScope scope(engine_, Action::Reclaim, reason, 0, static_cast<int>(level));
  const bool busy = is_anyone_answering();
  if (!busy) engine_.model->release_scratch();
  const std::vector<Conversation::State*> idle = idle_by_use();
  if (level != Level::Answer) {
    for (Conversation::State* conversation : idle) {
      // At level 2 the chat that spoke last keeps its record: its answer may still be taken back.
      if (level == Level::Full || conversation != idle.back()) conversation->cache->drop_record();
    }
  }
  for (const auto& [id, owner] : engine_.side_owners) owner->give(level, all);
  if (level == Level::Full && all) {
    for (Conversation::State* conversation : idle) {
      if (const Status away = put_away(*conversation); !away) engine_.warn(away.error().message);
    }
    if (!busy) engine_.model->unload_weights();
  }
  Receipt receipt = scope.finish(level == Level::Full ? kPatience : milliseconds(0));
  return receipt;
}

void Reclaimer::after_answer(Conversation::State& conversation) {
  const MemoryOptions& policy = engine_.options.memory;
  const bool full = policy.full_every_turns > 0 && engine_.turn_count % static_cast<std::uint64_t>(policy.full_every_turns) == 0;
  if (full) {
    static_cast<void>(reclaim(Level::Turns, false, Reason::Turns));
  } else if (policy.after_generation) {
    static_cast<void>(reclaim(Level::Answer, false, Reason::AfterGeneration));
  }
  Result<Receipt> rest = Receipt{};
  if (policy.unload_after_generation && !is_anyone_answering()) {
    rest = unload(Reason::AfterGeneration);
  } else if (policy.park_after_generation) {
    rest = park(conversation, Reason::AfterGeneration);
  }
  if (!rest) engine_.warn(rest.error().message);
}

Receipt Reclaimer::reset(Conversation::State& conversation, Action action, Reason reason) {
  ReceiptScope scope(engine_, action, reason, conversation.id);
  conversation.forget();
  if (!is_anyone_answering()) engine_.model->release_scratch();
  return scope.finish(kPatience);
}

Result<Receipt> Reclaimer::park(Conversation::State& conversation, Reason reason) {
  ReceiptScope scope(engine_, Action::Park, reason, conversation.id);
  ++conversation.epoch;
  if (conversation.cache != nullptr && !conversation.cache->parked()) EBB_TRY(conversation.cache->park());
  conversation.publish();
  return scope.finish(kPatience);
}

// Where the host has no room the KV is forgotten: that costs an evaluation of the prompt, never an answer, since every
// call brings all its tokens.
Status Reclaimer::put_away(Conversation::State& conversation) {
  ++conversation.epoch;
  if (conversation.cache == nullptr || conversation.cache->parked()) return {};
  Status parked = conversation.cache->park();
  const bool left = parked && conversation.cache->device_bytes() == 0;
  if (!left && (parked || parked.error().code == ErrorCode::OutOfMemory)) {
    conversation.forget();
    parked = {};
  }
  conversation.publish();
  return parked;
}

Result<Receipt> Reclaimer::unload(Reason reason) {
  ReceiptScope scope(engine_, Action::Unload, reason);
  std::vector<Conversation::State*> open;
  {
    const std::lock_guard lock(engine_.registry);
    for (const auto& [id, conversation] : engine_.conversations) open.push_back(conversation);
  }
  std::vector<Conversation::State*> parked_here;
  for (Conversation::State* conversation : open) {
    const bool was_parked = conversation->parked;
    if (Status away = put_away(*conversation); !away) {
      for (Conversation::State* other : parked_here) {
        if (other->cache->restore()) other->publish();  // else it stays parked, which loses nothing either
      }
      return tl::unexpected<Error>(std::move(away).error());
    }
    if (!was_parked && conversation->parked) parked_here.push_back(conversation);
  }
  engine_.model->release_scratch();
  engine_.model->unload_weights();
  for (const auto& [id, owner] : engine_.side_owners) owner->give(Level::Full, true);
  return scope.finish(kPatience);
}

Result<Receipt> Reclaimer::load(Reason reason) {
  ReceiptScope scope(engine_, Action::Load, reason);
  EBB_TRY(with_room({}, [&] { return engine_.model->load_weights(); }));
  return scope.finish(milliseconds(0));
}

}  // namespace ebb::engine
