// Memory, receipts and plans as JSON, with the field names of the HTTP API, so that the terminal and the server say the
// same. Called by cli/ and server/. Invariant: every field is always there; what does not apply is null.
#pragma once

#include <string>

#include "engine/plan.h"
#include "engine/receipt.h"
#include "engine/status.h"

namespace ebb::engine {

/// {time_ms, devices, host, conversations, last}, one line, valid UTF-8.
[[nodiscard]] std::string to_json(const MemoryStatus& status);

/// {action, level, reason, conversation, freed_bytes, devices, host_freed_bytes, kept, us, confirmed}
[[nodiscard]] std::string to_json(const Receipt& receipt);

/// {fits, context, devices, host, units, remedies}
[[nodiscard]] std::string to_json(const Plan& plan);

}  // namespace ebb::engine
