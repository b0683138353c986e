// A named range of addresses on one device that grows and shrinks in place: addresses are reserved once and stay (but see
// reserve()), pages come and go under them, and two regions may show the same first pages. All device memory (weights, KV, scratch, staging) is a Region of a PagePool.
// Move-only; dropping it gives every page back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "memory/ledger.h"

namespace ebb::memory {

class PagePool;

/// Pages: one handle a page, so a region grows and shrinks page by page. Whole: one handle for all, with fewer driver
/// calls and no page kept ready; for what comes and goes as a whole, like the weights of a layer.
enum class Backing : std::uint8_t { Pages, Whole };

class Region {
 public:
  Region();  // empty: no addresses, no bytes; only resize(0) is allowed

  /// Reserves addresses for at most `max_bytes` (rounded up to pages); commits nothing.
  /// Where the device refuses so many addresses the region begins with few, and a resize() or share_front() past them
  /// moves it: data() changes, contents stay, PoolStats::address_fallback says so.
  /// Errors   OutOfMemory when the device refuses even one page of addresses.
  [[nodiscard]] static Result<Region> reserve(PagePool& pool, Tag tag, OwnerId owner, std::size_t max_bytes,
                                              Backing backing = Backing::Pages);

  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  ~Region();

  /// Makes the first `bytes` bytes usable and gives pages past them back. Data below stays; new bytes are undefined.
  /// A resize that does not change the number of pages takes no lock and makes no call. `bytes` over reserved_bytes()
  /// is misuse, and so is a Whole region that goes from one size to another without 0 between. Errors   OutOfMemory{wanted, free, reclaimable, tag}: the size is as before. DeviceLost. Shrinking
  /// never fails. Stream   pages given back are unmapped only after every stream has passed this moment. Threads  one
  /// thread at a time for one region; different regions are independent.
  [[nodiscard]] Status resize(std::size_t bytes);

  /// Shows the first whole pages of `source`, up to `bytes`, here too: no copy, no memory. Both are Pages regions of one
  /// pool, this one holds nothing. A page with two mappings or more has tag Prefix and the engine as its owner, and
  /// whoever is left alone with it is charged again. Whoever writes to a shared page calls make_private() first.
  /// Errors   OutOfMemory (page tables), Io: this region stays empty. DeviceLost.
  /// Threads  no other thread uses `source` meanwhile.
  [[nodiscard]] Status share_front(const Region& source, std::size_t bytes);
  /// Gives this region own copies of the shared pages from the page of `from_byte` on; contents and data() stay. Waits for
  /// all streams.
  /// Errors   OutOfMemory, Io, DeviceLost: contents stay, some pages may still be shared. Only if the driver then refuses
  /// to map the old pages again, the region ends before them: committed_bytes() says so.
  [[nodiscard]] Status make_private(std::size_t from_byte);

  [[nodiscard]] std::byte* data() const;              // the first byte; null when empty
  [[nodiscard]] std::size_t committed_bytes() const;  // whole pages under the range
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::memory
