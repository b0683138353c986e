// Small placement problems, their costs by a formula that shares no code with the planner, and a search that tries
// every assignment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "engine/internal/placement.h"

namespace ebb::engine {

/// KV that costs `bytes` a token and layer, up to `window` tokens for local layers; each kind is one run of whole pages.
inline KvChoice linear_kv(std::vector<bool> global, std::size_t bytes, std::size_t window, std::size_t scratch_per_row,
                          std::size_t output_scratch, std::string flags = "") {
  KvChoice choice;
  choice.flags = std::move(flags);
  choice.kv = [global = std::move(global), bytes, window](std::span<const std::size_t> layers, std::size_t tokens,
                                                          std::size_t page) {
    std::size_t globals = 0;
    for (const std::size_t layer_idx : layers) globals += global[layer_idx] ? 1 : 0;
    const std::size_t locals = layers.size() - globals;
    KvBytes kv;
    kv.global_bytes = round_up(globals * tokens * bytes, page);
    kv.local_bytes = round_up(locals * std::min(tokens, window) * bytes, page);
    kv.record_bytes = round_up(locals * (tokens > window ? std::min(tokens - window, window) : 0) * bytes, page);
    return kv;
  };
  choice.scratch = [scratch_per_row, output_scratch](std::size_t rows, bool has_output, device::Kind /*kind*/) {
    return rows * scratch_per_row + (has_output ? output_scratch : 0);
  };
  return choice;
}

struct Problem {
  PlacementRequest request;
  PlacementLoad load;
};

/// What one device holds under an assignment, by the definition: whole pages of each unit, KV of all chats, one scratch.
inline std::size_t bytes_by_definition(const Problem& problem, int device, const Assignment& units) {
  const PlacementRequest& request = problem.request;
  const PlacementDevice& where = request.devices[static_cast<std::size_t>(device)];
  const auto pages = [&](std::size_t bytes) { return (bytes + where.page_bytes - 1) / where.page_bytes * where.page_bytes; };
  std::vector<std::size_t> layers;
  std::size_t bytes = 0;
  for (std::size_t layer_idx = 0; layer_idx < units.layers.size(); ++layer_idx) {
    if (units.layers[layer_idx] != device) continue;
    layers.push_back(layer_idx);
    bytes += pages(request.layers[layer_idx].weights.on_device);
  }
  const bool output = units.output == device;
  const bool vision = request.vision && units.vision == device;
  if (layers.empty() && !output && !vision) return 0;
  const KvChoice& choice = request.kv_choices[problem.load.kv_choice_idx];
  if (!layers.empty()) {
    const KvBytes kv = choice.kv(layers, problem.load.tokens, where.page_bytes);
    bytes += problem.load.parallel * (kv.global_bytes + kv.local_bytes);
  }
  bytes += pages(choice.scratch(std::min(problem.load.chunk_tokens, problem.load.tokens), output, where.kind));
  if (output) bytes += pages(request.output.on_device);
  if (vision) bytes += pages(request.vision->weights.on_device) + pages(request.vision->scratch_bytes);
  return bytes;
}

inline bool within_limits(const Problem& problem, const Assignment& units) {
  for (std::size_t idx = 0; idx < problem.request.devices.size(); ++idx) {
    if (bytes_by_definition(problem, static_cast<int>(idx), units) > problem.request.devices[idx].limit_bytes) return false;
  }
  return true;
}

inline double fullest(const Problem& problem, const Assignment& units) {
  double most = 0;
  for (std::size_t idx = 0; idx < problem.request.devices.size(); ++idx) {
    const auto bytes = static_cast<double>(bytes_by_definition(problem, static_cast<int>(idx), units));
    if (bytes > 0) most = std::max(most, bytes / static_cast<double>(problem.request.devices[idx].limit_bytes));
  }
  return most;
}

/// Calls `visit` with every assignment of all units to devices.
template <typename Visit>
void for_each_assignment(const Problem& problem, Visit visit) {
  const std::size_t devices = problem.request.devices.size();
  const std::size_t layers = problem.request.layers.size();
  const std::size_t units = layers + 1 + (problem.request.vision ? 1 : 0);
  std::size_t count = 1;
  for (std::size_t idx = 0; idx < units; ++idx) count *= devices;
  Assignment assignment;
  assignment.layers.resize(layers);
  for (std::size_t code = 0; code < count; ++code) {
    std::size_t rest = code;
    for (int& layer : assignment.layers) {
      layer = static_cast<int>(rest % devices);
      rest /= devices;
    }
    assignment.output = static_cast<int>(rest % devices);
    if (problem.request.vision) assignment.vision = static_cast<int>(rest / devices);
    visit(assignment);
  }
}

inline bool in_order(const Assignment& units) { return std::ranges::is_sorted(units.layers); }

/// Up to 6 layers, a head, perhaps a tower, 1 to 3 devices of unequal size and page, tight enough that about half fit.
inline Problem random_problem(std::mt19937& random) {
  const auto pick = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  Problem problem;
  PlacementRequest& request = problem.request;
  const std::size_t layers = pick(1, 6);
  const bool uniform = pick(0, 1) == 0;
  const std::size_t layer_bytes = pick(5, 60);
  std::vector<bool> global;
  for (std::size_t idx = 0; idx < layers; ++idx) {
    global.push_back(pick(0, 2) == 0);
    request.layers.push_back({{uniform ? layer_bytes : pick(5, 60), 1}, global.back()});
  }
  request.output = {pick(5, 150), 1};
  request.embedding_bytes = request.output.on_device;
  if (pick(0, 1) == 0) request.vision = VisionNeed{{pick(5, 80), 1}, pick(0, 30)};
  request.kv_choices.push_back(linear_kv(global, 1, pick(4, 40), pick(0, 2), pick(0, 20)));
  problem.load = {pick(1, 60), pick(1, 2), pick(1, 8), 0};
  const std::size_t devices = pick(1, 3);
  const std::size_t each = pick(40, 800) / devices;
  for (std::size_t idx = 0; idx < devices; ++idx) {
    PlacementDevice device;
    device.name = "d";
    device.page_bytes = std::size_t{1} << pick(0, 4);
    device.limit_bytes = pick(each / 2, each * 3 / 2);
    device.total_bytes = device.free_bytes = device.limit_bytes;
    request.devices.push_back(std::move(device));
  }
  return problem;
}

}  // namespace ebb::engine
