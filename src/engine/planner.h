// Whether a model fits, and where its parts go, from headers and the devices' own counts: nothing is mapped, no weight is
// read, and a file that is a hole of the right size will do.
// Called by `ebb plan`; the engine makes the same plan before it loads (internal/plan_inputs.h).
#pragma once

#include "base/error.h"
#include "engine/options.h"
#include "engine/plan.h"

namespace ebb::engine {

/// A plan that does not fit is a result, not an error.
/// Errors   NotFound, BadFile, Unsupported from the file; InvalidArgument for a wish that no device could meet.
[[nodiscard]] Result<Plan> plan_model(const EngineOptions& options);

/// OutOfMemory, for a plan that does not fit: what is needed, what may be used, and the two cheapest changes.
[[nodiscard]] Error plan_error(const Plan& plan);

}  // namespace ebb::engine
