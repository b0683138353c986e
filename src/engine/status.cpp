#include "engine/status.h"

#include "device/device.h"
#include "engine/conversation.h"
#include "engine/internal/device_list.h"
#include "engine/internal/engine_state.h"

namespace ebb::engine {
namespace {

std::string_view backend_name(device::Kind kind) { return kind == device::Kind::Host ? "host" : "fake"; }

KindBytes kinds_of(const memory::LedgerSnapshot::Device& entry) {
  KindBytes kinds;
  for (std::size_t idx = 0; idx < memory::kTagCount; ++idx) {
    kinds.emplace_back(memory::tag_name(static_cast<memory::Tag>(idx)), entry.by_tag[idx]);
  }
  return kinds;
}

}  // namespace

MemoryStatus Engine::memory() const {
  MemoryStatus status;
  const memory::LedgerSnapshot snapshot = state_->ledger.snapshot();
  status.host.kinds = kinds_of(snapshot.devices[memory::kHostMemory]);
  // Only the first device has a pool so far, so it alone can hold bytes of ours.
  for (std::size_t device_idx = 0; device_idx < state_->devices.size(); ++device_idx) {
    device::Device& device = *state_->devices[device_idx];
    DeviceStatus entry;
    entry.index = device_idx;
    entry.name = device.name();
    entry.backend = backend_name(device.kind());
    if (const Result<device::MemInfo> info = device.mem_info()) {
      entry.total_bytes = info->total_bytes;
      entry.free_bytes = info->free_bytes;
      entry.used_by_us_bytes = info->ours_bytes;
    }
    if (device_idx == 0) {
      const memory::LedgerSnapshot::Device& ledger = snapshot.devices[state_->pool->ledger_device()];
      entry.pool_bytes = ledger.pooled_bytes;
      entry.kinds = kinds_of(ledger);
    }
    status.devices.push_back(std::move(entry));
  }
  for (const auto& [owner, conversation] : state_->conversations) {
    status.conversations.push_back({.id = owner,
                                    .title = {},
                                    .state = ConversationState::Idle,
                                    .tokens = conversation->tokens().size(),
                                    .context = state_->info.context,
                                    .device_bytes = snapshot.owner_bytes(owner),
                                    .host_bytes = 0,
                                    .kinds = {}});
  }
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
