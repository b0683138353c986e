// The half of PagePool that takes addresses, and lives with few of them where the device refuses many.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "memory/page_pool.h"

namespace ebb::memory {

Result<Range*> PagePool::open_range(Tag tag, OwnerId owner, std::size_t max_bytes, bool is_whole) {
  const std::size_t bytes = round_up(std::max(max_bytes, std::size_t{1}), page_bytes_);
  const std::lock_guard lock(mutex_);
  Result<device::AddressRange> addresses = device_.reserve(bytes);
  if (!addresses && addresses.error().code == ErrorCode::OutOfMemory && bytes > page_bytes_) {
    // One page of addresses and not half of the wish: what is left must do for every later region, too.
    Result<device::AddressRange> few = device_.reserve(page_bytes_);
    if (few) {
      addresses = std::move(few);
      now_.address_fallback = true;
      publish_stats();
    }
  }
  if (!addresses) {
    Error error = std::move(addresses).error();
    if (error.memory) error.memory->tag = tag_name(tag);
    return tl::unexpected<Error>(std::move(error));
  }
  Range& range = ranges_.emplace_back();
  range.addresses = *addresses;
  range.max_bytes = bytes;
  range.is_whole = is_whole;
  range.slot_bytes = is_whole ? 0 : page_bytes_;
  range.tag = tag;
  range.owner = owner;
  range.charge = ledger_.open(ledger_device_, tag, owner);
  return &range;
}

Status PagePool::move_addresses(Range& range, std::size_t bytes) {
  // Pages that wait for a fence keep the old addresses alive, and no stream may use what moves.
  EBB_TRY(wait_for_streams());
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  if (range.retired_slots != 0)
    return fail(ErrorCode::Io, fmt::format("{} could not be unmapped from {}; they stay counted, try again",
                                           format_bytes(range.retired_slots * range.slot_bytes), device_.name()));
  // Twice as many as before, so that a region that grows page by page seldom moves.
  const std::size_t wish = std::min(range.max_bytes, std::max(bytes, 2 * range.addresses.bytes));
  Result<device::AddressRange> addresses = device_.reserve(wish);
  if (!addresses && wish > bytes) addresses = device_.reserve(bytes);
  if (!addresses) return explain(std::move(addresses).error(), range, bytes);

  // The old addresses live on as a closed range until they are unmapped.
  Range& old = ranges_.emplace_back();
  old.slot_bytes = range.slot_bytes;
  old.is_whole = range.is_whole;
  old.tag = range.tag;
  old.owner = range.owner;
  old.charge = ledger_.open(ledger_device_, range.tag, range.owner);
  old.closed = true;
  old.addresses = std::exchange(range.addresses, *addresses);
  const std::size_t slot_count = range.mapped_slots;
  Status outcome;
  if (slot_count != 0) {
    const Bound bound = bind(range, 0, std::span(range.slots).first(slot_count), outcome);
    if (bound == Bound::Yes) {
      old.slots.resize(range.slots.size());
      add_holders(range, 0, old, Gap{0, slot_count});
      retire(old, 0, slot_count);
    } else {
      std::swap(range.addresses, old.addresses);
      if (bound == Bound::Stuck) {
        old.slots.resize(slot_count);
        add_holders(range, 0, old, Gap{0, slot_count});
        retire(old, 0, slot_count);
      }
    }
  }
  collect_locked(nullptr, options_.keep_free_pages);
  publish_stats();
  if (!outcome) return explain(std::move(outcome).error(), range, bytes);
  return {};
}

}  // namespace ebb::memory
