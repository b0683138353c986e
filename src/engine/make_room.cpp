// The half of Reclaimer that answers a refusal: what is given up, cheapest first, and what a refusal says when nothing
// is left to give.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"
#include "engine/internal/receipt_scope.h"
#include "engine/internal/reclaimer.h"

namespace ebb::engine {
namespace {

constexpr std::chrono::milliseconds kDriverPatience{5000};
constexpr std::size_t kLeastChunk = 128;   // smaller steps cost more time than they save memory
constexpr std::size_t kOwnersNamed = 3;
constexpr std::size_t kRemediesNamed = 2;

/// What an owner holds on a pool's device.
std::size_t bytes_of(memory::OwnerId owner, const memory::PagePool& pool) {
  std::size_t bytes = 0;
  for (const memory::LedgerSnapshot::Entry& entry : pool.ledger().snapshot().entries) {
    if (entry.owner == owner && entry.device == pool.ledger_device()) bytes += entry.bytes;
  }
  return bytes;
}

}  // namespace

Status Reclaimer::with_room(const Asker& asker, const std::function<Status()>& attempt) {
  Status outcome = attempt();
  std::map<memory::PagePool*, Stage> stages;  // how far each pool that was full has come
  std::vector<std::string> tried;
  while (!outcome && outcome.error().code == ErrorCode::OutOfMemory && outcome.error().memory) {
    memory::PagePool* pool = engine_.pools->by_ledger(outcome.error().memory->device);
    if (pool == nullptr) return outcome;
    if (!give_something(*pool, asker, stages.try_emplace(pool, Stage::Pool).first->second, tried))
      return tl::unexpected<Error>(refusal(std::move(outcome).error(), *pool, asker, std::move(tried)));
    outcome = attempt();
  }
  return outcome;
}

void Reclaimer::shrink(memory::PagePool& pool, std::size_t target_bytes, Reason reason) {
  const auto held = [&pool] { return pool.stats().held_bytes(); };
  if (held() <= target_bytes) return;
  ReceiptScope scope(engine_, Action::Reclaim, reason);
  Stage stage = Stage::Pool;
  std::vector<std::string> tried;
  while (held() > target_bytes && give_something(pool, {}, stage, tried)) {
  }
  static_cast<void>(scope.finish(std::chrono::milliseconds(0)));
}

bool Reclaimer::give_something(memory::PagePool& pool, const Asker& asker, Stage& stage, std::vector<std::string>& tried) {
  for (; stage != Stage::End; stage = next(stage)) {
    bool gave = false;
    switch (stage) {
      case Stage::Pool:
        gave = free_pages(pool, tried);
        break;
      case Stage::Surplus:
        gave = ask_side_owners(pool, asker, Level::Turns, false, tried);
        break;
      case Stage::Scratch:
        gave = shrink_scratch(tried);
        break;
      case Stage::Record:
        gave = drop_a_record(pool, tried);
        break;
      case Stage::SideOwners:
        gave = ask_side_owners(pool, asker, Level::Full, true, tried);
        break;
      case Stage::Chat:
        gave = put_away_a_chat(pool, tried);
        break;
      case Stage::Layer:
        gave = move_a_layer_out(pool, tried);
        break;
      case Stage::End:
        break;
    }
    if (!gave) continue;
    // An attempt takes pages and scratch anew, so those are given up once; of the others there is one less each time.
    if (stage == Stage::Pool || (stage == Stage::Scratch && engine_.model->options().chunk_tokens <= kLeastChunk))
      stage = next(stage);
    // What was given up counts as held until its fences have passed and the device has it.
    static_cast<void>(pool.drain());
    pool.trim();
    return true;
  }
  return false;
}

bool Reclaimer::free_pages(memory::PagePool& pool, std::vector<std::string>& tried) {
  if (pool.drain() && pool.trim() != 0) {
    tried.emplace_back("pages kept ready were given back");
    return true;
  }
  if (pool.confirm(std::chrono::milliseconds(0)).value_or(true)) return false;
  tried.emplace_back("waited for the driver to take back what was released");
  return pool.confirm(kDriverPatience).value_or(false);
}

bool Reclaimer::ask_side_owners(memory::PagePool& pool, const Asker& asker, Level level, bool all,
                                std::vector<std::string>& tried) {
  for (const auto& [id, owner] : engine_.side_owners) {
    const std::size_t before = bytes_of(id, pool);
    if (before == 0 || id == asker.owner) continue;
    owner->give(level, all);
    static_cast<void>(pool.drain());
    const std::size_t after = bytes_of(id, pool);
    if (after == before) continue;
    tried.push_back(fmt::format("{} gave back {}", owner->name(), format_bytes(before - after)));
    return true;
  }
  return false;
}

bool Reclaimer::shrink_scratch(std::vector<std::string>& tried) {
  const std::size_t chunk = engine_.model->options().chunk_tokens;
  if (chunk > kLeastChunk) {
    engine_.model->set_chunk_tokens(std::max(kLeastChunk, chunk / 2));
    tried.push_back(fmt::format("steps of {} tokens instead of {}", engine_.model->options().chunk_tokens, chunk));
    return true;
  }
  if (engine_.model->scratch_bytes() == 0) return false;
  engine_.model->release_scratch();
  tried.emplace_back("the memory of activations was given back");
  return true;
}

bool Reclaimer::drop_a_record(const memory::PagePool& pool, std::vector<std::string>& tried) {
  if (!engine_.pools->is_host(pool)) return false;
  for (Conversation::State* conversation : idle_by_use()) {
    const std::size_t bytes = conversation->cache->record_bytes();
    if (bytes == 0) continue;
    conversation->cache->drop_record();
    tried.push_back(fmt::format("the rewind record of conversation {} was dropped ({})", conversation->id, format_bytes(bytes)));
    return true;
  }
  return false;
}

bool Reclaimer::put_away_a_chat(const memory::PagePool& pool, std::vector<std::string>& tried) {
  for (Conversation::State* conversation : idle_by_use()) {
    const bool on_host = engine_.pools->is_host(pool);
    const std::size_t bytes = on_host ? conversation->cache->host_bytes() : conversation->cache->device_bytes();
    if (bytes == 0) continue;
    if (on_host) {
      conversation->forget();
    } else if (!put_away(*conversation)) {
      continue;
    }
    tried.push_back(fmt::format("conversation {} was {} ({})", conversation->id, conversation->parked ? "parked" : "forgotten",
                                format_bytes(bytes)));
    return true;
  }
  return false;
}

bool Reclaimer::move_a_layer_out(const memory::PagePool& pool, std::vector<std::string>& tried) {
  if (engine_.pools->is_host(pool) || engine_.options.gpu_layers == "all" || !engine_.model->loaded()) return false;
  // Every token uses the layers in order, so at a step's border the last one is farthest from its next use.
  for (std::size_t layer_idx = engine_.info.layers; layer_idx-- > 0;) {
    const weights::UnitId unit = weights::layer_unit(layer_idx);
    if (engine_.model->weights_at(unit) != &pool) continue;
    if (!engine_.model->move_weights(unit, engine_.pools->host())) continue;
    tried.push_back(fmt::format("layer {} was moved to the host", layer_idx));
    engine_.keeper->note_pressure(Keeper::Clock::now());
    return true;
  }
  return false;
}

bool Reclaimer::relax() {
  bool moved = false;
  for (std::size_t layer_idx = 0; layer_idx < engine_.info.layers && engine_.model->loaded(); ++layer_idx) {
    const weights::UnitId unit = weights::layer_unit(layer_idx);
    memory::PagePool& home = *engine_.kv_pools.layers[layer_idx];
    if (engine_.model->weights_at(unit) == &home) continue;
    // Room for the layer and, beyond it, for the step that comes next: else the layer would leave again at once.
    const std::size_t needed = engine_.weights->unit_bytes(unit, home.device().kind()) + engine_.step_bytes(home);
    if (engine_.pools->room(home) < needed || !engine_.model->move_weights(unit, home)) break;
    moved = true;
  }
  if (engine_.model->options().chunk_tokens < engine_.options.chunk_tokens) {
    engine_.model->set_chunk_tokens(engine_.options.chunk_tokens);
    moved = true;
  }
  return moved;
}

Error Reclaimer::refusal(Error cause, memory::PagePool& pool, const Asker& asker,
                         std::vector<std::string> tried) const {
  MemoryFacts facts = *cause.memory;
  const memory::LedgerSnapshot snapshot = engine_.pools->ledger().snapshot();
  std::vector<memory::LedgerSnapshot::Entry> holders;
  for (const auto& entry : snapshot.entries) {
    if (entry.device == pool.ledger_device() && entry.tag != memory::Tag::MappedFile) holders.push_back(entry);
  }
  std::ranges::sort(holders, std::ranges::greater{}, &memory::LedgerSnapshot::Entry::bytes);
  if (holders.size() > kOwnersNamed) holders.resize(kOwnersNamed);
  for (const auto& entry : holders) {
    facts.owners.push_back(
        fmt::format("{} of {}: {}", memory::tag_name(entry.tag), engine_.owner_name(entry.owner), format_bytes(entry.bytes)));
  }
  facts.remedies = engine_.remedies(pool, facts.wanted_bytes, asker.tokens, asker.owner);
  if (facts.remedies.size() > kRemediesNamed) facts.remedies.resize(kRemediesNamed);
  facts.later = is_anyone_answering();
  facts.tried = std::move(tried);
  std::string message = cause.message;
  if (!facts.owners.empty()) message += fmt::format(" Held there: {}.", fmt::join(facts.owners, "; "));
  message += facts.tried.empty() ? std::string(" There was nothing to give up.") : fmt::format(" Tried: {}.", fmt::join(facts.tried, "; "));
  if (!facts.remedies.empty()) message += fmt::format(" What would help: {}.", fmt::join(facts.remedies, "; or "));
  return Error{ErrorCode::OutOfMemory, std::move(message), std::move(facts)};
}

}  // namespace ebb::engine
