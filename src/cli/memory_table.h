// Memory by device, kind and conversation as text for people. Called by `ebb memory` and /memory.
// Counts are the device's own or ours, and say which; what was planned is labelled so (M20).
#pragma once

#include <string>

#include "engine/status.h"

namespace ebb::cli {

/// Devices with a bar split by kind, the host, conversations, and the last receipt in a line.
[[nodiscard]] std::string memory_table(const engine::MemoryStatus& status, bool colours);

/// "1 device, held 252.0 MiB, others 1.00 GiB; GPU 0: 1.2/24.0 GB (5.0%)": one instant in one line.
[[nodiscard]] std::string memory_line(const engine::MemoryStatus& status);

}  // namespace ebb::cli
