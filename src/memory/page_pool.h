// Owner of all physical memory of one device: creates pages, maps them under regions, keeps few ready, and gives the
// rest back. Refuses to unmap a page before every stream passed the point where it was given up, and to create one
// past the limit. Called by Region; the engine calls collect() between steps and trim() when memory shall go back.
// Invariant: pages created and not released = free + mapped + retired, and the ledger says the same in bytes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "memory/internal/range.h"
#include "memory/ledger.h"

namespace ebb::memory {

struct PoolOptions {
  std::size_t keep_free_pages = 8;  // pages above this go to the device as soon as they are free
  std::optional<LedgerDevice> ledger_device = std::nullopt;  // charge there; nothing: the pool adds its own device
};

/// Counted by the pool itself, without a driver call.
struct PoolStats {
  std::size_t page_bytes = 0;
  std::size_t free_pages = 0;
  std::size_t mapped_pages = 0;     // a shared page counts once
  std::size_t shared_pages = 0;     // of mapped_pages: with two mappings or more
  std::size_t retired_pages = 0;    // given up, still mapped: some stream may read them
  std::uint64_t created_pages = 0;  // since the start, in pages; a whole backing counts all its pages
  std::uint64_t released_pages = 0;
  std::uint64_t create_count = 0;  // calls that worked since the start
  std::uint64_t release_count = 0;
  std::uint64_t map_count = 0;
  std::uint64_t unmap_count = 0;
  std::uint64_t recreated_soon_count = 0;  // creates less than 5 s after a release: memory went back and was needed
  bool address_fallback = false;  // the device refused addresses once: some regions have few and move when they grow

  [[nodiscard]] std::size_t held_bytes() const { return (free_pages + mapped_pages + retired_pages) * page_bytes; }
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

  /// The limit of the pool's ledger device. Also counts what was released while the driver still shows it as ours, so
  /// the driver's figure does not pass the limit either. Free pages over a new limit are given back at once.
  void set_limit(std::optional<std::size_t> bytes);
  /// Waits until the driver counts no more for us than the pool holds; false when `timeout` is over first.
  /// Errors: DeviceLost.
  [[nodiscard]] Result<bool> confirm(std::chrono::milliseconds timeout);

  [[nodiscard]] PoolStats stats() const;
  /// The pools', the drivers' and the ledger's figures while nothing of these pools changes. Pools of one ledger, always
  /// named in the same order. A lost device's own figures are zero. Costs a driver call for each.
  struct Snapshot {
    struct Pool {
      PoolStats stats;
      device::MemInfo driver;
    };
    std::vector<Pool> pools;
    LedgerSnapshot ledger;
  };
  [[nodiscard]] static Snapshot snapshot(std::span<PagePool* const> pools);
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

  [[nodiscard]] Result<Range*> open_range(Tag tag, OwnerId owner, std::size_t max_bytes, bool is_whole);
  /// Moves the range to addresses for at least `bytes`; its pages follow.
  [[nodiscard]] Status move_addresses(Range& range, std::size_t bytes);
  [[nodiscard]] Status grow(Range& range, std::size_t slot_count);
  [[nodiscard]] Status fill_whole(Range& range, std::size_t bytes);
  void shrink(Range& range, std::size_t slot_count);
  [[nodiscard]] Status share(Range& source, Range& range, std::size_t slot_count);
  [[nodiscard]] Status make_private(Range& range, std::size_t first_slot);
  void close_range(Range& range);

  [[nodiscard]] Status reclaim_unusable(Range& range, std::size_t first_slot, std::size_t end_slot);
  [[nodiscard]] Status take_pages(Range& range, std::size_t count, std::vector<Page>& pages);
  /// Charges and creates `count` handles of `bytes` each; on failure `pages` keeps those that were made.
  [[nodiscard]] Status create(Range& range, std::size_t count, std::size_t bytes, std::vector<Page>& pages);
  [[nodiscard]] Status admit(std::size_t bytes);
  [[nodiscard]] Status settle_unconfirmed();
  [[nodiscard]] bool release(device::Handle handle, std::size_t bytes);
  /// On failure `pages` keeps those that are mapped nowhere.
  [[nodiscard]] Status map_gaps(Range& range, std::span<const Gap> gaps, std::vector<Page>& pages);
  void unmap_gaps(Range& range, std::span<const Gap> gaps, std::vector<Page>& pages);
  [[nodiscard]] Status wipe(const Range& range, Gap gap, std::span<const Page> pages);
  void revive(Range& range, std::size_t end_slot);
  void retire(Range& range, std::size_t first_slot, std::size_t slot_count);
  /// The range's slots [first_slot, ...) show the pages of `source` at source_slot on, too.
  void add_holders(Range& source, std::size_t source_slot, Range& range, Gap gap);
  void drop_holder(device::Handle page, const Range& range, std::size_t slot_idx);
  [[nodiscard]] bool is_shared(const Slot& slot) const { return shared_.contains(slot.page.handle.value); }
  enum class Bound : std::uint8_t { Yes, No, Stuck };  // Stuck: without access, and could not be unmapped either
  [[nodiscard]] Bound bind(const Range& range, std::size_t first_slot, std::span<const Slot> slots, Status& outcome);
  [[nodiscard]] Status swap_run(Range& range, Gap run, Range& copies, std::size_t first_copy);
  void lose_from(Range& range, Gap run, Bound bound);
  [[nodiscard]] Status wait_for_streams();
  [[nodiscard]] bool is_done(const Retired& retired);
  [[nodiscard]] Status reclaim(const Retired& retired);
  [[nodiscard]] Status wait_for(const Range& range);
  void collect_locked(const Range* spared, std::size_t keep_pages);
  void release_free_pages(std::size_t keep_pages);
  [[nodiscard]] tl::unexpected<Error> explain(Error cause, const Range& range, std::size_t wanted_bytes);
  void publish_stats();

  device::Device& device_;
  Ledger& ledger_;
  const PoolOptions options_;
  const std::size_t page_bytes_;
  const LedgerDevice ledger_device_;

  // Held across driver calls, which the driver serialises anyway. Guards all up to the copy of the counters. Order of
  // locks: this one, then the device's or the ledger's or stats_mutex_; none of those three is held while another is taken.
  mutable std::mutex mutex_;
  std::list<Range> ranges_;
  std::list<Retired> retired_;  // oldest first
  std::vector<Page> free_;
  struct Whole {
    device::Handle handle;
    std::size_t bytes = 0;
  };
  std::vector<Whole> unreleased_whole_;  // whole backings on their way to the driver, which may refuse; counted as free pages
  struct Holder {
    Range* range = nullptr;
    std::size_t slot_idx = 0;
  };
  std::unordered_map<std::uint64_t, std::vector<Holder>> shared_;  // by handle: pages with two mappings or more
  Charge pooled_;
  Charge prefix_;  // shared pages, each once
  std::size_t unconfirmed_bytes_ = 0;  // at most so much is released and still shown as ours
  std::optional<std::chrono::steady_clock::time_point> last_release_;
  PoolStats now_;

  mutable std::mutex stats_mutex_;  // never held across a driver call, so a panel never waits for one
  PoolStats stats_;
};

}  // namespace ebb::memory
