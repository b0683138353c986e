#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "format/internal/byte_reader.h"
#include "format/internal/directory_parts.h"
#include "format/internal/safetensors.h"

namespace ebb::format {
namespace {

Status append(DirectoryParts& parts, MappedFile file) {
  const std::string path = file.path().string();
  EBB_TRY_ASSIGN(std::vector<SafetensorsEntry> entries, parse_safetensors(file.bytes(), path));
  for (SafetensorsEntry& entry : entries) {
    const auto dtype = dtype_from_name(entry.dtype);
    if (!dtype || dtype_info(*dtype).block_values != 1) {
      return fail(
          ErrorCode::Unsupported,
          fmt::format("{}: tensor \"{}\" has type {}; accepted are F32, F16, BF16. Use another copy of the model", path,
                      printable(entry.name), entry.dtype));
    }
    parts.tensors.push_back({std::move(entry.name), *dtype, std::move(entry.shape), entry.data.data(),
                             entry.data.size(), entry.file_offset, parts.files.size()});
  }
  parts.files.push_back(std::move(file));
  return {};
}

Status check_against_index(const DirectoryParts& parts, const std::map<std::string, std::string>& weight_map,
                           const std::string& index) {
  constexpr std::string_view kRemedy = "index and shards come from different saves; fetch all of them again";
  std::set<std::string_view> seen;
  for (const TensorEntry& tensor : parts.tensors) {
    const auto listed = weight_map.find(tensor.name);
    const std::string shard = parts.files[tensor.file_idx].path().filename().string();
    if (listed == weight_map.end() || listed->second != shard) {
      return fail(
          ErrorCode::BadFile,
          fmt::format("{}: {} holds tensor \"{}\", which weight_map {}; {}", index, shard, printable(tensor.name),
                      listed == weight_map.end() ? "does not list" : "sends to " + listed->second, kRemedy));
    }
    seen.insert(tensor.name);
  }
  for (const auto& [name, shard] : weight_map) {
    if (!seen.contains(name)) {
      return fail(ErrorCode::BadFile,
                  fmt::format("{}: weight_map lists tensor \"{}\" in {}, which does not hold it; {}", index,
                              printable(name), shard, kRemedy));
    }
  }
  return {};
}

}  // namespace

Result<DirectoryParts> load_safetensors(MappedFile file) {
  DirectoryParts parts;
  parts.container = Container::Safetensors;
  parts.folder = file.path().parent_path();
  EBB_TRY(append(parts, std::move(file)));
  return parts;
}

Result<DirectoryParts> load_safetensors_index(const MappedFile& index) {
  const std::string index_path = index.path().string();
  EBB_TRY_ASSIGN(const auto weight_map, parse_safetensors_index(index.bytes(), index_path));
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  if (shards.size() > kMaxFilesOfModel) {
    return fail(ErrorCode::BadFile, fmt::format("{}: names {} shards; at most {} are accepted", index_path,
                                                shards.size(), kMaxFilesOfModel));
  }
  DirectoryParts parts;
  parts.container = Container::Safetensors;
  parts.folder = index.path().parent_path();
  for (const std::string& shard : shards) {
    auto file = MappedFile::open(parts.folder / shard);
    if (!file && file.error().code == ErrorCode::NotFound) {
      return fail(ErrorCode::NotFound,
                  fmt::format("{}: the shard {} is missing; fetch it into the same folder", index_path, shard));
    }
    if (!file) return tl::unexpected<Error>(std::move(file).error());
    EBB_TRY(append(parts, std::move(*file)));
  }
  EBB_TRY(check_against_index(parts, weight_map, index_path));
  return parts;
}

}  // namespace ebb::format
