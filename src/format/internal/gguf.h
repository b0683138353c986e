// One GGUF file, version 2 or 3, little-endian, parsed in place. Source: spec of the container, docs/gguf.md of ggml.
// Refuses what it cannot bound by the file's size. Called by ModelDirectory, its tests and the fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "format/internal/byte_reader.h"
#include "format/model_directory.h"

namespace ebb::format {

using MetaMap = std::map<std::string_view, MetaValue, std::less<>>;

struct GgufFile {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  MetaMap meta;                      // keys and strings lie in the file's bytes
  std::vector<TensorEntry> tensors;  // file_idx is left at 0
};

inline constexpr std::uint64_t kMaxMetaEntries = 65536;
inline constexpr std::uint64_t kMaxTensors = 65536;
inline constexpr std::uint64_t kMaxKeyBytes = 65535;       // the format's own limit
inline constexpr std::uint64_t kMaxTensorNameBytes = 256;  // the format says 64; other writers use more
inline constexpr std::uint32_t kMaxGgufDims = 4;
inline constexpr int kMaxArrayDepth = 4;

[[nodiscard]] bool is_gguf(std::span<const std::byte> bytes);

/// `file` names the file in errors.
/// Errors   BadFile; Unsupported for a version, byte order or tensor type that is well-formed but not accepted.
[[nodiscard]] Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view file);

/// The metadata part: `count` keys with their values. Errors: BadFile.
[[nodiscard]] Result<MetaMap> read_gguf_meta(ByteReader& reader, std::uint64_t count);

/// The value as a count; null when absent, negative or not an integer.
[[nodiscard]] std::optional<std::uint64_t> meta_as_uint(const MetaMap& meta, std::string_view key);

}  // namespace ebb::format
