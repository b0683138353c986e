// Memory by device and kind as a table for people. Called by /memory.
#pragma once

#include <string>

#include "engine/status.h"

namespace ebb::cli {

[[nodiscard]] std::string memory_table(const engine::MemoryStatus& status);

}  // namespace ebb::cli
