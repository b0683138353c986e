// What a model will take, by device and kind, before anything is loaded: exact bytes of pages, where each unit goes, and
// what to change when it does not fit. Made by planner.h from headers alone; shown by cli/ and server/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/receipt.h"

namespace ebb::engine {

inline constexpr int kOnHost = -1;

struct PlanDevice {
  std::size_t index = 0;
  std::string name;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;   // the device's own count when the plan was made
  std::size_t limit_bytes = 0;  // what may be used there: the smaller of budget and free memory
  std::size_t planned_bytes = 0;
  KindBytes kinds;  // they sum to planned_bytes
};

/// The least thing that is placed: a layer, the output matrix, the embedding table, the vision tower.
struct PlanUnit {
  std::string name;  // "layer 0", "output", "embedding", "vision"
  std::size_t weight_bytes = 0;
  std::size_t kv_bytes = 0;  // of all parallel chats at full context
  int device = kOnHost;
};

struct Plan {
  std::string model;    // "12B, Q4_K 288, Q6_K 49"
  std::string kv_type;  // "f16"
  bool fits = false;        // every unit has a place, within every limit
  std::size_t context = 0;  // tokens of one chat
  std::size_t parallel = 1;
  std::size_t chunk_tokens = 0;
  std::vector<PlanDevice> devices;
  std::size_t host_planned_bytes = 0;  // anonymous host memory; the mapped file is not counted
  KindBytes host_kinds;
  std::size_t mapped_file_bytes = 0;
  std::vector<PlanUnit> units;
  std::vector<std::string> remedies;  // when it does not fit: what to change, cheapest first, with numbers
  std::vector<std::string> warnings;  // units on the host and what they cost (D5), a context that was cut
};

}  // namespace ebb::engine
