#include "engine/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "device/device.h"
#include "engine/internal/conversation_state.h"
#include "engine/internal/device_list.h"
#include "engine/internal/engine_state.h"
#include "engine/internal/process_memory.h"

namespace ebb::engine {
namespace {

std::string_view backend_name(device::Kind kind) {
  switch (kind) {
    case device::Kind::Host:
      return "host";
    case device::Kind::Fake:
      return "fake";
    case device::Kind::Cuda:
      return "cuda";
  }
  return "";
}

bool is_host_tag(memory::Tag tag) { return tag >= memory::Tag::MappedFile; }

KindBytes kinds_of(const memory::LedgerSnapshot::Device& entry, bool with_host_tags) {
  KindBytes kinds;
  for (std::size_t idx = 0; idx < memory::kTagCount; ++idx) {
    const auto tag = static_cast<memory::Tag>(idx);
    if (!is_host_tag(tag) || with_host_tags) kinds.emplace_back(memory::tag_name(tag), entry.by_tag[idx]);
  }
  return kinds;
}

/// What a perfect allocator would need on a device now: weights, scratch, and the rows of K and V that tokens fill.
/// Source   spec/memory section 7.
std::size_t live_bytes(const Engine::State& engine, const memory::PagePool& pool, const memory::LedgerSnapshot::Device& sums) {
  std::size_t weights = 0;
  const auto add_unit = [&](weights::UnitId unit, const memory::PagePool* home) {
    if (home == &pool) weights += engine.weights->unit_bytes(unit, pool.device().kind());
  };
  for (std::size_t layer_idx = 0; layer_idx < engine.kv_pools.layers.size(); ++layer_idx) {
    add_unit(weights::layer_unit(layer_idx), engine.kv_pools.layers[layer_idx]);
  }
  add_unit(weights::kOutputUnit, engine.output_home);
  std::size_t bytes = std::min(weights, sums.by_tag[static_cast<std::size_t>(memory::Tag::Weights)]) +
                      sums.by_tag[static_cast<std::size_t>(memory::Tag::Scratch)];
  for (const auto& [id, conversation] : engine.conversations) {
    if (conversation->parked) continue;
    for (std::size_t layer_idx = 0; layer_idx < engine.kv_pools.layers.size(); ++layer_idx) {
      if (engine.kv_pools.layers[layer_idx] == &pool)
        bytes += model::KvCache::live_bytes(engine.model->config(), engine.kv_options, layer_idx, conversation->token_count);
    }
  }
  return bytes;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

MemoryStatus Engine::memory() const {
  MemoryStatus status;
  status.time_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const DevicePools& pools = *state_->pools;
  const memory::PagePool::Snapshot now = memory::PagePool::snapshot(pools.all());
  for (std::size_t device_idx = 0; device_idx < pools.count(); ++device_idx) {
    const memory::PagePool& pool = pools.pool(device_idx);
    const memory::PagePool::Snapshot::Pool& seen = now.pools[device_idx];
    const memory::LedgerSnapshot::Device& ledger = now.ledger.devices[pool.ledger_device()];
    DeviceStatus& entry = status.devices.emplace_back();
    entry.index = device_idx;
    entry.name = pool.device().name();
    entry.backend = backend_name(pool.device().kind());
    entry.total_bytes = seen.driver.total_bytes;
    entry.limit_bytes = pools.budget(device_idx).value_or(seen.driver.total_bytes);
    entry.free_bytes = seen.driver.free_bytes;
    entry.used_by_us_bytes = seen.driver.ours_bytes;
    entry.others_bytes = seen.driver.others_bytes;
    entry.context_bytes = seen.driver.context_bytes;
    entry.held_bytes = ledger.owned_bytes + ledger.pooled_bytes;
    entry.pool_bytes = ledger.pooled_bytes;
    entry.retired_bytes = seen.stats.retired_pages * seen.stats.page_bytes;
    entry.mapped_bytes = ledger.owned_bytes - std::min(ledger.owned_bytes, entry.retired_bytes);
    entry.untracked_bytes = seen.driver.ours_bytes - std::min(seen.driver.ours_bytes, entry.held_bytes);
    entry.planned_bytes = device_idx < state_->plan.devices.size() ? state_->plan.devices[device_idx].planned_bytes : 0;
    entry.kinds = kinds_of(ledger, pools.is_host(pool));
    entry.pool_fragmentation = share(entry.held_bytes - entry.mapped_bytes, entry.held_bytes);
    entry.address_fallback = seen.stats.address_fallback;
  }
  const memory::LedgerSnapshot::Device& host = now.ledger.devices[memory::kHostMemory];
  status.host.limit_bytes = state_->options.memory.host_limit_bytes;
  status.host.kinds = kinds_of(host, true);
  status.host.used_bytes = host.owned_bytes + host.pooled_bytes - host.by_tag[static_cast<std::size_t>(memory::Tag::MappedFile)];
  const auto host_pool = std::ranges::find(pools.all(), &pools.host());
  status.host.touched_bytes = now.pools[static_cast<std::size_t>(host_pool - pools.all().begin())].driver.ours_bytes;
  const ProcessMemory process = read_process_memory();
  status.host.anon_bytes = process.anon_bytes;
  status.host.program = {{"heap", process.heap_bytes},
                         {"heap_free", process.heap_free_bytes},
                         {"stacks", process.stack_bytes},
                         {"data", process.data_bytes}};
  const std::lock_guard lock(state_->registry);
  for (const auto& [owner, conversation] : state_->conversations) {
    ConversationStatus& entry = status.conversations.emplace_back();
    entry.id = owner;
    entry.state = conversation->parked      ? ConversationState::Parked
                  : conversation->answering ? ConversationState::Active
                                            : ConversationState::Idle;
    entry.tokens = conversation->token_count;
    entry.context = state_->info.context;
    for (const memory::LedgerSnapshot::Entry& bytes : now.ledger.entries) {
      if (bytes.owner != owner) continue;
      (bytes.device == memory::kHostMemory ? entry.host_bytes : entry.device_bytes) += bytes.bytes;
      entry.kinds.emplace_back(memory::tag_name(bytes.tag), bytes.bytes);
    }
  }
  for (DeviceStatus& entry : status.devices) {
    const memory::PagePool& pool = pools.pool(entry.index);
    const std::size_t live = live_bytes(*state_, pool, now.ledger.devices[pool.ledger_device()]);
    entry.live_bytes = std::min(live, entry.mapped_bytes);
    entry.internal_fragmentation = share(entry.mapped_bytes - entry.live_bytes, entry.mapped_bytes);
  }
  status.last = state_->last_receipt;
  return status;
}

Result<std::vector<DeviceListing>> list_devices(const std::string& spec, std::size_t fake_page_bytes) {
  EBB_TRY_ASSIGN(const auto devices, open_device_list(spec, fake_page_bytes));
  std::vector<DeviceListing> listings;
  for (const auto& device : devices) {
    DeviceListing listing;
    listing.name = device->name();
    listing.backend = backend_name(device->kind());
    listing.page_bytes = device->page_bytes();
    EBB_TRY_ASSIGN(const device::MemInfo info, device->mem_info());
    listing.total_bytes = info.total_bytes;
    listing.free_bytes = info.free_bytes;
    listings.push_back(std::move(listing));
  }
  return listings;
}

}  // namespace ebb::engine
