// The two searches behind placement.h: layers in order over the devices in order, by dynamic programming; and any
// assignment at all, by a search with a bound on its work. Called by placement.cpp only.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/internal/placement_cost.h"

namespace ebb::engine {

/// All placements that cut layers [first, L) into one run a device, in order, with the other units anywhere. Devices may
/// stay empty.
class ContiguousSearch {
 public:
  /// `limits` in bytes by device. Cost: devices x layers^2 x 9 additions.
  ContiguousSearch(const PlacementRequest& request, const PlacementCost& cost, std::vector<std::size_t> limits);

  /// Whether layers [first, L) and the units of the set have a place within the limits.
  [[nodiscard]] bool fits(std::size_t first, unsigned units) const;
  /// The placement whose fullest device is least full; among those, the one whose fills differ least. fits() must hold.
  /// Layers before `first` are on the host.
  [[nodiscard]] Assignment best(std::size_t first, unsigned units) const;

 private:
  struct Choice {
    std::size_t end = 0;
    unsigned units = 0;
  };
  [[nodiscard]] std::size_t index(std::size_t device_idx, std::size_t first, unsigned units) const {
    return (device_idx * (layer_count_ + 1) + first) * kUnitSets + units;
  }
  /// 1 is full; infinity where the bytes are over the limit.
  [[nodiscard]] double fill(std::size_t device_idx, std::size_t bytes) const;

  const PlacementCost& cost_;
  std::size_t layer_count_, device_count_;
  std::vector<std::size_t> limits_;
  std::vector<double> weights_;  // what fills are relative to: the limit, or the device's share of a split
  std::vector<double> worst_;    // [device][first layer][units]: least possible fill of the fullest device from here on
};

/// An assignment of all layers and units in any order; nothing when there is none, or none was found among `most_tries`
/// sets of layers on a device.
[[nodiscard]] std::optional<Assignment> place_scattered(const PlacementRequest& request, const PlacementCost& cost,
                                                        std::size_t most_tries);

}  // namespace ebb::engine
