// What would have helped, with numbers: the end of a refusal (B10).
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"
#include "engine/internal/kv_choice.h"

namespace ebb::engine {
namespace {

std::size_t kv_bytes(const Engine::State& engine, const memory::PagePool& pool, const model::KvOptions& options,
                     std::size_t tokens) {
  std::vector<std::size_t> layers;
  for (std::size_t layer_idx = 0; layer_idx < engine.kv_pools.layers.size(); ++layer_idx) {
    if (engine.kv_pools.layers[layer_idx] == &pool) layers.push_back(layer_idx);
  }
  const model::KvFootprint footprint =
      model::KvCache::footprint(engine.model->config(), options, layers, tokens, pool.page_bytes());
  return footprint.global_bytes + footprint.local_bytes;
}

}  // namespace

memory::OwnerId Engine::State::add(SideOwner& owner) {
  side_owners.emplace(++last_owner, &owner);
  return last_owner;
}

std::string Engine::State::owner_name(memory::OwnerId owner) const {
  if (owner == memory::kEngineOwner) return "the model";
  if (const auto found = side_owners.find(owner); found != side_owners.end()) return std::string(found->second->name());
  const std::lock_guard lock(registry);
  return fmt::format("{} {}", conversations.contains(owner) ? "conversation" : "owner", owner);
}

std::vector<std::string> Engine::State::remedies(memory::PagePool& pool, std::size_t wanted_bytes, std::size_t tokens,
                                                 memory::OwnerId asker) const {
  std::vector<std::string> found;
  std::size_t held_by_asker = 0;
  for (const memory::LedgerSnapshot::Entry& entry : pools->ledger().snapshot().entries) {
    if (entry.device != pool.ledger_device() || entry.owner == memory::kEngineOwner) continue;
    const bool is_kv = entry.tag == memory::Tag::KvGlobal || entry.tag == memory::Tag::KvLocal;
    if (entry.owner == asker) held_by_asker += is_kv ? entry.bytes : 0;
    else if (entry.bytes >= wanted_bytes && !side_owners.contains(entry.owner))
      found.push_back(fmt::format("ending conversation {} frees {}", entry.owner, format_bytes(entry.bytes)));
  }
  const std::size_t needed = kv_bytes(*this, pool, kv_options, tokens);
  model::KvOptions packed = kv_options;
  packed.global = packed.local = {model::KvType::Q8_0, model::KvType::Q8_0};
  if (check_kv(packed, model->config().head_dim) && kv_bytes(*this, pool, packed, tokens) < needed) {
    found.push_back(fmt::format("8-bit KV (-ctk q8_0 -ctv q8_0) saves {} at {} tokens",
                                format_bytes(needed - kv_bytes(*this, pool, packed, tokens)), tokens));
  }
  const std::size_t room = held_by_asker + pools->room(pool);
  std::size_t fitting = 0, too_many = tokens;
  while (too_many - fitting > model::KvCache::kRunTokens) {
    const std::size_t middle = (fitting + too_many) / 2;
    (kv_bytes(*this, pool, kv_options, middle) <= room ? fitting : too_many) = middle;
  }
  if (fitting > 0) found.push_back(fmt::format("{} tokens fit instead of {}", fitting, tokens));
  const std::size_t more = needed - std::min(needed, room);
  if (more > 0) found.push_back(fmt::format("{} more for this device (--memory-limit, or a smaller model)", format_bytes(more)));
  return found;
}

}  // namespace ebb::engine
