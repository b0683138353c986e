// The half of PagePool that makes regions larger: all or nothing, charged before it is committed.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "memory/page_pool.h"

namespace ebb::memory {

Result<Range*> PagePool::open_range(Tag tag, OwnerId owner, std::size_t max_bytes) {
  const std::size_t bytes = round_up(std::max(max_bytes, std::size_t{1}), page_bytes_);
  const std::lock_guard lock(mutex_);
  Result<device::AddressRange> addresses = device_.reserve(bytes);
  if (!addresses) {
    Error error = std::move(addresses).error();
    if (error.memory) error.memory->tag = tag_name(tag);
    return tl::unexpected<Error>(std::move(error));
  }
  Range& range = ranges_.emplace_back();
  range.addresses = *addresses;
  range.tag = tag;
  range.owner = owner;
  range.charge = ledger_.open(ledger_device_, tag, owner);
  return &range;
}

Status PagePool::grow(Range& range, std::size_t page_count) {
  const std::lock_guard lock(mutex_);
  const std::size_t old_count = range.mapped_pages;
  if (range.slots.size() < page_count) range.slots.resize(page_count);
  // Slots given up a moment ago still have their page: those are taken back below, without a driver call.
  std::vector<Gap> gaps;
  std::size_t wanted_pages = 0;
  for (std::size_t slot_idx = old_count; slot_idx < page_count; ++slot_idx) {
    if (range.slots[slot_idx].state != SlotState::Empty) continue;
    ++wanted_pages;
    if (!gaps.empty() && gaps.back().first_slot + gaps.back().slot_count == slot_idx)
      ++gaps.back().slot_count;
    else
      gaps.push_back(Gap{slot_idx, 1});
  }
  if (wanted_pages > free_.size()) collect_locked(&range);

  const std::size_t free_before = free_.size();
  std::vector<device::Handle> pages;
  Status outcome = take_pages(range, wanted_pages, pages);
  if (outcome) outcome = map_gaps(range, gaps, pages);
  if (outcome) {
    revive(range, page_count);
    range.mapped_pages = page_count;
  } else {
    range.charge.move_to(pooled_, pages.size() * page_bytes_);
    free_.insert(free_.end(), pages.begin(), pages.end());
    now_.free_pages += pages.size();
    release_free_pages(free_before);
    outcome = explain(std::move(outcome).error(), range, (page_count - old_count) * page_bytes_);
  }
  publish_stats();
  return outcome;
}

Status PagePool::take_pages(Range& range, std::size_t count, std::vector<device::Handle>& pages) {
  const std::size_t reused_count = std::min(count, free_.size());
  const auto first_reused = free_.end() - static_cast<std::ptrdiff_t>(reused_count);
  pages.assign(first_reused, free_.end());
  free_.erase(first_reused, free_.end());
  pooled_.move_to(range.charge, reused_count * page_bytes_);
  now_.free_pages -= reused_count;
  pages.reserve(count);
  while (pages.size() < count) {
    range.charge.add(page_bytes_);
    const Result<device::Handle> page = device_.create(page_bytes_);
    if (!page) {
      range.charge.remove(page_bytes_);
      return tl::unexpected<Error>(page.error());
    }
    ++now_.created_pages;
    pages.push_back(*page);
  }
  return {};
}

Status PagePool::map_gaps(Range& range, std::span<const Gap> gaps, std::vector<device::Handle>& pages) {
  std::size_t page_idx = 0;
  for (std::size_t gap_idx = 0; gap_idx < gaps.size(); ++gap_idx) {
    const Gap gap = gaps[gap_idx];
    std::byte* address = range.addresses.data + gap.first_slot * page_bytes_;
    Status outcome = device_.map(address, std::span(pages).subspan(page_idx, gap.slot_count));
    const bool is_mapped = outcome.has_value();
    if (outcome) outcome = device_.set_access(address, gap.slot_count * page_bytes_, device::Access::ReadWrite);
    if (!outcome) {
      unmap_gaps(range, gaps.first(gap_idx + (is_mapped ? 1 : 0)), pages);
      return outcome;
    }
    page_idx += gap.slot_count;
  }
  page_idx = 0;
  for (const Gap gap : gaps) {
    for (std::size_t slot_idx = gap.first_slot; slot_idx < gap.first_slot + gap.slot_count; ++slot_idx)
      range.slots[slot_idx] = Slot{pages[page_idx++], SlotState::Mapped};
    now_.mapped_pages += gap.slot_count;
  }
  return {};
}

void PagePool::unmap_gaps(Range& range, std::span<const Gap> gaps, std::vector<device::Handle>& pages) {
  std::vector<device::Handle> unmapped;
  std::size_t page_idx = 0;
  for (const Gap gap : gaps) {
    const auto first_page = pages.begin() + static_cast<std::ptrdiff_t>(page_idx);
    page_idx += gap.slot_count;
    if (is_gone(device_.unmap(range.addresses.data + gap.first_slot * page_bytes_, gap.slot_count * page_bytes_))) {
      unmapped.insert(unmapped.end(), first_page, first_page + static_cast<std::ptrdiff_t>(gap.slot_count));
      continue;
    }
    // The driver keeps the mapping, so the pages stay with the range until a later collect() succeeds.
    for (std::size_t i = 0; i < gap.slot_count; ++i)
      range.slots[gap.first_slot + i].page = first_page[static_cast<std::ptrdiff_t>(i)];
    now_.mapped_pages += gap.slot_count;
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
    range.retired_pages -= taken_count;
    now_.retired_pages -= taken_count;
    now_.mapped_pages += taken_count;
    retired->first_slot = taken_end;
    retired->slot_count -= taken_count;
    retired = retired->slot_count == 0 ? retired_.erase(retired) : std::next(retired);
  }
}

tl::unexpected<Error> PagePool::explain(Error cause, const Range& range, std::size_t wanted_bytes) {
  if (cause.code != ErrorCode::OutOfMemory) return tl::unexpected<Error>(std::move(cause));
  const Result<device::MemInfo> info = device_.mem_info();
  MemoryFacts facts;
  facts.wanted_bytes = wanted_bytes;
  facts.free_bytes = info ? info->free_bytes : 0;
  facts.reclaimable_bytes = (now_.free_pages + now_.retired_pages) * page_bytes_;
  facts.tag = tag_name(range.tag);
  Error error{ErrorCode::OutOfMemory,
              fmt::format("no memory for {} more of {} on {}: {} free there, {} of ours can come back ({}). "
                          "Use a shorter context or close a conversation.",
                          format_bytes(wanted_bytes), facts.tag, device_.name(), format_bytes(facts.free_bytes),
                          format_bytes(facts.reclaimable_bytes), cause.message),
              facts};
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ebb::memory
