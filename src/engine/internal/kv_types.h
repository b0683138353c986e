// The names of KV types as users write them, to the types of keys and values.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/options.h"
#include "model/kv_cache.h"

namespace ebb::engine {

[[nodiscard]] std::string_view kv_type_name(kernels::KvType type);  // "q8_0"
/// "q8_0", or "q8_0/q4_0" where keys and values differ.
[[nodiscard]] std::string kv_types_name(kernels::KvTypes types);

/// From options.kv_type, spelled like kv_types_name(); empty = f16, or f32 in exact arithmetic.
/// Errors   InvalidArgument naming what is accepted.
[[nodiscard]] Result<kernels::KvTypes> choose_kv_types(const EngineOptions& options);

}  // namespace ebb::engine
