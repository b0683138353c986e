// Bounds and derived values that both kinds of configuration share.
#pragma once

#include <cstddef>

#include "model/config.h"

namespace ebb::model {

/// Global layers by the period-6 pattern: every `period`-th layer, counted from 1.
[[nodiscard]] std::vector<bool> periodic_pattern(std::size_t layers, std::size_t period);

/// Refuses values outside what Ebb runs. Errors: BadFile naming the value and the bounds.
[[nodiscard]] Status check_config(const Config& config);

}  // namespace ebb::model
