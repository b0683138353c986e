#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "engine/internal/placement_cost.h"

namespace ebb::engine {

PlacementCost::PlacementCost(const PlacementRequest& request, const PlacementLoad& load)
    : request_(request),
      load_(load),
      choice_(request.kv_choices[load.kv_choice_idx]),
      layer_count_(request.layers.size()),
      rows_(std::min(load.chunk_tokens, load.tokens)) {
  for (std::size_t layer_idx = 0; layer_idx < layer_count_; ++layer_idx) {
    (request_.layers[layer_idx].global ? global_layers_ : local_layers_).push_back(layer_idx);
  }
  record_bytes_ = record_bytes();
  if (!local_layers_.empty()) least_kv_[0] = load_.parallel * chat_kv(1, 0, 1).local_bytes;
  if (!global_layers_.empty()) least_kv_[1] = load_.parallel * chat_kv(1, 1, 0).global_bytes;
  for (std::size_t place_idx = 0; place_idx <= request_.devices.size(); ++place_idx) {
    const std::pair<std::size_t, bool> kind(page_bytes(place_idx), is_host(place_idx));
    auto found = table_by_kind_.find(kind);
    if (found == table_by_kind_.end()) found = table_by_kind_.emplace(kind, make_table(place_idx)).first;
    tables_.push_back(&found->second);
    const std::size_t page = page_bytes(place_idx);
    std::array<std::size_t, kUnitSets> fixed{};
    for (unsigned units = 0; units < kUnitSets; ++units) {
      const bool has_output = (units & kOutputBit) != 0;
      fixed[units] = round_up(choice_.scratch(rows_, has_output, place_kind(place_idx)), page);
      if (has_output) fixed[units] += weight_pages(place_idx, request_.output);
      if ((units & kVisionBit) != 0 && request_.vision) {
        fixed[units] += weight_pages(place_idx, request_.vision->weights) + round_up(request_.vision->scratch_bytes, page);
      }
      if (place_idx < request_.devices.size() && is_host(place_idx)) fixed[units] += record_bytes_;
    }
    fixed_.push_back(fixed);
  }
}

std::size_t PlacementCost::page_bytes(std::size_t place_idx) const {
  return place_idx < request_.devices.size() ? request_.devices[place_idx].page_bytes : request_.host_page_bytes;
}

bool PlacementCost::is_host(std::size_t place_idx) const {
  return place_idx == request_.devices.size() || request_.devices[place_idx].is_host();
}

device::Kind PlacementCost::place_kind(std::size_t place_idx) const {
  return place_idx == request_.devices.size() ? device::Kind::Host : request_.devices[place_idx].kind;
}

std::size_t PlacementCost::weight_pages(std::size_t place_idx, const UnitBytes& bytes) const {
  return round_up(is_host(place_idx) ? bytes.on_host : bytes.on_device, page_bytes(place_idx));
}

std::size_t PlacementCost::weight_bytes(std::size_t place_idx, std::size_t layer_idx) const {
  return weight_pages(place_idx, request_.layers[layer_idx].weights);
}

KvBytes PlacementCost::chat_kv(std::size_t page, std::size_t globals, std::size_t locals) const {
  std::vector<std::size_t> layers(global_layers_.begin(), global_layers_.begin() + static_cast<std::ptrdiff_t>(globals));
  layers.insert(layers.end(), local_layers_.begin(), local_layers_.begin() + static_cast<std::ptrdiff_t>(locals));
  std::ranges::sort(layers);
  return choice_.kv(layers, load_.tokens, page);
}

std::size_t PlacementCost::record_bytes() const {
  return load_.parallel * chat_kv(request_.host_page_bytes, global_layers_.size(), local_layers_.size()).record_bytes;
}

std::size_t PlacementCost::kv_bytes(std::size_t place_idx, std::size_t globals, std::size_t locals) const {
  if (globals + locals == 0) return 0;
  const KvBytes kv = chat_kv(page_bytes(place_idx), globals, locals);
  return load_.parallel * (kv.global_bytes + kv.local_bytes);
}

PlacementCost::Table PlacementCost::make_table(std::size_t place_idx) const {
  const std::size_t side = layer_count_ + 1;
  Table table(side * side, 0);
  Table kv_by_count(side * side, 0);  // [globals][locals]; 0 = not asked yet
  for (std::size_t first = 0; first < layer_count_; ++first) {
    std::size_t weights = 0, globals = 0, locals = 0;
    for (std::size_t layer_idx = first; layer_idx < layer_count_; ++layer_idx) {
      weights += weight_bytes(place_idx, layer_idx);
      ++(request_.layers[layer_idx].global ? globals : locals);
      std::size_t& kv = kv_by_count[globals * side + locals];
      if (kv == 0) kv = kv_bytes(place_idx, globals, locals);
      table[first * side + layer_idx + 1] = weights + kv;
    }
  }
  return table;
}

PlaceBytes PlacementCost::place_bytes(std::size_t place_idx, const Assignment& units) const {
  const int device = place_idx == host_place() ? kOnHost : static_cast<int>(place_idx);
  const std::size_t page = page_bytes(place_idx);
  PlaceBytes bytes;
  std::size_t globals = 0, locals = 0;
  for (std::size_t layer_idx = 0; layer_idx < layer_count_; ++layer_idx) {
    if (units.layers[layer_idx] != device) continue;
    bytes.weights += weight_bytes(place_idx, layer_idx);
    ++(request_.layers[layer_idx].global ? globals : locals);
  }
  const bool has_output = units.output == device;
  const bool has_vision = request_.vision && units.vision == device;
  if (globals + locals > 0) {
    const KvBytes kv = chat_kv(page, globals, locals);
    bytes.kv_global = load_.parallel * kv.global_bytes;
    bytes.kv_local = load_.parallel * kv.local_bytes;
  }
  if (has_output) bytes.weights += weight_pages(place_idx, request_.output);
  if (globals + locals > 0 || has_output || has_vision) bytes.scratch = round_up(choice_.scratch(rows_, has_output, place_kind(place_idx)), page);
  if (has_vision) {
    bytes.vision = weight_pages(place_idx, request_.vision->weights);
    bytes.scratch += round_up(request_.vision->scratch_bytes, page);
  }
  const bool any_host_device = std::ranges::any_of(request_.devices, &PlacementDevice::is_host);
  const bool keeps_records = any_host_device ? place_idx != host_place() && is_host(place_idx) : place_idx == host_place();
  if (keeps_records) bytes.cache = record_bytes_;
  return bytes;
}

bool PlacementCost::host_fits(const Assignment& units) const {
  return place_bytes(host_place(), units).sum() <= request_.host_limit_bytes;
}

}  // namespace ebb::engine
