#include "memory/page_pool.h"

#include <fmt/format.h>

#include <iterator>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::memory {
PagePool::PagePool(device::Device& device, Ledger& ledger, PoolOptions options)
    : device_(device),
      ledger_(ledger),
      options_(options),
      page_bytes_(device.page_bytes()),
      ledger_device_(options.ledger_device ? *options.ledger_device : ledger.add_device(device.name())),
      pooled_(ledger.open_pooled(ledger_device_)),
      prefix_(ledger.open(ledger_device_, Tag::Prefix, kEngineOwner)) {
  now_.page_bytes = page_bytes_;
  publish_stats();
}

PagePool::~PagePool() {
  for (const Range& range : ranges_)
    EBB_CHECK(range.closed, "a region of {} bytes outlives its pool", range.addresses.bytes);
  static_cast<void>(drain());
  trim();
  // A driver that refused a release twice keeps those pages until the process ends; they must not stop it.
  pooled_.remove(pooled_.bytes());
  prefix_.remove(prefix_.bytes());
  for (Range& range : ranges_) range.charge.remove(range.charge.bytes());
}

std::size_t PagePool::collect() {
  const std::lock_guard lock(mutex_);
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  return now_.retired_pages * page_bytes_;
}

std::size_t PagePool::trim(std::size_t keep_pages) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t released_before = now_.released_pages;
  collect_locked(nullptr, options_.keep_free_pages);
  release_free_pages(keep_pages);
  publish_stats();
  return static_cast<std::size_t>(now_.released_pages - released_before) * page_bytes_;
}

Status PagePool::drain() {
  const std::lock_guard lock(mutex_);
  Status outcome;
  for (const Retired& retired : retired_) {
    for (const device::Fence fence : retired.fences) {
      if (!retired.fenced) continue;
      if (Status waited = device_.wait(fence); !waited) outcome = std::move(waited);
    }
  }
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  if (outcome && now_.retired_pages != 0)
    return fail(ErrorCode::Io,
                fmt::format("{} given up could not be unmapped from {}; they stay counted and are tried again",
                            format_bytes(now_.retired_pages * page_bytes_), device_.name()));
  return outcome;
}

PoolStats PagePool::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

void PagePool::publish_stats() {
  const std::lock_guard lock(stats_mutex_);
  stats_ = now_;
}

PagePool::Snapshot PagePool::snapshot(std::span<PagePool* const> pools) {
  EBB_CHECK(!pools.empty(), "a snapshot of {} pools", pools.size());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const PagePool* pool : pools) locks.emplace_back(pool->mutex_);
  Snapshot snapshot;
  for (const PagePool* pool : pools)
    snapshot.pools.push_back({pool->now_, pool->device_.mem_info().value_or(device::MemInfo{})});
  snapshot.ledger = pools.front()->ledger_.snapshot();
  return snapshot;
}

void PagePool::shrink(Range& range, std::size_t slot_count) {
  const std::lock_guard lock(mutex_);
  const std::size_t given_up = range.mapped_slots - slot_count;
  range.mapped_slots = slot_count;
  retire(range, slot_count, given_up);
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
}

void PagePool::close_range(Range& range) {
  const std::lock_guard lock(mutex_);
  const std::size_t given_up = std::exchange(range.mapped_slots, 0);
  range.closed = true;
  if (given_up != 0) retire(range, 0, given_up);
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
}

void PagePool::retire(Range& range, std::size_t first_slot, std::size_t slot_count) {
  Retired retired{&range, first_slot, slot_count, {}, true};
  for (std::size_t stream_idx = 0; stream_idx < device::kStreamCount; ++stream_idx) {
    // Nobody tells which streams used a page, so the fence is taken on all of them.
    if (auto fence = device_.fence(static_cast<device::Stream>(stream_idx)); fence)
      retired.fences[stream_idx] = *fence;
    else
      retired.fenced = false;
  }
  std::size_t own_count = 0;
  for (std::size_t slot_idx = first_slot; slot_idx < first_slot + slot_count; ++slot_idx) {
    range.slots[slot_idx].state = SlotState::Retired;
    if (!is_shared(range.slots[slot_idx])) ++own_count;
  }
  range.retired_slots += slot_count;
  now_.mapped_pages -= own_count * range.slot_bytes / page_bytes_;
  now_.retired_pages += own_count * range.slot_bytes / page_bytes_;
  retired_.push_back(retired);
}

