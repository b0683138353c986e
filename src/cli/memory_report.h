// What `ebb bench memory` measures, in numbers, and its forms: tables for people, CSV and JSON for programs, a chart.
// All four are written from the same report. Bytes "on the device" are the device's own count; fragmentation follows
// the formulas in docs/claims.md over all devices together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/line_chart.h"
#include "cli/options.h"
#include "engine/engine.h"

namespace ebb::cli {

/// One instant, summed over the devices.
struct MemoryPoint {
  std::size_t device_bytes = 0;  // ours by the devices' own count
  std::size_t live_bytes = 0;    // what a perfect allocator would need
  std::size_t mapped_bytes = 0;
  std::size_t held_bytes = 0;  // mapped, waiting, and ready in the pool

  [[nodiscard]] double internal_fragmentation() const;  // (mapped - live) / mapped
  [[nodiscard]] double pool_share() const;              // (held - mapped) / held
  [[nodiscard]] double waste() const;                   // (held - live) / held
};
[[nodiscard]] MemoryPoint memory_point(const engine::MemoryStatus& status);

struct TurnResult {
  MemoryPoint after;
  double answer_ms = 0;  // prompt and answer, and what the strategy did before the answer was handed over
};

struct StrategyResult {
  std::string name;
  std::size_t floor_bytes = 0;  // on the device: weights loaded, no chat
  std::vector<TurnResult> turns;

  [[nodiscard]] double mean_answer_ms() const;
};

struct ResetResult {
  std::string chat;
  std::size_t turns = 0;
  std::size_t tokens = 0;
  std::size_t chat_bytes = 0;    // held by the chat before, by the ledger
  std::size_t before_bytes = 0;  // on the device
  std::size_t after_bytes = 0;
  std::vector<double> ms;  // ascending, one each repetition; confirmed by the device when it returns
  bool confirmed = false;  // each time

  /// Of the chat's bytes, what the device counts as gone.
  [[nodiscard]] double released_share() const;
  [[nodiscard]] double median_ms() const;
};

struct MemoryReport {
  engine::ModelInfo model;
  std::string devices;
  std::size_t message_tokens = 0;
  std::size_t answer_tokens = 0;
  std::vector<StrategyResult> strategies;
  std::vector<ResetResult> resets;
};

[[nodiscard]] std::string memory_report(const MemoryReport& report, TableFormat format);
/// Bytes above the floor after each turn, a line for each strategy.
[[nodiscard]] LineChart memory_chart(const MemoryReport& report);

}  // namespace ebb::cli
