#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "engine/internal/placement_search.h"

namespace ebb::engine {
namespace {

/// Layers that cost the same everywhere.
struct LayerClass {
  bool global = false;
  UnitBytes weights;
  std::vector<std::size_t> layers;
};

class ScatteredSearch {
 public:
  ScatteredSearch(const PlacementRequest& request, const PlacementCost& cost, std::size_t most_tries)
      : request_(request), cost_(cost), most_tries_(most_tries) {
    for (std::size_t layer_idx = 0; layer_idx < request.layers.size(); ++layer_idx) {
      const LayerNeed& need = request.layers[layer_idx];
      auto found = std::ranges::find_if(classes_, [&](const LayerClass& other) {
        return other.global == need.global && other.weights.on_device == need.weights.on_device &&
               other.weights.on_host == need.weights.on_host;
      });
      if (found == classes_.end()) found = classes_.insert(found, {need.global, need.weights, {}});
      found->layers.push_back(layer_idx);
    }
    for (const LayerClass& layers : classes_) left_.push_back(layers.layers.size());
    taken_.assign(request.devices.size(), std::vector<std::size_t>(classes_.size(), 0));
    units_.assign(request.devices.size(), 0);
    const std::size_t side = request.layers.size() + 1;
    kv_.assign(request.devices.size() * side * side, kUnknown);
  }

  std::optional<Assignment> run() {
    if (!go(0, cost_.all_units())) return std::nullopt;
    Assignment assignment;
    assignment.layers.assign(request_.layers.size(), kOnHost);
    std::vector<std::size_t> next(classes_.size(), 0);
    for (std::size_t device_idx = 0; device_idx < taken_.size(); ++device_idx) {
      const int device = static_cast<int>(device_idx);
      for (std::size_t class_idx = 0; class_idx < classes_.size(); ++class_idx) {
        for (std::size_t count = 0; count < taken_[device_idx][class_idx]; ++count) {
          assignment.layers[classes_[class_idx].layers[next[class_idx]++]] = device;
        }
      }
      if ((units_[device_idx] & kOutputBit) != 0) assignment.output = device;
      if ((units_[device_idx] & kVisionBit) != 0) assignment.vision = device;
    }
    return assignment;
  }

 private:
  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();
  using State = std::pair<std::size_t, std::vector<std::size_t>>;

  [[nodiscard]] std::size_t limit(std::size_t device_idx) const { return request_.devices[device_idx].limit_bytes; }
  [[nodiscard]] std::size_t layer_bytes(std::size_t device_idx, std::size_t class_idx) const {
    const LayerClass& layers = classes_[class_idx];
    return cost_.weight_bytes(device_idx, layers.layers.front()) + cost_.least_kv_bytes(layers.global);
  }

  /// Devices from `device_idx` on take all that is left.
  bool go(std::size_t device_idx, unsigned units) {
    const bool done = units == 0 && std::ranges::all_of(left_, [](std::size_t count) { return count == 0; });
    if (done) return true;
    if (device_idx == request_.devices.size() || tries_ >= most_tries_ || !may_fit(device_idx)) return false;
    State state(device_idx * kUnitSets + units, left_);
    if (failed_.contains(state)) return false;
    for (unsigned here = 0; here < kUnitSets; ++here) {
      if ((here & ~units) != 0 || cost_.fixed_bytes(device_idx, here) > limit(device_idx)) continue;
      units_[device_idx] = here;
      if (take(device_idx, 0, cost_.fixed_bytes(device_idx, here), units & ~here)) return true;
    }
    units_[device_idx] = 0;
    if (go(device_idx + 1, units)) return true;  // an empty device needs no scratch
    failed_.insert(std::move(state));
    return false;
  }

  /// Chooses how many layers of each class from `class_idx` on this device takes; most first. `bytes` is at most what the
  /// choice so far costs.
  bool take(std::size_t device_idx, std::size_t class_idx, std::size_t bytes, unsigned units_left) {
    if (class_idx == classes_.size()) {
      ++tries_;
      return exact_bytes(device_idx) <= limit(device_idx) && go(device_idx + 1, units_left);
    }
    const std::size_t each = layer_bytes(device_idx, class_idx);
    const std::size_t room = limit(device_idx) - bytes;
    const std::size_t most = each == 0 ? left_[class_idx] : std::min(left_[class_idx], room / each);
    for (std::size_t count = most;; --count) {
      taken_[device_idx][class_idx] = count;
      left_[class_idx] -= count;
      const bool found = tries_ < most_tries_ && take(device_idx, class_idx + 1, bytes + count * each, units_left);
      left_[class_idx] += count;
      if (found) return true;
      if (count == 0) break;
    }
    taken_[device_idx][class_idx] = 0;
    return false;
  }

  [[nodiscard]] std::size_t exact_bytes(std::size_t device_idx) const {
    std::size_t weights = 0, globals = 0, locals = 0;
    for (std::size_t class_idx = 0; class_idx < classes_.size(); ++class_idx) {
      const std::size_t count = taken_[device_idx][class_idx];
      weights += count * cost_.weight_bytes(device_idx, classes_[class_idx].layers.front());
      (classes_[class_idx].global ? globals : locals) += count;
    }
    if (globals + locals == 0 && units_[device_idx] == 0) return 0;
    return weights + kv_bytes(device_idx, globals, locals) + cost_.fixed_bytes(device_idx, units_[device_idx]);
  }

  [[nodiscard]] std::size_t kv_bytes(std::size_t device_idx, std::size_t globals, std::size_t locals) const {
    const std::size_t side = request_.layers.size() + 1;
    std::size_t& known = kv_[(device_idx * side + globals) * side + locals];
    if (known == kUnknown) known = cost_.kv_bytes(device_idx, globals, locals);
    return known;
  }

  /// What is left is at most what all devices from here on can hold, scratch and rounding aside.
  [[nodiscard]] bool may_fit(std::size_t device_idx) const {
    std::size_t room = 0;
    for (std::size_t idx = device_idx; idx < request_.devices.size(); ++idx) room += limit(idx);
    std::size_t need = 0;
    for (std::size_t class_idx = 0; class_idx < classes_.size(); ++class_idx) {
      std::size_t each = layer_bytes(device_idx, class_idx);
      for (std::size_t idx = device_idx; idx < request_.devices.size(); ++idx) each = std::min(each, layer_bytes(idx, class_idx));
      need += left_[class_idx] * each;
    }
    return need <= room;
  }

  const PlacementRequest& request_;
  const PlacementCost& cost_;
  std::vector<LayerClass> classes_;
  std::vector<std::size_t> left_;                // by class
  std::vector<std::vector<std::size_t>> taken_;  // [device][class]
  std::vector<unsigned> units_;                  // by device
  std::set<State> failed_;
  mutable std::vector<std::size_t> kv_;          // [device][globals][locals]
  std::size_t most_tries_;
  std::size_t tries_ = 0;
};

}  // namespace

std::optional<Assignment> place_scattered(const PlacementRequest& request, const PlacementCost& cost, std::size_t most_tries) {
  return ScatteredSearch(request, cost, most_tries).run();
}

}  // namespace ebb::engine
