// Receipts as text for people. Called by /clear, /reset and the tables about memory.
#pragma once

#include <string>

#include "engine/receipt.h"

namespace ebb::cli {

/// "reset of chat 3: 12.0 MiB given back in 1.24 ms, confirmed by the device"
[[nodiscard]] std::string receipt_line(const engine::Receipt& receipt);

/// That line, then what went by device and kind, and what stayed and why.
[[nodiscard]] std::string receipt_text(const engine::Receipt& receipt);

}  // namespace ebb::cli
