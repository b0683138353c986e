#include "memory/region.h"

#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "memory/internal/range.h"
#include "memory/page_pool.h"

namespace ebb::memory {

struct Region::State {
  State(PagePool& owning_pool, Range& own_range)
      : pool(owning_pool), range(own_range), page_bytes(owning_pool.page_bytes()) {}
  State(const State&) = delete;  // one region answers for the range
  State& operator=(const State&) = delete;
  ~State() { pool.close_range(range); }

  PagePool& pool;
  Range& range;
  const std::size_t page_bytes;
};

Region::Region() = default;
Region::Region(Region&&) noexcept = default;
Region& Region::operator=(Region&&) noexcept = default;
Region::~Region() = default;

Result<Region> Region::reserve(PagePool& pool, Tag tag, OwnerId owner, std::size_t max_bytes, Backing backing) {
  EBB_TRY_ASSIGN(Range * range, pool.open_range(tag, owner, max_bytes, backing == Backing::Whole));
  Region region;
  region.state_ = std::make_unique<State>(pool, *range);
  return region;
}

Status Region::resize(std::size_t bytes) {
  if (state_ == nullptr) {
    EBB_CHECK(bytes == 0, "{} bytes in an empty region", bytes);
    return {};
  }
  EBB_CHECK(bytes <= reserved_bytes(), "{} bytes in a region of {}", bytes, reserved_bytes());
  const std::size_t page_count = div_up(bytes, state_->page_bytes);
  Range& range = state_->range;
  if (range.is_whole) {
    if (page_count * state_->page_bytes == committed_bytes()) return {};
    EBB_CHECK(page_count == 0 || range.mapped_slots == 0, "a whole backing of {} bytes resized to {}", range.slot_bytes,
              bytes);
    if (page_count != 0) return state_->pool.fill_whole(range, page_count * state_->page_bytes);
    state_->pool.shrink(range, 0);
    return {};
  }
  if (page_count > range.mapped_slots) return state_->pool.grow(range, page_count);
  if (page_count < range.mapped_slots) state_->pool.shrink(range, page_count);
  return {};
}

Status Region::share_front(const Region& source, std::size_t bytes) {
  EBB_CHECK(state_ != nullptr && source.state_ != nullptr && &state_->pool == &source.state_->pool,
            "{} bytes shared between pools", bytes);
  Range& range = state_->range;
  Range& from = source.state_->range;
  EBB_CHECK(!range.is_whole && !from.is_whole && range.mapped_slots == 0 && &range != &from,
            "a region of {} bytes cannot take shared pages", committed_bytes());
  EBB_CHECK(bytes <= source.committed_bytes() && bytes <= reserved_bytes(), "{} bytes shared of {} into {}", bytes,
            source.committed_bytes(), reserved_bytes());
  return state_->pool.share(from, range, bytes / state_->page_bytes);
}

Status Region::make_private(std::size_t from_byte) {
  if (state_ == nullptr || state_->range.is_whole) return {};
  return state_->pool.make_private(state_->range, from_byte / state_->page_bytes);
}

std::byte* Region::data() const { return state_ == nullptr ? nullptr : state_->range.addresses.data; }

std::size_t Region::committed_bytes() const {
  return state_ == nullptr ? 0 : state_->range.mapped_slots * state_->range.slot_bytes;
}

std::size_t Region::reserved_bytes() const { return state_ == nullptr ? 0 : state_->range.max_bytes; }

}  // namespace ebb::memory
