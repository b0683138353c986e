// A plan as a table for people. Called by `ebb plan`.
#pragma once

#include <string>

#include "engine/plan.h"

namespace ebb::cli {

/// Devices with a bar and bytes by kind, units in ranges, the host, warnings, and what to change when it does not fit.
[[nodiscard]] std::string plan_report(const engine::Plan& plan);

}  // namespace ebb::cli
