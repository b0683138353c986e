#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/internal/placement_search.h"

namespace ebb::engine {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;  // far above a double's error in one division, far below a page of any device

}  // namespace

ContiguousSearch::ContiguousSearch(const PlacementRequest& request, const PlacementCost& cost, std::vector<std::size_t> limits)
    : cost_(cost),
      layer_count_(request.layers.size()),
      device_count_(request.devices.size()),
      limits_(std::move(limits)),
      worst_((device_count_ + 1) * (layer_count_ + 1) * kUnitSets, kNever) {
  double total = 0;
  for (const std::size_t limit : limits_) total += static_cast<double>(limit);
  for (std::size_t device_idx = 0; device_idx < device_count_; ++device_idx) {
    const double share = request.devices[device_idx].share;
    weights_.push_back(share > 0 ? share * total : static_cast<double>(limits_[device_idx]));
  }
  worst_[index(device_count_, layer_count_, 0)] = 0;
  for (std::size_t device_idx = device_count_; device_idx-- > 0;) {
    for (std::size_t first = 0; first <= layer_count_; ++first) {
      for (std::size_t end = first; end <= layer_count_; ++end) {
        for (unsigned here = 0; here < kUnitSets; ++here) {
          const double mine = fill(device_idx, cost_.need(device_idx, first, end, here));
          if (mine == kNever) continue;
          // Every set that contains `here`: the others are placed later.
          for (unsigned units = here; units < kUnitSets; units = (units + 1) | here) {
            double& least = worst_[index(device_idx, first, units)];
            least = std::min(least, std::max(mine, worst_[index(device_idx + 1, end, units & ~here)]));
          }
        }
      }
    }
  }
}

double ContiguousSearch::fill(std::size_t device_idx, std::size_t bytes) const {
  if (bytes > limits_[device_idx]) return kNever;
  return bytes == 0 ? 0 : static_cast<double>(bytes) / weights_[device_idx];
}

bool ContiguousSearch::fits(std::size_t first, unsigned units) const { return worst_[index(0, first, units)] != kNever; }

Assignment ContiguousSearch::best(std::size_t first, unsigned units) const {
  EBB_CHECK(fits(first, units), "no placement of layers from {} on", first);
  const double most = worst_[index(0, first, units)] * (1 + kRounding);
  // With the total given, the weighted sum of squares is least where all fills are equal.
  std::vector<double> squares(worst_.size(), kNever);
  std::vector<Choice> choices(worst_.size());
  squares[index(device_count_, layer_count_, 0)] = 0;
  for (std::size_t device_idx = device_count_; device_idx-- > 0;) {
    for (std::size_t from = first; from <= layer_count_; ++from) {
      for (std::size_t end = from; end <= layer_count_; ++end) {
        for (unsigned here = 0; here < kUnitSets; ++here) {
          const double mine = fill(device_idx, cost_.need(device_idx, from, end, here));
          if (mine > most) continue;
          const double square = mine * mine * weights_[device_idx];
          for (unsigned all = here; all < kUnitSets; all = (all + 1) | here) {
            const double sum = square + squares[index(device_idx + 1, end, all & ~here)];
            double& least = squares[index(device_idx, from, all)];
            if (sum >= least) continue;
            least = sum;
            choices[index(device_idx, from, all)] = {end, here};
          }
        }
      }
    }
  }

  Assignment assignment;
  assignment.layers.assign(layer_count_, kOnHost);
  std::size_t at = first;
  unsigned left = units;
  for (std::size_t device_idx = 0; device_idx < device_count_; ++device_idx) {
    const Choice choice = choices[index(device_idx, at, left)];
    const int device = static_cast<int>(device_idx);
    for (; at < choice.end; ++at) assignment.layers[at] = device;
    if ((choice.units & kOutputBit) != 0) assignment.output = device;
    if ((choice.units & kVisionBit) != 0) assignment.vision = device;
    left &= ~choice.units;
  }
  return assignment;
}

}  // namespace ebb::engine
