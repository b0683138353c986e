// Owner of all physical memory of one device: creates pages, maps them under regions, keeps few ready, and gives the
// rest back. Refuses to unmap a page before every stream passed the point where it was given up. Called by Region;
// the engine calls collect() between steps and trim() when memory shall go back to the device.
// Invariant: pages created and not released = free + mapped + retired, and the ledger says the same in bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "memory/internal/range.h"
#include "memory/ledger.h"

namespace ebb::memory {

struct PoolOptions {
  std::size_t keep_free_pages = 8;  // pages above this go to the device as soon as they are free
};

/// Counted by the pool itself, without a driver call.
struct PoolStats {
  std::size_t page_bytes = 0;
  std::size_t free_pages = 0;
  std::size_t mapped_pages = 0;
  std::size_t retired_pages = 0;    // given up, still mapped: some stream may read them
  std::uint64_t created_pages = 0;  // since the start
  std::uint64_t released_pages = 0;
};

/// Threads  public members are safe from any thread; one region is used by one thread at a time.
class PagePool {
 public:
  /// Device and ledger outlive the pool.
  PagePool(device::Device& device, Ledger& ledger, PoolOptions options = {});
  PagePool(const PagePool&) = delete;  // regions point at it
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();  // waits for the fences of what is retired; a region that is still open is a failed check

  /// Unmaps what is retired and done, without waiting. Bytes over keep_free_pages go back to the device.
  /// Returns the bytes that still wait for a fence.
  std::size_t collect();
  /// collect(), then gives all free pages but `keep_pages` back. Returns the bytes given to the device.
  std::size_t trim(std::size_t keep_pages = 0);
  /// Waits until all that was retired before the call is unmapped. Errors: DeviceLost, Io (what failed stays retired).
  [[nodiscard]] Status drain();

  [[nodiscard]] PoolStats stats() const;
  /// Walks all pages and compares them with the ledger; a difference is a failed check. For tests and debug builds.
  void check_invariants() const;

  [[nodiscard]] device::Device& device() const { return device_; }
  [[nodiscard]] Ledger& ledger() const { return ledger_; }
  [[nodiscard]] LedgerDevice ledger_device() const { return ledger_device_; }
  [[nodiscard]] std::size_t page_bytes() const { return page_bytes_; }

 private:
  friend class Region;

  /// Pages of one range that were given up together.
  struct Retired {
    Range* range = nullptr;
    std::size_t first_slot = 0;
    std::size_t slot_count = 0;
    std::array<device::Fence, device::kStreamCount> fences{};
    bool fenced = false;  // false: the device is lost, nothing runs there any more
  };
  /// Neighbouring slots without a page.
  struct Gap {
    std::size_t first_slot = 0;
    std::size_t slot_count = 0;
  };

  [[nodiscard]] Result<Range*> open_range(Tag tag, OwnerId owner, std::size_t max_bytes);
  [[nodiscard]] Status grow(Range& range, std::size_t page_count);
  void shrink(Range& range, std::size_t page_count);
  void close_range(Range& range);

  [[nodiscard]] Status take_pages(Range& range, std::size_t count, std::vector<device::Handle>& pages);
  /// On failure `pages` keeps those that are mapped nowhere.
  [[nodiscard]] Status map_gaps(Range& range, std::span<const Gap> gaps, std::vector<device::Handle>& pages);
  void unmap_gaps(Range& range, std::span<const Gap> gaps, std::vector<device::Handle>& pages);
  void revive(Range& range, std::size_t end_slot);
  void retire(Range& range, std::size_t first_slot, std::size_t slot_count);
  [[nodiscard]] bool is_done(const Retired& retired);
  [[nodiscard]] Status reclaim(const Retired& retired);
  void collect_locked(const Range* spared);
  void release_free_pages(std::size_t keep_pages);
  [[nodiscard]] tl::unexpected<Error> explain(Error cause, const Range& range, std::size_t wanted_bytes);
  void publish_stats();

  device::Device& device_;
  Ledger& ledger_;
  const PoolOptions options_;
  const std::size_t page_bytes_;
  const LedgerDevice ledger_device_;

  // Held across driver calls, which the driver serialises anyway. Guards all up to the copy of the counters.
  mutable std::mutex mutex_;
  std::list<Range> ranges_;
  std::list<Retired> retired_;  // oldest first
  std::vector<device::Handle> free_;
  Charge pooled_;
  PoolStats now_;

  mutable std::mutex stats_mutex_;  // never held across a driver call, so a panel never waits for one
  PoolStats stats_;
};

}  // namespace ebb::memory
