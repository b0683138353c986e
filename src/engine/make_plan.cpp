#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/bytes.h"
#include "engine/internal/planner.h"

namespace ebb::engine {
namespace {

PlacementLoad choose_load(const PlacementRequest& request, const PlanWish& wish) {
  PlacementLoad load;
  load.tokens = wish.tokens;
  load.parallel = wish.parallel;
  load.chunk_tokens = wish.chunk_tokens;
  if (wish.tokens == 0) {
    load.tokens = std::max(largest_context(request, load, wish.trained_tokens), std::min(wish.trained_tokens, kLeastContext));
  }
  return load;
}

/// "0-5, 9" of the layers on the host.
std::string host_layers(const Assignment& units) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < units.layers.size(); ++first) {
    if (units.layers[first] != kOnHost) continue;
    std::size_t last = first;
    while (last + 1 < units.layers.size() && units.layers[last + 1] == kOnHost) ++last;
    ranges.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
    first = last;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

void warn_of_host_units(const PlacementRequest& request, const Placement& placement, std::vector<std::string>& warnings) {
  const Assignment& units = placement.units;
  const auto on_host = static_cast<std::size_t>(std::ranges::count(units.layers, kOnHost));
  std::size_t read_bytes = 0;
  for (std::size_t layer_idx = 0; layer_idx < units.layers.size(); ++layer_idx) {
    if (units.layers[layer_idx] == kOnHost) read_bytes += request.layers[layer_idx].weights.on_device;
  }
  if (on_host > 0) {
    warnings.push_back(
        fmt::format("{} of {} layers ({}) run on the CPU: every token reads {} of weights and up to {} of KV there", on_host,
                    units.layers.size(), host_layers(units), format_bytes(read_bytes),
                    format_bytes(placement.host.kv_global + placement.host.kv_local)));
  }
  if (units.output == kOnHost) {
    warnings.push_back(
        fmt::format("the output head runs on the CPU: every token reads {} there", format_bytes(request.output.on_device)));
  }
  if (request.vision && units.vision == kOnHost) {
    warnings.push_back(fmt::format("the vision tower runs on the CPU: every picture reads {} there",
                                   format_bytes(request.vision->weights.on_device)));
  }
}

void warn_of_idle_devices(const PlacementRequest& request, const Placement& placement, std::vector<std::string>& warnings) {
  for (std::size_t device_idx = 0; device_idx < request.devices.size(); ++device_idx) {
    const PlacementDevice& device = request.devices[device_idx];
    if (device.banned || device.is_host() || placement.devices[device_idx].sum() > 0) continue;
    if (request.device_layers == std::size_t{0}) continue;
    warnings.push_back(fmt::format("device {} ({}) is left out: {} may be used there", device_idx, device.name,
                                   format_bytes(device.limit_bytes)));
  }
}

/// A device's KV, dealt out to its layers so that it adds up.
void add_kv(const PlacementRequest& request, const Assignment& units, int device, const PlaceBytes& bytes,
            std::vector<PlanUnit>& layers) {
  for (const bool global : {true, false}) {
    std::vector<std::size_t> same;
    for (std::size_t layer_idx = 0; layer_idx < units.layers.size(); ++layer_idx) {
      if (units.layers[layer_idx] == device && request.layers[layer_idx].global == global) same.push_back(layer_idx);
    }
    std::size_t left = global ? bytes.kv_global : bytes.kv_local;
    for (std::size_t idx = 0; idx < same.size(); ++idx) {
      const std::size_t part = left / (same.size() - idx);
      layers[same[idx]].kv_bytes = part;
      left -= part;
    }
  }
}

std::vector<PlanUnit> list_units(const PlacementRequest& request, const Placement& placement) {
  const Assignment& assignment = placement.units;
  std::vector<PlanUnit> units;
  for (std::size_t layer_idx = 0; layer_idx < assignment.layers.size(); ++layer_idx) {
    units.push_back({fmt::format("layer {}", layer_idx), request.layers[layer_idx].weights.on_device, 0,
                     assignment.layers[layer_idx]});
  }
  add_kv(request, assignment, kOnHost, placement.host, units);
  for (std::size_t device_idx = 0; device_idx < placement.devices.size(); ++device_idx) {
    add_kv(request, assignment, static_cast<int>(device_idx), placement.devices[device_idx], units);
  }
  units.push_back({"output", request.output.on_device, 0, assignment.output});
  units.push_back({"embedding", request.embedding_bytes, 0, kOnHost});
  if (request.vision) units.push_back({"vision", request.vision->weights.on_device, 0, assignment.vision});
  return units;
}

std::size_t staging_bytes(const PlacementRequest& request, const PlacementLoad& load, const Assignment& units) {
  if (!request.staging) return 0;
  const auto kind = [&](int device) { return device == kOnHost ? device::Kind::Host : request.devices[static_cast<std::size_t>(device)].kind; };
  const std::size_t bytes = request.staging(std::min(load.chunk_tokens, load.tokens), kind(units.layers.front()), kind(units.output));
  return round_up(bytes, request.host_page_bytes);
}

}  // namespace

std::size_t largest_context(const PlacementRequest& request, PlacementLoad load, std::size_t most) {
  const auto fits = [&](std::size_t tokens) {
    load.tokens = tokens;
    return fits_complete(request, load);
  };
  if (fits(most)) return most;
  std::size_t low = 0, high = div_up(most, kContextStep);  // in steps; low fits or is 0, high does not
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle * kContextStep) ? low : high) = middle;
  }
  return low * kContextStep;
}

PlanResult make_plan(const PlacementRequest& request, const PlanWish& wish) {
  const PlacementLoad load = choose_load(request, wish);
  const Placement placement = place(request, load);
  Plan plan;
  plan.fits = placement.fits;
  plan.context = load.tokens;
  plan.parallel = load.parallel;
  plan.chunk_tokens = load.chunk_tokens;
  for (std::size_t device_idx = 0; device_idx < request.devices.size(); ++device_idx) {
    const PlacementDevice& device = request.devices[device_idx];
    const PlaceBytes& bytes = placement.devices[device_idx];
    plan.devices.push_back({device_idx, device.name, device.total_bytes, device.free_bytes, device.limit_bytes, bytes.sum(),
                            bytes.kinds()});
  }
  plan.host_planned_bytes = placement.host.sum();
  plan.host_kinds = placement.host.kinds();
  if (const std::size_t staging = staging_bytes(request, load, placement.units); staging != 0) {
    plan.host_planned_bytes += staging;
    plan.host_kinds.emplace_back("staging", staging);
  }
  plan.units = list_units(request, placement);
  if (!placement.complete) plan.remedies = find_remedies(request, load, wish, placement);
  if (wish.tokens == 0 && load.tokens < wish.trained_tokens) {
    plan.warnings.push_back(
        fmt::format("context {} of the model's {}: {}", load.tokens, wish.trained_tokens,
                    placement.complete ? "as much as memory allows" : "the least that is tried, and still not all fits"));
  }
  if (placement.fits) {
    warn_of_host_units(request, placement, plan.warnings);
    warn_of_idle_devices(request, placement, plan.warnings);
  }
  return {std::move(plan), placement.units};
}

}  // namespace ebb::engine