bool PagePool::is_done(const Retired& retired) {
  if (!retired.fenced) return true;
  for (const device::Fence fence : retired.fences) {
    const Result<bool> done = device_.done(fence);
    if (done && !*done) return false;
  }
  return true;
}

Status PagePool::reclaim(const Retired& retired) {
  Range& range = *retired.range;
  const std::size_t bytes = retired.slot_count * range.slot_bytes;
  Status unmapped = device_.unmap(range.addresses.data + retired.first_slot * range.slot_bytes, bytes);
  if (!is_gone(unmapped)) return unmapped;
  now_.unmap_count += retired.slot_count;
  std::size_t own_count = 0;
  for (std::size_t slot_idx = retired.first_slot; slot_idx < retired.first_slot + retired.slot_count; ++slot_idx) {
    const Slot slot = std::exchange(range.slots[slot_idx], Slot{});
    if (is_shared(slot)) {
      drop_holder(slot.page.handle, range, slot_idx);
      continue;
    }
    ++own_count;
    if (range.is_whole)
      unreleased_whole_.push_back(Whole{slot.page.handle, bytes});
    else
      free_.push_back(slot.page);
  }
  range.retired_slots -= retired.slot_count;
  const std::size_t own_bytes = own_count * range.slot_bytes;
  range.charge.move_to(pooled_, own_bytes);
  now_.retired_pages -= own_bytes / page_bytes_;
  now_.free_pages += own_bytes / page_bytes_;
  return {};
}

Status PagePool::wait_for_streams() {
  for (std::size_t stream_idx = 0; stream_idx < device::kStreamCount; ++stream_idx) {
    EBB_TRY_ASSIGN(const device::Fence fence, device_.fence(static_cast<device::Stream>(stream_idx)));
    EBB_TRY(device_.wait(fence));
  }
  return {};
}

Status PagePool::wait_for(const Range& range) {
  for (const Retired& retired : retired_) {
    if (retired.range != &range || !retired.fenced) continue;
    for (const device::Fence fence : retired.fences) EBB_TRY(device_.wait(fence));
  }
  return {};
}

void PagePool::collect_locked(const Range* spared, std::size_t keep_pages) {
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const bool is_reclaimed = retired->range != spared && is_done(*retired) && reclaim(*retired);
    retired = is_reclaimed ? retired_.erase(retired) : std::next(retired);
  }
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    const bool is_empty = range->closed && range->retired_slots == 0;
    const bool is_freed = is_empty && is_gone(device_.free_addresses(range->addresses));
    range = is_freed ? ranges_.erase(range) : std::next(range);
  }
  release_free_pages(keep_pages);
}

void PagePool::release_free_pages(std::size_t keep_pages) {
  // What is refused stays counted; the next call tries again.
  std::erase_if(unreleased_whole_, [this](const Whole& whole) { return release(whole.handle, whole.bytes); });
  while (free_.size() > keep_pages && release(free_.back().handle, page_bytes_)) free_.pop_back();
}

bool PagePool::release(device::Handle handle, std::size_t bytes) {
  if (!is_gone(device_.release(handle))) return false;
  pooled_.remove(bytes);
  unconfirmed_bytes_ += bytes;
  last_release_ = std::chrono::steady_clock::now();
  now_.free_pages -= bytes / page_bytes_;
  now_.released_pages += bytes / page_bytes_;
  ++now_.release_count;
  return true;
}

}  // namespace ebb::memory
