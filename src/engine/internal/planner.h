// From sizes and limits to a plan that a person can read: the context that fits, the placement, what to change when it
// does not fit, what it costs when part of it runs on the host. Pure, like placement.h.
// Called by planner.cpp for `ebb plan`, and by the engine before it loads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/internal/placement.h"
#include "engine/plan.h"

namespace ebb::engine {

struct PlanWish {
  std::size_t tokens = 0;  // of one chat; 0 = as many as fit, at most `trained_tokens`
  std::size_t trained_tokens = 0;
  std::size_t parallel = 1;
  std::size_t chunk_tokens = 512;
  std::vector<bool> limited;  // by device: the user's memory limit is what binds, so raising it is worth advising
};

struct PlanResult {
  Plan plan;
  Assignment units;
};

/// The least context that is chosen by itself when layers would otherwise go to the host (-fitc of other tools).
inline constexpr std::size_t kLeastContext = 4096;
/// Contexts are chosen in steps of one run of KV positions.
inline constexpr std::size_t kContextStep = 32;

[[nodiscard]] PlanResult make_plan(const PlacementRequest& request, const PlanWish& wish);

/// What single changes would make `load` complete, cheapest first, with numbers; empty when none would.
[[nodiscard]] std::vector<std::string> find_remedies(const PlacementRequest& request, const PlacementLoad& load,
                                                     const PlanWish& wish, const Placement& placement);

/// The largest context up to `most` with which all is complete; 0 when none is.
[[nodiscard]] std::size_t largest_context(const PlacementRequest& request, PlacementLoad load, std::size_t most);

}  // namespace ebb::engine
