// From open devices and a file's headers to a plan: what planner.h and the engine's own loading have in common.
// Asks each device once for its memory; reserves, maps and reads nothing.
#pragma once

#include <cstddef>
#include <optional>

#include "base/error.h"
#include "device/device.h"
#include "engine/internal/device_pools.h"
#include "engine/internal/planner.h"
#include "engine/options.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "weights/weight_store.h"

namespace ebb::engine {

struct PlanModel {
  const weights::WeightStore& store;
  const model::Config& config;
  const model::ModelOptions& options;
  const model::KvOptions& kv;  // max_tokens is not looked at: the plan chooses it
};

/// What we may hold on a device: the budget, or what is free and ours already, whichever is less; `spare_bytes` of what is
/// free stay free.
/// A budget makes the answer the same whatever else is open, as long as that leaves so much.
[[nodiscard]] std::size_t usable_bytes(const device::MemInfo& info, std::optional<std::size_t> budget_bytes,
                                       std::size_t spare_bytes, std::size_t page_bytes);

/// Errors   InvalidArgument: context, layers, split or main device that cannot be; what mem_info() says.
[[nodiscard]] Result<PlanResult> plan_on(const EngineOptions& options, const DevicePools& pools, const PlanModel& model);

}  // namespace ebb::engine
