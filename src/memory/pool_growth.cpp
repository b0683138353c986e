// The half of PagePool that makes regions larger: all or nothing, charged before it is committed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "memory/page_pool.h"

namespace ebb::memory {
namespace {

constexpr std::chrono::seconds kSoon{5};

}  // namespace

Status PagePool::grow(Range& range, std::size_t slot_count) {
  const std::lock_guard lock(mutex_);
  const std::size_t old_count = range.mapped_slots;
  if (slot_count * page_bytes_ > range.addresses.bytes) EBB_TRY(move_addresses(range, slot_count * page_bytes_));
  if (range.slots.size() < slot_count) range.slots.resize(slot_count);
  // Slots given up a moment ago still have their page: those are taken back below, without a driver call.
  EBB_TRY(reclaim_unusable(range, old_count, slot_count));
  std::vector<Gap> gaps;
  std::size_t wanted_pages = 0;
  for (std::size_t slot_idx = old_count; slot_idx < slot_count; ++slot_idx) {
    if (range.slots[slot_idx].state != SlotState::Empty) continue;
    ++wanted_pages;
    if (!gaps.empty() && gaps.back().first_slot + gaps.back().slot_count == slot_idx)
      ++gaps.back().slot_count;
    else
      gaps.push_back(Gap{slot_idx, 1});
  }
  if (wanted_pages > free_.size()) collect_locked(&range, std::max(wanted_pages, options_.keep_free_pages));

  const std::size_t free_before = free_.size();
  std::vector<Page> pages;
  Status outcome = take_pages(range, wanted_pages, pages);
  if (outcome) outcome = map_gaps(range, gaps, pages);
  if (outcome) {
    revive(range, slot_count);
    range.mapped_slots = slot_count;
    release_free_pages(options_.keep_free_pages);
  } else {
    range.charge.move_to(pooled_, pages.size() * page_bytes_);
    free_.insert(free_.end(), pages.begin(), pages.end());
    now_.free_pages += pages.size();
    release_free_pages(std::min(free_before, options_.keep_free_pages));
    outcome = explain(std::move(outcome).error(), range, (slot_count - old_count) * page_bytes_);
  }
  publish_stats();
  return outcome;
}

Status PagePool::reclaim_unusable(Range& range, std::size_t first_slot, std::size_t end_slot) {
  // A page that others see too, or that was never wiped, must not come back to life under its old address.
  const auto is_unusable = [&] {
    return std::any_of(range.slots.begin() + static_cast<std::ptrdiff_t>(first_slot),
                       range.slots.begin() + static_cast<std::ptrdiff_t>(end_slot), [&](const Slot& slot) {
                         return slot.state == SlotState::Retired &&
                                (is_shared(slot) || slot.page.last_owner != range.owner);
                       });
  };
  if (range.retired_slots == 0 || !is_unusable()) return {};
  EBB_TRY(wait_for(range));
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  if (!is_unusable()) return {};
  return fail(ErrorCode::Io, fmt::format("{} could not be unmapped from {}; they stay counted, try again",
                                         format_bytes(range.retired_slots * range.slot_bytes), device_.name()));
}

Status PagePool::fill_whole(Range& range, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool can_revive = range.slot_bytes == bytes && range.retired_slots != 0 && !range.slots.empty() &&
                          range.slots[0].page.last_owner == range.owner;
  if (!can_revive) EBB_TRY(wait_for(range));
  collect_locked(can_revive ? &range : nullptr, options_.keep_free_pages);
  publish_stats();
  if (range.retired_slots != 0) {
    if (!can_revive)
      return fail(ErrorCode::Io, fmt::format("{} given up could not be unmapped from {}; try again",
                                             format_bytes(range.slot_bytes), device_.name()));
    revive(range, 1);
    range.mapped_slots = 1;
    publish_stats();
    return {};
  }
  if (bytes > range.addresses.bytes) EBB_TRY(move_addresses(range, bytes));
  range.slot_bytes = bytes;
  range.slots.resize(1);
  std::vector<Page> pages;
  Status outcome = create(range, 1, bytes, pages);
  if (!outcome && outcome.error().code == ErrorCode::OutOfMemory && !free_.empty()) {
    release_free_pages(0);  // pages kept ready are of no use for one handle
    outcome = create(range, 1, bytes, pages);
  }
  const std::array<Gap, 1> gaps{Gap{0, 1}};
  if (outcome) outcome = map_gaps(range, gaps, pages);
  if (outcome) {
    range.mapped_slots = 1;
  } else {
    for (const Page& page : pages) {
      range.charge.move_to(pooled_, bytes);
      now_.free_pages += bytes / page_bytes_;
      unreleased_whole_.push_back(Whole{page.handle, bytes});
    }
    release_free_pages(options_.keep_free_pages);
    outcome = explain(std::move(outcome).error(), range, bytes);
  }
  publish_stats();
  return outcome;
}

Status PagePool::take_pages(Range& range, std::size_t count, std::vector<Page>& pages) {
  const std::size_t reused_count = std::min(count, free_.size());
  const auto first_reused = free_.end() - static_cast<std::ptrdiff_t>(reused_count);
  pages.assign(first_reused, free_.end());
  free_.erase(first_reused, free_.end());
  pooled_.move_to(range.charge, reused_count * page_bytes_);
  now_.free_pages -= reused_count;
  return create(range, count - reused_count, page_bytes_, pages);
}

Status PagePool::create(Range& range, std::size_t count, std::size_t bytes, std::vector<Page>& pages) {
  if (count == 0) return {};
  EBB_TRY(admit(count * bytes));
  EBB_TRY(range.charge.add(count * bytes));
  const bool is_soon = last_release_ && std::chrono::steady_clock::now() - *last_release_ < kSoon;
  pages.reserve(pages.size() + count);
  for (std::size_t made = 0; made < count; ++made) {
    Result<device::Handle> handle = device_.create(bytes);
    if (!handle) {
      range.charge.remove((count - made) * bytes);
      return tl::unexpected<Error>(std::move(handle).error());
    }
    pages.push_back(Page{*handle, std::nullopt});
    now_.created_pages += bytes / page_bytes_;
    ++now_.create_count;
    if (is_soon) ++now_.recreated_soon_count;
  }
  return {};
}

Status PagePool::map_gaps(Range& range, std::span<const Gap> gaps, std::vector<Page>& pages) {
  std::vector<device::Handle> handles;
  handles.reserve(pages.size());
  for (const Page& page : pages) handles.push_back(page.handle);
  std::size_t page_idx = 0;
  for (std::size_t gap_idx = 0; gap_idx < gaps.size(); ++gap_idx) {
    const Gap gap = gaps[gap_idx];
    std::byte* address = range.addresses.data + gap.first_slot * range.slot_bytes;
    Status outcome = device_.map(address, std::span(handles).subspan(page_idx, gap.slot_count));
    const bool is_mapped = outcome.has_value();
    if (is_mapped) now_.map_count += gap.slot_count;
    if (outcome) outcome = device_.set_access(address, gap.slot_count * range.slot_bytes, device::Access::ReadWrite);
    if (outcome) outcome = wipe(range, gap, std::span(pages).subspan(page_idx, gap.slot_count));
    if (!outcome) {
      unmap_gaps(range, gaps.first(gap_idx + (is_mapped ? 1 : 0)), pages);
      return outcome;
    }
    page_idx += gap.slot_count;
  }
  page_idx = 0;
  for (const Gap gap : gaps) {
    for (std::size_t slot_idx = gap.first_slot; slot_idx < gap.first_slot + gap.slot_count; ++slot_idx)
      range.slots[slot_idx] = Slot{Page{pages[page_idx++].handle, range.owner}, SlotState::Mapped};
    now_.mapped_pages += gap.slot_count * range.slot_bytes / page_bytes_;
  }
  return {};
}

Status PagePool::wipe(const Range& range, Gap gap, std::span<const Page> pages) {
  for (std::size_t i = 0; i < gap.slot_count; ++i) {
    if (!pages[i].last_owner || pages[i].last_owner == range.owner) continue;
    EBB_TRY(device_.fill_zero(range.addresses.data + (gap.first_slot + i) * range.slot_bytes, range.slot_bytes));
  }
  return {};
}

void PagePool::unmap_gaps(Range& range, std::span<const Gap> gaps, std::vector<Page>& pages) {
  std::vector<Page> unmapped;
  std::size_t page_idx = 0;
  for (const Gap gap : gaps) {
    const auto first_page = pages.begin() + static_cast<std::ptrdiff_t>(page_idx);
    page_idx += gap.slot_count;
    if (is_gone(device_.unmap(range.addresses.data + gap.first_slot * range.slot_bytes, gap.slot_count * range.slot_bytes))) {
      now_.unmap_count += gap.slot_count;
      unmapped.insert(unmapped.end(), first_page, first_page + static_cast<std::ptrdiff_t>(gap.slot_count));
      continue;
    }
    // The driver keeps the mapping, so the pages stay with the range until a later collect() succeeds.
    for (std::size_t i = 0; i < gap.slot_count; ++i)
      range.slots[gap.first_slot + i].page = first_page[static_cast<std::ptrdiff_t>(i)];
    now_.mapped_pages += gap.slot_count * range.slot_bytes / page_bytes_;
    retire(range, gap.first_slot, gap.slot_count);
  }
  unmapped.insert(unmapped.end(), pages.begin() + static_cast<std::ptrdiff_t>(page_idx), pages.end());
  pages = std::move(unmapped);
}

void PagePool::revive(Range& range, std::size_t end_slot) {
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const std::size_t retired_end = retired->first_slot + retired->slot_count;
    if (retired->range != &range || retired->first_slot >= end_slot) {
      ++retired;
      continue;
    }
    // Nothing below the old size is retired, so a record is taken whole or from its front.
    const std::size_t taken_end = std::min(end_slot, retired_end);
    const std::size_t taken_count = taken_end - retired->first_slot;
    for (std::size_t slot_idx = retired->first_slot; slot_idx < taken_end; ++slot_idx)
      range.slots[slot_idx].state = SlotState::Mapped;
    range.retired_slots -= taken_count;
    now_.retired_pages -= taken_count * range.slot_bytes / page_bytes_;
    now_.mapped_pages += taken_count * range.slot_bytes / page_bytes_;
    retired->first_slot = taken_end;
    retired->slot_count -= taken_count;
    retired = retired->slot_count == 0 ? retired_.erase(retired) : std::next(retired);
  }
}

