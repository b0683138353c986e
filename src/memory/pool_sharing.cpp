// The half of PagePool that lets several regions show one page: a shared prefix, and its end.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "memory/page_pool.h"

namespace ebb::memory {

void PagePool::add_holders(Range& source, std::size_t source_slot, Range& range, Gap gap) {
  for (std::size_t i = 0; i < gap.slot_count; ++i) {
    const device::Handle handle = source.slots[source_slot + i].page.handle;
    std::vector<Holder>& holders = shared_[handle.value];
    if (holders.empty()) {
      holders.push_back(Holder{&source, source_slot + i});
      source.charge.move_to(prefix_, page_bytes_);
      ++now_.shared_pages;
    }
    holders.push_back(Holder{&range, gap.first_slot + i});
    range.slots[gap.first_slot + i] = Slot{Page{handle, range.owner}, SlotState::Mapped};
  }
}

void PagePool::drop_holder(device::Handle page, const Range& range, std::size_t slot_idx) {
  const auto shared = shared_.find(page.value);
  std::vector<Holder>& holders = shared->second;
  std::erase_if(holders, [&](const Holder& holder) { return holder.range == &range && holder.slot_idx == slot_idx; });
  if (holders.size() > 1) return;
  const Holder last = holders.front();
  shared_.erase(shared);
  prefix_.move_to(last.range->charge, page_bytes_);
  --now_.shared_pages;
  if (last.range->slots[last.slot_idx].state != SlotState::Retired) return;
  --now_.mapped_pages;
  ++now_.retired_pages;
}

PagePool::Bound PagePool::bind(const Range& range, std::size_t first_slot, std::span<const Slot> slots,
                               Status& outcome) {
  std::vector<device::Handle> handles;
  for (const Slot& slot : slots) handles.push_back(slot.page.handle);
  std::byte* address = range.addresses.data + first_slot * page_bytes_;
  const std::size_t bytes = slots.size() * page_bytes_;
  outcome = device_.map(address, handles);
  if (!outcome) return Bound::No;
  now_.map_count += slots.size();
  outcome = device_.set_access(address, bytes, device::Access::ReadWrite);
  if (outcome) return Bound::Yes;
  if (!is_gone(device_.unmap(address, bytes))) return Bound::Stuck;
  now_.unmap_count += slots.size();
  return Bound::No;
}

Status PagePool::share(Range& source, Range& range, std::size_t slot_count) {
  const std::lock_guard lock(mutex_);
  if (slot_count == 0) return {};
  if (range.slots.size() < slot_count) range.slots.resize(slot_count);
  if (range.retired_slots != 0) {
    EBB_TRY(wait_for(range));
    collect_locked(nullptr, options_.keep_free_pages);
    publish_stats();
    if (range.retired_slots != 0)
      return fail(ErrorCode::Io, fmt::format("{} could not be unmapped from {}; they stay counted, try again",
                                             format_bytes(range.retired_slots * page_bytes_), device_.name()));
  }
  if (slot_count * page_bytes_ > range.addresses.bytes) EBB_TRY(move_addresses(range, slot_count * page_bytes_));
  Status outcome;
  const Bound bound = bind(range, 0, std::span(source.slots).first(slot_count), outcome);
  if (bound != Bound::No) add_holders(source, 0, range, Gap{0, slot_count});
  if (bound != Bound::No) range.mapped_slots = slot_count;
  if (bound == Bound::Stuck) lose_from(range, Gap{0, slot_count}, bound);
  publish_stats();
  if (!outcome) return explain(std::move(outcome).error(), range, slot_count * page_bytes_);
  return {};
}

Status PagePool::make_private(Range& range, std::size_t first_slot) {
  const std::lock_guard lock(mutex_);
  const auto find_runs = [&] {
    std::vector<Gap> runs;
    for (std::size_t slot_idx = first_slot; slot_idx < range.mapped_slots; ++slot_idx) {
      if (!is_shared(range.slots[slot_idx])) continue;
      if (!runs.empty() && runs.back().first_slot + runs.back().slot_count == slot_idx)
        ++runs.back().slot_count;
      else
        runs.push_back(Gap{slot_idx, 1});
    }
    return runs;
  };
  if (find_runs().empty()) return {};
  // The copies must follow all writes, and nothing may read the old pages here once they are unmapped.
  EBB_TRY(wait_for_streams());
  collect_locked(nullptr, options_.keep_free_pages);
  const std::vector<Gap> runs = find_runs();
  std::size_t page_count = 0;
  for (const Gap run : runs) page_count += run.slot_count;
  publish_stats();
  if (page_count == 0) return {};

  Result<device::AddressRange> addresses = device_.reserve(page_count * page_bytes_);
  if (!addresses) return explain(std::move(addresses).error(), range, page_count * page_bytes_);
  Range& copies = ranges_.emplace_back();
  copies.addresses = *addresses;
  copies.slot_bytes = page_bytes_;
  copies.tag = range.tag;
  copies.owner = range.owner;
  copies.charge = ledger_.open(ledger_device_, range.tag, range.owner);
  copies.slots.resize(page_count);
  std::vector<Page> pages;
  Status outcome = take_pages(copies, page_count, pages);
  const Gap all{0, page_count};
  if (outcome) outcome = map_gaps(copies, std::span(&all, 1), pages);
  if (outcome) {
    copies.mapped_slots = page_count;
    std::size_t first_copy = 0;
    for (const Gap run : runs) {
      if (outcome) outcome = swap_run(range, run, copies, first_copy);
      first_copy += run.slot_count;
    }
    copies.mapped_slots = 0;
    retire(copies, 0, page_count);
  } else {
    copies.charge.move_to(pooled_, pages.size() * page_bytes_);
    free_.insert(free_.end(), pages.begin(), pages.end());
    now_.free_pages += pages.size();
  }
  copies.closed = true;
  Status waited = wait_for_streams();
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  if (!outcome) return explain(std::move(outcome).error(), range, page_count * page_bytes_);
  return waited;
}

Status PagePool::swap_run(Range& range, Gap run, Range& copies, std::size_t first_copy) {
  std::byte* const address = range.addresses.data + run.first_slot * page_bytes_;
  const std::size_t bytes = run.slot_count * page_bytes_;
  EBB_TRY(device_.copy(device::Stream::Copy, copies.addresses.data + first_copy * page_bytes_, address, bytes));
  EBB_TRY(wait_for_streams());
  EBB_TRY(device_.unmap(address, bytes));
  now_.unmap_count += run.slot_count;
  Status outcome;
  const auto own = std::span(copies.slots).subspan(first_copy, run.slot_count);
  const Bound bound = bind(range, run.first_slot, own, outcome);
  if (bound == Bound::No) {
    Status undone;
    const auto old = std::span(range.slots).subspan(run.first_slot, run.slot_count);
    const Bound back = bind(range, run.first_slot, old, undone);
    if (back != Bound::Yes) lose_from(range, run, back);
    return outcome;
  }
  for (std::size_t slot_idx = run.first_slot; slot_idx < run.first_slot + run.slot_count; ++slot_idx)
    drop_holder(range.slots[slot_idx].page.handle, range, slot_idx);
  add_holders(copies, first_copy, range, run);
  if (bound == Bound::Stuck) lose_from(range, run, bound);
  return outcome;
}

void PagePool::lose_from(Range& range, Gap run, Bound bound) {
  const std::size_t run_end = run.first_slot + run.slot_count;
  for (std::size_t slot_idx = run.first_slot; slot_idx < run_end; ++slot_idx) {
    range.slots[slot_idx].page.last_owner = kUnknownOwner;
    if (bound != Bound::No) continue;
    const Slot lost = std::exchange(range.slots[slot_idx], Slot{});
    drop_holder(lost.page.handle, range, slot_idx);
  }
  const std::size_t old_count = std::exchange(range.mapped_slots, run.first_slot);
  const std::size_t first_retired = bound == Bound::No ? run_end : run.first_slot;
  if (first_retired < old_count) retire(range, first_retired, old_count - first_retired);
}

}  // namespace ebb::memory
