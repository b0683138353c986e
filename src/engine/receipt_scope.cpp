#include "engine/internal/receipt_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/internal/engine_state.h"

namespace ebb::engine {
namespace {

std::size_t held_bytes(const memory::LedgerSnapshot::Device& device) { return device.owned_bytes + device.pooled_bytes; }

std::size_t fall(std::size_t before, std::size_t after) { return before - std::min(before, after); }

}  // namespace

ReceiptScope::ReceiptScope(Engine::State& engine, Action action, Reason reason, std::uint64_t conversation, int level)
    : engine_(engine), before_(engine.pools->ledger().snapshot()), start_(std::chrono::steady_clock::now()) {
  receipt_.action = action;
  receipt_.reason = reason;
  receipt_.conversation = conversation;
  receipt_.level = level;
  for (std::size_t device_idx = 0; device_idx < engine.pools->count(); ++device_idx) {
    Receipt::Device& device = receipt_.devices.emplace_back();
    device.index = device_idx;
    if (const auto info = engine.pools->device(device_idx).mem_info()) device.free_before_bytes = info->free_bytes;
  }
}

void ReceiptScope::keep_the_rest() {
  for (const memory::LedgerSnapshot::Entry& entry : engine_.pools->ledger().snapshot().entries) {
    if (entry.device == memory::kHostMemory) continue;
    std::string why = fmt::format("held by {}", engine_.owner_name(entry.owner));
    if (entry.owner == memory::kEngineOwner) why = entry.tag == memory::Tag::Scratch ? "an answer is being written" : "the model is loaded";
    if (const std::lock_guard lock(engine_.registry); engine_.conversations.contains(entry.owner)) {
      why = fmt::format("conversation {} is open", entry.owner);
    }
    receipt_.kept.push_back({std::string(memory::tag_name(entry.tag)), entry.bytes, std::move(why)});
  }
}

Receipt ReceiptScope::finish(std::chrono::milliseconds patience) {
  receipt_.confirmed = true;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (memory::PagePool* pool : engine_.pools->all()) {
    if (!pool->drain()) receipt_.confirmed = false;
    pool->trim();
  }
  keep_the_rest();
  const memory::LedgerSnapshot after = engine_.pools->ledger().snapshot();
  for (Receipt::Device& device : receipt_.devices) {
    memory::PagePool& pool = engine_.pools->pool(device.index);
    const auto left = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
    const Result<bool> confirmed = pool.confirm(std::chrono::ceil<std::chrono::milliseconds>(left));
    receipt_.confirmed = receipt_.confirmed && confirmed && *confirmed;
    if (const auto info = pool.device().mem_info()) device.free_after_bytes = info->free_bytes;
    const auto& was = before_.devices[pool.ledger_device()];
    const auto& is = after.devices[pool.ledger_device()];
    for (std::size_t tag_idx = 0; tag_idx < memory::kTagCount; ++tag_idx) {
      const std::size_t bytes = fall(was.by_tag[tag_idx], is.by_tag[tag_idx]);
      if (bytes != 0) device.kinds.emplace_back(memory::tag_name(static_cast<memory::Tag>(tag_idx)), bytes);
    }
    if (const std::size_t bytes = fall(was.pooled_bytes, is.pooled_bytes); bytes != 0) device.kinds.emplace_back("pool", bytes);
    device.freed_bytes = fall(held_bytes(was), held_bytes(is));
    receipt_.freed_bytes += device.freed_bytes;
  }
  receipt_.host_freed_bytes =
      fall(held_bytes(before_.devices[memory::kHostMemory]), held_bytes(after.devices[memory::kHostMemory]));
  receipt_.us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_).count();
  const std::lock_guard lock(engine_.registry);
  engine_.last_receipt = receipt_;
  return std::move(receipt_);
}

}  // namespace ebb::engine
