// The half of PagePool that keeps the limit: what may be created, and what the driver has yet to take back.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/bytes.h"
#include "memory/page_pool.h"

namespace ebb::memory {
namespace {

constexpr std::chrono::milliseconds kConfirmStep{1};

}  // namespace

void PagePool::set_limit(std::optional<std::size_t> bytes) {
  const std::lock_guard lock(mutex_);
  ledger_.set_limit(ledger_device_, bytes);
  collect_locked(nullptr, options_.keep_free_pages);
  if (bytes) {
    const LedgerSnapshot snapshot = ledger_.snapshot();
    const LedgerSnapshot::Device& sums = snapshot.devices[ledger_device_];
    const std::size_t file_bytes = sums.by_tag[static_cast<std::size_t>(Tag::MappedFile)];
    const std::size_t held_bytes = sums.owned_bytes + sums.pooled_bytes - file_bytes;
    const std::size_t over_pages = div_up(held_bytes - std::min(held_bytes, *bytes), page_bytes_);
    release_free_pages(free_.size() - std::min(free_.size(), over_pages));
  }
  publish_stats();
}

Status PagePool::admit(std::size_t bytes) {
  const std::optional<std::size_t> room = ledger_.room(ledger_device_);
  if (!room || unconfirmed_bytes_ == 0 || bytes > *room || bytes <= *room - std::min(*room, unconfirmed_bytes_))
    return {};
  EBB_TRY(settle_unconfirmed());
  const std::size_t free_bytes = *room - std::min(*room, unconfirmed_bytes_);
  if (bytes <= free_bytes) return {};
  Error error{ErrorCode::OutOfMemory,
              "the driver has not taken back " + format_bytes(unconfirmed_bytes_) + " that were released; try again",
              MemoryFacts{bytes, free_bytes, unconfirmed_bytes_, {}}};
  return tl::unexpected<Error>(std::move(error));
}

Status PagePool::settle_unconfirmed() {
  if (unconfirmed_bytes_ == 0) return {};
  // The host counts a page from its first touch and takes it back at once, so its figure says nothing here.
  if (device_.kind() == device::Kind::Host) {
    unconfirmed_bytes_ = 0;
    return {};
  }
  EBB_TRY_ASSIGN(const device::MemInfo info, device_.mem_info());
  // By the ledger, which also knows what no pool gave, such as captured graphs.
  const LedgerSnapshot snapshot = ledger_.snapshot();
  const LedgerSnapshot::Device& sums = snapshot.devices[ledger_device_];
  const std::size_t held_bytes = sums.owned_bytes + sums.pooled_bytes;
  unconfirmed_bytes_ = std::min(unconfirmed_bytes_, info.ours_bytes - std::min(info.ours_bytes, held_bytes));
  return {};
}

Result<bool> PagePool::confirm(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      EBB_TRY(settle_unconfirmed());
      if (unconfirmed_bytes_ == 0) return true;
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kConfirmStep);
  }
}

}  // namespace ebb::memory
