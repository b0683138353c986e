// The walk that proves the books: every page of the pool is seen once, and the ledger agrees to the byte.
#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "memory/page_pool.h"

namespace ebb::memory {

void PagePool::check_invariants() const {
  const std::lock_guard lock(mutex_);
  std::unordered_set<std::uint64_t> seen;
  for (const device::Handle page : free_)
    EBB_CHECK(seen.insert(page.value).second, "page {} is free twice", page.value);

  std::size_t free_pages = free_.size();
  for (const Whole& whole : unreleased_whole_) {
    EBB_CHECK(seen.insert(whole.handle.value).second, "handle {} is free twice", whole.handle.value);
    free_pages += whole.bytes / page_bytes_;
  }

  std::size_t mapped_pages = 0;
  std::size_t retired_pages = 0;
  for (const Range& range : ranges_) {
    std::size_t range_retired = 0;
    for (std::size_t slot_idx = 0; slot_idx < range.slots.size(); ++slot_idx) {
      const Slot& slot = range.slots[slot_idx];
      EBB_CHECK((slot.state == SlotState::Mapped) == (slot_idx < range.mapped_slots), "slot {} of {} mapped", slot_idx,
                range.mapped_slots);
      if (slot.state == SlotState::Empty) continue;
      if (slot.state == SlotState::Retired) ++range_retired;
      EBB_CHECK(seen.insert(slot.page.value).second, "page {} has two owners", slot.page.value);
    }
    EBB_CHECK(range_retired == range.retired_slots, "{} retired, {} counted", range_retired, range.retired_slots);
    EBB_CHECK(range.charge.bytes() == (range.mapped_slots + range_retired) * range.slot_bytes,
              "{} bytes charged for {} + {} pages", range.charge.bytes(), range.mapped_slots, range_retired);
    EBB_CHECK(!range.closed || range.mapped_slots == 0, "a closed range has {} pages", range.mapped_slots);
    mapped_pages += range.mapped_slots * range.slot_bytes / page_bytes_;
    retired_pages += range_retired * range.slot_bytes / page_bytes_;
  }

  std::size_t recorded_pages = 0;
  for (const Retired& retired : retired_) {
    recorded_pages += retired.slot_count * retired.range->slot_bytes / page_bytes_;
    const auto first = retired.range->slots.begin() + static_cast<std::ptrdiff_t>(retired.first_slot);
    EBB_CHECK(std::all_of(first, first + static_cast<std::ptrdiff_t>(retired.slot_count),
                          [](const Slot& slot) { return slot.state == SlotState::Retired; }),
              "slots from {} are not retired", retired.first_slot);
  }
  EBB_CHECK(recorded_pages == retired_pages, "{} pages wait, {} are retired", recorded_pages, retired_pages);
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
