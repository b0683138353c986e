#include "engine/internal/placement.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/internal/placement_cost.h"
#include "engine/internal/placement_search.h"

namespace ebb::engine {
namespace {

// Placements out of order are wanted where memory is nearly full to the byte; past this bound the layers that do not fit
// go to the host. A plan asks once in earnest and dozens of times for its context and its advice.
constexpr std::size_t kMostTries = 30'000;
constexpr std::size_t kMostTriesInPassing = 1'000;

std::vector<std::size_t> limits_of(const PlacementRequest& request) {
  std::vector<std::size_t> limits;
  for (const PlacementDevice& device : request.devices) limits.push_back(device.banned ? 0 : device.limit_bytes);
  return limits;
}

/// The host itself is a device: a unit that does not fit there fits nowhere.
bool host_is_device(const PlacementRequest& request) { return std::ranges::any_of(request.devices, &PlacementDevice::is_host); }

/// Layers that the user keeps on the host.
std::size_t kept_on_host(const PlacementRequest& request) {
  const std::size_t layers = request.layers.size();
  return layers - std::min(layers, request.device_layers.value_or(layers));
}

Assignment all_on_host(const PlacementRequest& request) {
  Assignment units;
  units.layers.assign(request.layers.size(), kOnHost);
  return units;
}

/// Bytes of weights that each token reads on the host.
std::size_t host_read_bytes(const PlacementRequest& request, std::size_t first, unsigned units) {
  std::size_t bytes = (units & kOutputBit) != 0 ? 0 : request.output.on_device;
  for (std::size_t layer_idx = 0; layer_idx < first; ++layer_idx) bytes += request.layers[layer_idx].weights.on_device;
  return bytes;
}

class Placer {
 public:
  Placer(const PlacementRequest& request, const PlacementLoad& load)
      : request_(request), cost_(request, load), search_(request, cost_, limits_of(request)), first_(kept_on_host(request)) {}

  /// Everything that was asked for on devices is there.
  std::optional<Assignment> complete(std::size_t most_tries) const {
    const unsigned units = cost_.all_units();
    std::optional<Assignment> found;
    if (!uses_devices()) {
      found = all_on_host(request_);
    } else if (search_.fits(first_, units)) {
      found = search_.best(first_, units);
    } else if (first_ == 0) {
      found = place_scattered(request_, cost_, most_tries);
    }
    return found && cost_.host_fits(*found) ? found : std::nullopt;
  }

  /// As little as possible on the host.
  std::optional<Assignment> partial() const {
    if (host_is_device(request_) || request_.all_on_devices || !uses_devices()) return std::nullopt;
    std::optional<Assignment> best;
    std::size_t least = 0;
    // The tower comes first: a picture must not fail later (B1). Then the sets without it.
    const unsigned all = cost_.all_units();
    for (const std::array<unsigned, 2>& sets : {std::array{all, all & ~kOutputBit}, std::array{kOutputBit, 0U}}) {
      for (const unsigned units : sets) {
        const std::optional<std::size_t> first = least_on_host(units);
        if (!first) continue;
        const std::size_t bytes = host_read_bytes(request_, *first, units);
        if (best && bytes >= least) continue;
        best = search_.best(*first, units);
        least = bytes;
      }
      if (best) break;
    }
    if (best) fill_gaps(*best);
    return best;
  }

  /// Where everything would be with more memory: the same amount on every device that has any.
  Assignment demand() const {
    if (!uses_devices()) return all_on_host(request_);
    std::size_t low = 0, more = kFirstExtraBytes;
    while (!search_with(more).fits(first_, cost_.all_units())) {
      low = more;
      more *= 2;
    }
    while (more - low > kFirstExtraBytes) {
      const std::size_t middle = low + (more - low) / 2;
      (search_with(middle).fits(first_, cost_.all_units()) ? more : low) = middle;
    }
    return search_with(more).best(first_, cost_.all_units());
  }

  Placement result(Assignment units, bool fits, bool complete) const {
    Placement placement;
    placement.fits = fits;
    placement.complete = complete;
    for (std::size_t place_idx = 0; place_idx < request_.devices.size(); ++place_idx) {
      placement.devices.push_back(cost_.place_bytes(place_idx, units));
    }
    placement.host = cost_.place_bytes(cost_.host_place(), units);
    placement.units = std::move(units);
    return placement;
  }

 private:
  static constexpr std::size_t kFirstExtraBytes = std::size_t{1} << 20;

  bool uses_devices() const {
    return request_.device_layers != std::size_t{0} && !std::ranges::all_of(request_.devices, &PlacementDevice::banned);
  }

  ContiguousSearch search_with(std::size_t more) const {
    std::vector<std::size_t> limits = limits_of(request_);
    for (std::size_t device_idx = 0; device_idx < limits.size(); ++device_idx) {
      if (!request_.devices[device_idx].banned) limits[device_idx] += more;
    }
    return {request_, cost_, std::move(limits)};
  }

  std::optional<std::size_t> least_on_host(unsigned units) const {
    for (std::size_t first = first_; first <= request_.layers.size(); ++first) {
      if (search_.fits(first, units) && cost_.host_fits(search_.best(first, units))) return first;
    }
    return std::nullopt;
  }

  bool legal(const Assignment& units) const {
    const std::vector<std::size_t> limits = limits_of(request_);
    for (std::size_t place_idx = 0; place_idx < limits.size(); ++place_idx) {
      if (cost_.place_bytes(place_idx, units).sum() > limits[place_idx]) return false;
    }
    return cost_.host_fits(units);
  }

  bool try_move(Assignment& units, int& unit) const {
    for (std::size_t device_idx = 0; device_idx < request_.devices.size(); ++device_idx) {
      if (request_.devices[device_idx].banned) continue;
      unit = static_cast<int>(device_idx);
      if (legal(units)) return true;
    }
    unit = kOnHost;
    return false;
  }

  /// After the layers in order: single units that still find room, last layers first.
  void fill_gaps(Assignment& units) const {
    if (request_.vision && units.vision == kOnHost) try_move(units, units.vision);
    if (units.output == kOnHost) try_move(units, units.output);
    for (std::size_t layer_idx = request_.layers.size(); layer_idx-- > first_;) {
      if (units.layers[layer_idx] == kOnHost) try_move(units, units.layers[layer_idx]);
    }
  }

  const PlacementRequest& request_;
  PlacementCost cost_;
  ContiguousSearch search_;
  std::size_t first_;  // layers before it stay on the host
};

}  // namespace

bool Assignment::all_on_devices(bool has_vision) const {
  return output != kOnHost && (!has_vision || vision != kOnHost) && std::ranges::find(layers, kOnHost) == layers.end();
}

KindBytes PlaceBytes::kinds() const {
  KindBytes kinds;
  for (const auto& [name, bytes] :
       {std::pair("weights", weights), std::pair("vision", vision), std::pair("kv_global", kv_global),
        std::pair("kv_local", kv_local), std::pair("scratch", scratch), std::pair("cache", cache)}) {
    if (bytes > 0) kinds.emplace_back(name, bytes);
  }
  return kinds;
}

Placement place(const PlacementRequest& request, const PlacementLoad& load) {
  const Placer placer(request, load);
  if (auto units = placer.complete(kMostTries)) return placer.result(std::move(*units), true, true);
  if (auto units = placer.partial()) return placer.result(std::move(*units), true, false);
  return placer.result(placer.demand(), false, false);
}

bool fits_complete(const PlacementRequest& request, const PlacementLoad& load) {
  return Placer(request, load).complete(kMostTriesInPassing).has_value();
}

}  // namespace ebb::engine
