// Memory as plain numbers for whoever shows it: devices, kinds, conversations. One snapshot, taken under the locks of
// all pools, so the parts add up and equal the devices' own counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/receipt.h"

namespace ebb::engine {

/// Counted by the device: total, free, used_by_us, others. Counted by us: everything else.
struct DeviceStatus {
  std::size_t index = 0;
  std::string name;
  std::string backend;  // "host", "fake", "cuda"
  std::string uuid;     // the driver's; empty where there is none
  std::size_t total_bytes = 0;
  std::size_t limit_bytes = 0;  // the budget; the total when there is none
  std::size_t free_bytes = 0;
  std::size_t used_by_us_bytes = 0;
  std::size_t others_bytes = 0;
  std::size_t context_bytes = 0;    // the driver's own share of this process; 0 on host and fake devices
  std::size_t held_bytes = 0;       // mapped + pool + retired
  std::size_t mapped_bytes = 0;     // under a live owner; a shared page counts once
  std::size_t pool_bytes = 0;       // kept ready
  std::size_t retired_bytes = 0;    // given up, some stream may still read them
  std::size_t untracked_bytes = 0;  // used_by_us - held - context: must be 0
  std::size_t planned_bytes = 0;
  std::size_t live_bytes = 0;       // what a perfect allocator would need now
  KindBytes kinds;                  // every device kind; sums to mapped + retired
  /// Source   spec/memory section 7: (mapped - live) / mapped, and pool / held. 0 when nothing is held.
  double internal_fragmentation = 0;
  double pool_fragmentation = 0;
  bool address_fallback = false;    // large address ranges were refused (B8)
};

/// Host memory has two halves, which share no byte: pages of the host pool (with the CPU as the device they are also that
/// device's) and what the process holds besides. touched_bytes + anon_bytes is all of it, by the operating system;
/// beside it stand our labels: the kinds of the pool, of a CPU device too, and `program`. The mapped file is in neither
/// half: the system drops and reads its pages as it likes.
struct HostStatus {
  std::optional<std::size_t> limit_bytes;  // for used_bytes alone
  std::size_t used_bytes = 0;     // sum of kinds but mapped_file
  std::size_t anon_bytes = 0;     // of the process: private pages and swap (RssAnon + VmSwap); no page of a pool is in it
  std::size_t touched_bytes = 0;  // what the host pool's pages really take: those never written take nothing
  KindBytes kinds;                // mapped_file, parked, cache, other
  KindBytes program;  // heap, heap_free, stacks, data: anon_bytes by kind, each measured; internal/process_memory.h
};

enum class ConversationState : std::uint8_t { Active, Idle, Parked };
[[nodiscard]] std::string_view state_name(ConversationState state);

struct ConversationStatus {
  std::uint64_t id = 0;
  std::string title;
  ConversationState state = ConversationState::Idle;
  std::size_t tokens = 0;
  std::size_t context = 0;
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  KindBytes kinds;
};

struct MemoryStatus {
  std::int64_t time_ms = 0;  // since the epoch
  std::vector<DeviceStatus> devices;
  HostStatus host;
  std::vector<ConversationStatus> conversations;
  std::optional<Receipt> last;
};

/// The devices a spec names ("cpu", "fake:16GiB"), without loading anything.
struct DeviceListing {
  std::string name;
  std::string backend;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t page_bytes = 0;
};
[[nodiscard]] Result<std::vector<DeviceListing>> list_devices(const std::string& spec, std::size_t fake_page_bytes);

}  // namespace ebb::engine

namespace ebb {

/// "GPU 0: 18.2/24.0 GB (75.8%)", a space between devices; used is total - free, whoever uses it; GB as cards are sold:
/// 2^30 bytes. The host's memory says CPU.
[[nodiscard]] std::string gpu_memory(const engine::MemoryStatus& status);

}  // namespace ebb
