// The page table of one region, private to memory/: which page lies under which slot of the reserved addresses.
// A slot is one page, or the whole of a region with Backing::Whole.
// Invariant: slots [0, mapped_slots) hold a mapped handle; further slots are retired or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "memory/ledger.h"

namespace ebb::memory {

enum class SlotState : std::uint8_t { Empty, Mapped, Retired };

/// Nobody's number: what it marks is wiped whoever gets it, and never comes back to life under its old address.
inline constexpr OwnerId kUnknownOwner = std::numeric_limits<OwnerId>::max();

struct Page {
  device::Handle handle;
  std::optional<OwnerId> last_owner;  // who may have written to it; nothing: fresh from the device
};

struct Slot {
  Page page;
  SlotState state = SlotState::Empty;
};

struct Range {
  device::AddressRange addresses;
  std::size_t max_bytes = 0;  // more than `addresses` holds where the device refused so many
  bool is_whole = false;
  std::size_t slot_bytes = 0;  // a page; for a whole backing what the one slot holds, and nothing while it is empty
  Tag tag = Tag::Other;
  OwnerId owner = kEngineOwner;
  Charge charge;            // mapped and retired slots, but no shared pages
  std::vector<Slot> slots;  // up to the highest slot that ever held a page
  std::size_t mapped_slots = 0;
  std::size_t retired_slots = 0;
  bool closed = false;  // its region is gone; it stays until its last retired slot is unmapped
};

/// After the loss of a device its memory is gone, so for the books a refused unmap or release has happened.
[[nodiscard]] inline bool is_gone(const Status& status) {
  return status || status.error().code == ErrorCode::DeviceLost;
}

}  // namespace ebb::memory
