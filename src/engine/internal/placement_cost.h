// What any set of units costs on any device under one load, in whole pages, from tables that are filled once.
// Called by the searches of placement.h only. Places are numbered like devices; the host follows the last.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "engine/internal/placement.h"

namespace ebb::engine {

/// Units that are no layers, as bits.
inline constexpr unsigned kOutputBit = 1;
inline constexpr unsigned kVisionBit = 2;
inline constexpr unsigned kUnitSets = 4;

class PlacementCost {
 public:
  PlacementCost(const PlacementRequest& request, const PlacementLoad& load);

  [[nodiscard]] std::size_t host_place() const { return request_.devices.size(); }
  /// Weights and KV of layers [first, end), without scratch.
  [[nodiscard]] std::size_t range_bytes(std::size_t place_idx, std::size_t first, std::size_t end) const {
    return (*tables_[place_idx])[first * (layer_count_ + 1) + end];
  }
  /// Scratch, records and the units of a set: what a place costs beside its layers once it has anything at all.
  [[nodiscard]] std::size_t fixed_bytes(std::size_t place_idx, unsigned units) const { return fixed_[place_idx][units]; }
  /// Both; a place without any unit costs nothing.
  [[nodiscard]] std::size_t need(std::size_t place_idx, std::size_t first, std::size_t end, unsigned units) const {
    return first == end && units == 0 ? 0 : range_bytes(place_idx, first, end) + fixed_bytes(place_idx, units);
  }

  [[nodiscard]] std::size_t weight_bytes(std::size_t place_idx, std::size_t layer_idx) const;
  /// Of all chats.
  [[nodiscard]] std::size_t kv_bytes(std::size_t place_idx, std::size_t globals, std::size_t locals) const;
  /// No rounding makes a layer cheaper than this, on any device.
  [[nodiscard]] std::size_t least_kv_bytes(bool global) const { return least_kv_[global ? 1 : 0]; }
  [[nodiscard]] PlaceBytes place_bytes(std::size_t place_idx, const Assignment& units) const;
  [[nodiscard]] bool host_fits(const Assignment& units) const;
  /// The units that are no layers: output, and the tower if there is one.
  [[nodiscard]] unsigned all_units() const { return kOutputBit | (request_.vision ? kVisionBit : 0); }

 private:
  using Table = std::vector<std::size_t>;  // [first][end], (layers + 1)^2

  [[nodiscard]] std::size_t page_bytes(std::size_t place_idx) const;
  [[nodiscard]] bool is_host(std::size_t place_idx) const;
  [[nodiscard]] device::Kind place_kind(std::size_t place_idx) const;
  [[nodiscard]] std::size_t weight_pages(std::size_t place_idx, const UnitBytes& bytes) const;
  [[nodiscard]] KvBytes chat_kv(std::size_t page, std::size_t globals, std::size_t locals) const;
  [[nodiscard]] Table make_table(std::size_t place_idx) const;
  [[nodiscard]] std::size_t record_bytes() const;

  const PlacementRequest& request_;
  const PlacementLoad load_;
  const KvChoice& choice_;
  std::size_t layer_count_;
  std::vector<std::size_t> global_layers_, local_layers_;
  std::map<std::pair<std::size_t, bool>, Table> table_by_kind_;  // by page size and whether it is the host
  std::vector<const Table*> tables_;
  std::vector<std::array<std::size_t, kUnitSets>> fixed_;
  std::array<std::size_t, 2> least_kv_{};
  std::size_t record_bytes_ = 0;  // of all chats, on the host
  std::size_t rows_ = 0;
};

}  // namespace ebb::engine