tl::unexpected<Error> PagePool::explain(Error cause, const Range& range, std::size_t wanted_bytes) {
  if (cause.code != ErrorCode::OutOfMemory) return tl::unexpected<Error>(std::move(cause));
  static_cast<void>(settle_unconfirmed());  // a lost device says so at the next call
  const Result<device::MemInfo> info = device_.mem_info();
  MemoryFacts facts;
  facts.wanted_bytes = wanted_bytes;
  facts.free_bytes = info ? info->free_bytes : 0;
  if (const auto room = ledger_.room(ledger_device_); room)
    facts.free_bytes = std::min(facts.free_bytes, *room - std::min(*room, unconfirmed_bytes_));
  facts.reclaimable_bytes = (now_.free_pages + now_.retired_pages) * page_bytes_ + unconfirmed_bytes_;
  facts.tag = tag_name(range.tag);
  facts.device = ledger_device_;
  Error error{ErrorCode::OutOfMemory,
              fmt::format("no memory for {} more of {} on {}: {} free there, {} of ours can come back ({}). "
                          "Use a shorter context or close a conversation.",
                          format_bytes(wanted_bytes), facts.tag, device_.name(), format_bytes(facts.free_bytes),
                          format_bytes(facts.reclaimable_bytes), cause.message),
              facts};
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ebb::memory
