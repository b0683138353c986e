// The memory policy a user may choose, as config.yaml's memory_management and the flags spell it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ebb::engine {

/// A cap as written: bytes, or a share of what the device has.
struct MemoryLimit {
  std::size_t bytes = 0;
  std::optional<double> share;  // 0.8 for "80%"; then bytes is unused
};

struct MemoryOptions {
  bool auto_gc = true;           // look at memory in the background
  double gc_threshold = 0.8;     // share of the budget (or of the device) at which it acts
  int gc_interval_s = 300;       // between looks
  bool after_generation = true;  // level 1
  int full_every_turns = 5;      // level 2; 0 = never
  bool park_after_generation = false;    // level 1 sends the chat's KV to the host
  bool unload_after_generation = false;  // level 1 drops weights that the file still holds
  std::vector<MemoryLimit> memory_limit;  // one for every device, or one each; empty = none
  std::optional<std::size_t> host_limit_bytes;  // parked chats, records, caches
  bool balance = false;
  bool yield_to_others = true;  // shrink when another program takes memory
  int idle_unload_s = 0;        // 0 = keep weights
};

}  // namespace ebb::engine
