// The walk that proves the books: every page of the pool is seen once, and the ledger agrees to the byte.
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "memory/page_pool.h"

namespace ebb::memory {

void PagePool::check_invariants() const {
  const std::lock_guard lock(mutex_);
  std::unordered_set<std::uint64_t> seen;
  for (const Page& page : free_)
    EBB_CHECK(seen.insert(page.handle.value).second, "page {} is free twice", page.handle.value);

  std::size_t free_pages = free_.size();
  for (const Whole& whole : unreleased_whole_) {
    EBB_CHECK(seen.insert(whole.handle.value).second, "handle {} is free twice", whole.handle.value);
    free_pages += whole.bytes / page_bytes_;
  }

  std::unordered_map<std::uint64_t, std::size_t> mappings;  // of shared pages
  std::size_t mapped_pages = 0;
  std::size_t retired_pages = 0;
  std::size_t retired_slots = 0;
  for (const Range& range : ranges_) {
    std::size_t range_retired = 0;
    std::size_t own_mapped = 0;
    std::size_t own_retired = 0;
    for (std::size_t slot_idx = 0; slot_idx < range.slots.size(); ++slot_idx) {
      const Slot& slot = range.slots[slot_idx];
      EBB_CHECK((slot.state == SlotState::Mapped) == (slot_idx < range.mapped_slots), "slot {} of {} mapped", slot_idx,
                range.mapped_slots);
      if (slot.state == SlotState::Empty) continue;
      if (slot.state == SlotState::Retired) ++range_retired;
      const std::uint64_t handle = slot.page.handle.value;
      if (is_shared(slot)) {
        ++mappings[handle];
        const auto& holders = shared_.at(handle);
        EBB_CHECK(std::any_of(holders.begin(), holders.end(),
                              [&](const Holder& holder) {
                                return holder.range == &range && holder.slot_idx == slot_idx;
                              }),
                  "page {} does not know slot {}", handle, slot_idx);
        seen.insert(handle);
        continue;
      }
      (slot.state == SlotState::Mapped ? own_mapped : own_retired)++;
      EBB_CHECK(seen.insert(handle).second, "page {} has two owners", handle);
    }
    EBB_CHECK(range_retired == range.retired_slots, "{} retired, {} counted", range_retired, range.retired_slots);
    EBB_CHECK(range.charge.bytes() == (own_mapped + own_retired) * range.slot_bytes,
              "{} bytes charged for {} + {} pages", range.charge.bytes(), own_mapped, own_retired);
    EBB_CHECK(!range.closed || range.mapped_slots == 0, "a closed range has {} pages", range.mapped_slots);
    retired_slots += range_retired;
    mapped_pages += own_mapped * range.slot_bytes / page_bytes_;
    retired_pages += own_retired * range.slot_bytes / page_bytes_;
  }

  for (const auto& [handle, holders] : shared_) {
    EBB_CHECK(holders.size() >= 2 && mappings[handle] == holders.size(), "page {}: {} holders, {} mappings", handle,
              holders.size(), mappings[handle]);
  }
  std::size_t mapping_count = retired_slots;
  for (const Range& range : ranges_) mapping_count += range.mapped_slots;
  EBB_CHECK(now_.map_count - now_.unmap_count == mapping_count, "{} mapped, {} unmapped, {} mappings", now_.map_count,
            now_.unmap_count, mapping_count);
  mapped_pages += shared_.size();
  EBB_CHECK(now_.shared_pages == shared_.size() && prefix_.bytes() == shared_.size() * page_bytes_,
            "{} shared pages, {} counted, {} bytes charged", shared_.size(), now_.shared_pages, prefix_.bytes());

  std::size_t recorded_slots = 0;
  for (const Retired& retired : retired_) {
    recorded_slots += retired.slot_count;
    const auto first = retired.range->slots.begin() + static_cast<std::ptrdiff_t>(retired.first_slot);
    EBB_CHECK(std::all_of(first, first + static_cast<std::ptrdiff_t>(retired.slot_count),
                          [](const Slot& slot) { return slot.state == SlotState::Retired; }),
              "slots from {} are not retired", retired.first_slot);
  }
  EBB_CHECK(recorded_slots == retired_slots, "{} slots wait, {} are retired", recorded_slots, retired_slots);
  EBB_CHECK(now_.free_pages == free_pages && now_.mapped_pages == mapped_pages && now_.retired_pages == retired_pages,
            "counted {} free, {} mapped, {} retired", now_.free_pages, now_.mapped_pages, now_.retired_pages);
  EBB_CHECK(now_.created_pages - now_.released_pages == free_pages + mapped_pages + retired_pages,
            "{} created, {} released, {} seen", now_.created_pages, now_.released_pages,
            free_pages + mapped_pages + retired_pages);
  EBB_CHECK(now_.create_count - now_.release_count == seen.size(), "{} handles made, {} released, {} seen",
            now_.create_count, now_.release_count, seen.size());

  const LedgerSnapshot snapshot = ledger_.snapshot();
  const LedgerSnapshot::Device& sums = snapshot.devices[ledger_device_];
  // A device of somebody else's holds more than this pool: leases, the mapped file.
  const std::size_t owned_bytes = (mapped_pages + retired_pages) * page_bytes_;
  EBB_CHECK(options_.ledger_device ? sums.owned_bytes >= owned_bytes : sums.owned_bytes == owned_bytes,
            "the ledger has {} owned bytes for {} pages", sums.owned_bytes, mapped_pages + retired_pages);
  EBB_CHECK(sums.pooled_bytes == free_pages * page_bytes_, "the ledger has {} pooled bytes for {} pages",
            sums.pooled_bytes, free_.size());
}

}  // namespace ebb::memory
