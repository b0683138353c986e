// What a container's loader hands to ModelDirectory: mappings, tensors and metadata of all files of one model.
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "format/internal/gguf.h"
#include "format/mapped_file.h"
#include "format/model_directory.h"

namespace ebb::format {

struct DirectoryParts {
  Container container = Container::Gguf;
  std::vector<MappedFile> files;
  std::vector<TensorEntry> tensors;  // names may still repeat across files
  MetaMap meta;
  std::filesystem::path folder;  // of the side files; empty when the container has none
};

inline constexpr std::uint64_t kMaxFilesOfModel = 1000;

/// A GGUF file, and with it all other parts when it is one part of a split model.
/// Errors   those of parse_gguf; NotFound naming a missing part; BadFile when the parts do not belong together.
[[nodiscard]] Result<DirectoryParts> load_gguf(MappedFile file);

/// One .safetensors file.
[[nodiscard]] Result<DirectoryParts> load_safetensors(MappedFile file);

/// All shards that an index.json names.
/// Errors   those of the shards; NotFound naming a missing shard; BadFile when index and shards contradict each other.
[[nodiscard]] Result<DirectoryParts> load_safetensors_index(const MappedFile& index);

}  // namespace ebb::format
