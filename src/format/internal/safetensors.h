// One safetensors file, parsed in place: a JSON header of names, types, shapes and ranges, then the data without holes.
// Reads every element type of the format, so that tests can look at integer tensors too; ModelDirectory refuses what
// Ebb does not load. Called by load_safetensors, tests and the fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::format {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
inline constexpr std::size_t kMaxSafetensors = 65536;
inline constexpr std::size_t kMaxSafetensorDims = 8;
inline constexpr std::size_t kMaxSafetensorNameBytes = 1024;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // as in the file: "BF16", "I32"
  std::vector<std::uint64_t> shape;  // slowest first
  std::uint64_t file_offset = 0;
  std::span<const std::byte> data;
};

/// Header length in bounds and a '{' where the header starts.
[[nodiscard]] bool looks_like_safetensors(std::span<const std::byte> bytes);

/// Tensors in the order of their data. `file` names the file in errors.
/// Errors   BadFile; Unsupported for an element type nobody knows.
[[nodiscard]] Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> bytes,
                                                                      std::string_view file);

/// The weight map of an index.json: tensor name to the plain file name of its shard.
/// Errors   BadFile, also for a file name that leaves the index's folder.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_safetensors_index(std::span<const std::byte> bytes,
                                                                                 std::string_view file);

}  // namespace ebb::format
