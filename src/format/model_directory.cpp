#include "format/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "format/internal/directory_parts.h"
#include "format/internal/safetensors.h"

namespace ebb::format {
namespace {

constexpr std::size_t kMaxSideFileBytes = std::size_t{256} << 20;
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

/// A folder without the usual names: says which model files it holds, so that the user can name one.
tl::unexpected<Error> nothing_to_open(const std::filesystem::path& folder) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (extension == ".gguf" || extension == ".safetensors") found.push_back(entry->path().filename().string());
  }
  if (error)
    return fail(ErrorCode::Io, fmt::format("{}: the folder cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(found);
  const std::string wanted =
      fmt::format("{}: the folder holds neither {} nor {}", folder.string(), kSingleName, kIndexName);
  if (found.empty())
    return fail(ErrorCode::NotFound, wanted + ", and no other model file; name a model's file or folder");
  const bool more = found.size() > kListed;
  if (more) found.resize(kListed);
  return fail(ErrorCode::NotFound,
              fmt::format("{}; name one of its files: {}{}", wanted, fmt::join(found, ", "), more ? ", ..." : ""));
}

Result<DirectoryParts> load_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kSingleName, ignored)) {
    EBB_TRY_ASSIGN(MappedFile file, MappedFile::open(folder / kSingleName));
    return load_safetensors(std::move(file));
  }
  if (std::filesystem::exists(folder / kIndexName, ignored)) {
    EBB_TRY_ASSIGN(const MappedFile index, MappedFile::open(folder / kIndexName));
    return load_safetensors_index(index);
  }
  return nothing_to_open(folder);
}

Result<DirectoryParts> load_file(const std::filesystem::path& path) {
  EBB_TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  if (is_gguf(file.bytes())) return load_gguf(std::move(file));
  const std::string extension = path.extension().string();
  if (extension == ".json") return load_safetensors_index(file);
  if (extension == ".safetensors" || looks_like_safetensors(file.bytes())) return load_safetensors(std::move(file));
  return fail(ErrorCode::BadFile,
              fmt::format("{}: offset 0: not a model file but {}; GGUF and safetensors are accepted", path.string(),
                          describe_content(file.bytes())));
}

}  // namespace

struct ModelDirectory::State {
  DirectoryParts parts;
  std::vector<std::filesystem::path> paths;
  std::unordered_map<std::string_view, std::size_t> tensor_idx_by_name;
};

TensorView TensorEntry::view() const {
  TensorView view{data, dtype, 1, 1};
  if (shape.empty()) return view;
  view.cols = static_cast<std::size_t>(shape.back());
  for (std::size_t dim_idx = 0; dim_idx + 1 < shape.size(); ++dim_idx)
    view.rows *= static_cast<std::size_t>(shape[dim_idx]);
  return view;
}

Result<std::unique_ptr<ModelDirectory>> ModelDirectory::open(const std::filesystem::path& path) {
  std::error_code ignored;
  auto state = std::make_unique<State>();
  if (std::filesystem::is_directory(path, ignored)) {
    EBB_TRY_ASSIGN(state->parts, load_folder(path));
  } else {
    EBB_TRY_ASSIGN(state->parts, load_file(path));
  }
  for (const MappedFile& file : state->parts.files) state->paths.push_back(file.path());
  const std::vector<TensorEntry>& tensors = state->parts.tensors;
  for (std::size_t tensor_idx = 0; tensor_idx < tensors.size(); ++tensor_idx) {
    const auto [place, inserted] = state->tensor_idx_by_name.emplace(tensors[tensor_idx].name, tensor_idx);
    if (inserted) continue;
    return fail(ErrorCode::BadFile,
                fmt::format("{}: tensor \"{}\" also stands in {}; each tensor may stand in one file",
                            state->paths[tensors[tensor_idx].file_idx].string(), printable(tensors[tensor_idx].name),
                            state->paths[tensors[place->second].file_idx].string()));
  }
  return std::unique_ptr<ModelDirectory>(new ModelDirectory(std::move(state)));
}

ModelDirectory::ModelDirectory(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelDirectory::~ModelDirectory() = default;

Container ModelDirectory::container() const { return state_->parts.container; }
const std::vector<std::filesystem::path>& ModelDirectory::files() const { return state_->paths; }
const std::vector<TensorEntry>& ModelDirectory::tensors() const { return state_->parts.tensors; }

std::size_t ModelDirectory::mapped_bytes() const {
  std::size_t bytes = 0;
  for (const MappedFile& file : state_->parts.files) bytes += file.bytes().size();
  return bytes;
}

const TensorEntry* ModelDirectory::find(std::string_view name) const {
  const auto found = state_->tensor_idx_by_name.find(name);
  return found == state_->tensor_idx_by_name.end() ? nullptr : &state_->parts.tensors[found->second];
}

const MetaValue* ModelDirectory::meta(std::string_view key) const {
  const auto found = state_->parts.meta.find(key);
  return found == state_->parts.meta.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> ModelDirectory::meta_uint(std::string_view key) const {
  return meta_as_uint(state_->parts.meta, key);
}

std::optional<double> ModelDirectory::meta_float(std::string_view key) const {
  const MetaValue* value = meta(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<std::string_view> ModelDirectory::meta_string(std::string_view key) const {
  const MetaValue* value = meta(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string_view>(value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

Result<std::string> ModelDirectory::side_file(std::string_view name) const {
  if (name.empty() || name.find_first_of(std::string_view("/\\\0", 3)) != std::string_view::npos || name == "." ||
      name == "..") {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("\"{}\" is not the plain name of a side file", printable(name)));
  }
  if (state_->parts.container == Container::Gguf) {
    return fail(ErrorCode::NotFound,
                fmt::format("{}: a GGUF model has no side file {}", state_->paths.front().string(), name));
  }
  EBB_TRY_ASSIGN(const MappedFile file, MappedFile::open(state_->parts.folder / name));
  if (file.bytes().size() > kMaxSideFileBytes) {
    return fail(ErrorCode::BadFile, fmt::format("{}: has {} bytes; side files of at most {} are accepted",
                                                file.path().string(), file.bytes().size(), kMaxSideFileBytes));
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace ebb::format
