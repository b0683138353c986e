// Which types keys and values are kept in, from what the user wrote.
#pragma once

#include <string>

#include "base/error.h"
#include "engine/options.h"
#include "model/kv_cache.h"

namespace ebb::engine {

/// Types of global and windowed layers; the other fields are left alone. Errors: InvalidArgument for a word that is no
/// type.
[[nodiscard]] Result<model::KvOptions> choose_kv(const EngineOptions& options);

/// Errors: InvalidArgument where there is no kernel for these types at this head size.
[[nodiscard]] Status check_kv(const model::KvOptions& kv, std::size_t head_dim);

/// "f16"; "q8_0/q4_0" where keys and values differ.
[[nodiscard]] std::string kv_types_name(kernels::KvTypes types);
/// The same for all layers; "q8_0, windows f16" where windowed layers differ.
[[nodiscard]] std::string kv_name(const model::KvOptions& kv);

}  // namespace ebb::engine
