// Who holds each byte: one owner and one tag for every byte of a device, charged before it exists.
// Refuses to let a charge end at anything but zero. Called by memory/ and by whoever reports memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::memory {

/// What bytes are for. The first nine are device kinds, the rest host kinds.
enum class Tag : std::uint8_t { Weights, Vision, KvGlobal, KvLocal, Prefix, Scratch, Workspace, Staging, Graphs, MappedFile, Parked, Cache, Other };
inline constexpr std::size_t kTagCount = 13;
[[nodiscard]] std::string_view tag_name(Tag tag);  // "kv_global"

/// Who answers for bytes: 0 is the engine itself, others are conversations and models, in order of creation.
using OwnerId = std::uint64_t;

}  // namespace ebb::memory
