#include <fmt/format.h>

#include <array>
#include <utility>

#include "format/internal/directory_parts.h"

namespace ebb::format {
namespace {

struct SplitFacts {
  std::uint64_t number = 0;
  std::uint64_t count = 1;
};

Result<SplitFacts> split_facts(const MetaMap& meta, const std::string& file) {
  if (!meta.contains("split.count")) return SplitFacts{};
  const auto count = meta_as_uint(meta, "split.count");
  const auto number = meta.contains("split.no") ? meta_as_uint(meta, "split.no") : 0;
  if (!count || !number)
    return fail(ErrorCode::BadFile, fmt::format("{}: split.count and split.no must be whole numbers", file));
  if (*count <= 1) return SplitFacts{};
  if (*count > kMaxFilesOfModel || *number >= *count) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: says it is part {} of {}; 1 to {} parts are accepted, counted from 0", file, *number,
                            *count, kMaxFilesOfModel));
  }
  return SplitFacts{*number, *count};
}

/// "model-00002-of-00003.gguf" for number 1 of 3.
std::string part_suffix(const SplitFacts& facts) {
  return fmt::format("-{:05}-of-{:05}.gguf", facts.number + 1, facts.count);
}

Result<std::string> stem_of_parts(const std::filesystem::path& path, const SplitFacts& facts) {
  const std::string name = path.filename().string();
  const std::string suffix = part_suffix(facts);
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: is part {} of {} of a split model, so its name must end in \"{}\" for the other parts "
                            "to be found; give the parts their own names back",
                            path.string(), facts.number + 1, facts.count, suffix));
  }
  return name.substr(0, name.size() - suffix.size());
}

Status check_part(const GgufFile& part, const SplitFacts& wanted, const std::string& file) {
  EBB_TRY_ASSIGN(const SplitFacts found, split_facts(part.meta, file));
  if (found.number == wanted.number && found.count == wanted.count) return {};
  return fail(
      ErrorCode::BadFile,
      fmt::format("{}: says it is part {} of {}, but by its name it is part {} of {}; the parts come from different "
                  "models, or were renamed",
                  file, found.number + 1, found.count, wanted.number + 1, wanted.count));
}

void append(DirectoryParts& parts, GgufFile&& part, MappedFile file) {
  for (TensorEntry& tensor : part.tensors) {
    tensor.file_idx = parts.files.size();
    parts.tensors.push_back(std::move(tensor));
  }
  if (parts.files.empty()) parts.meta = std::move(part.meta);
  parts.files.push_back(std::move(file));
}

Status check_total(const DirectoryParts& parts) {
  const auto wanted = meta_as_uint(parts.meta, "split.tensors.count");
  if (!wanted || *wanted == parts.tensors.size()) return {};
  return fail(ErrorCode::BadFile,
              fmt::format("{}: split.tensors.count is {}, but the {} parts hold {} tensors; fetch the parts again",
                          parts.files.front().path().string(), *wanted, parts.files.size(), parts.tensors.size()));
}

}  // namespace

Result<DirectoryParts> load_gguf(MappedFile file) {
  const std::filesystem::path path = file.path();
  EBB_TRY_ASSIGN(GgufFile opened, parse_gguf(file.bytes(), path.string()));
  EBB_TRY_ASSIGN(const SplitFacts facts, split_facts(opened.meta, path.string()));
  DirectoryParts parts;
  if (facts.count == 1) {
    append(parts, std::move(opened), std::move(file));
    return parts;
  }
  EBB_TRY_ASSIGN(const std::string stem, stem_of_parts(path, facts));
  for (std::uint64_t number = 0; number < facts.count; ++number) {
    const SplitFacts wanted{number, facts.count};
    const std::filesystem::path part_path = path.parent_path() / (stem + part_suffix(wanted));
    auto mapped = MappedFile::open(part_path);
    if (!mapped && mapped.error().code == ErrorCode::NotFound) {
      return fail(ErrorCode::NotFound, fmt::format("{}: part {} of {} is missing; fetch it into the same folder",
                                                   part_path.string(), number + 1, facts.count));
    }
    if (!mapped) return tl::unexpected<Error>(std::move(mapped).error());
    EBB_TRY_ASSIGN(GgufFile part, parse_gguf(mapped->bytes(), part_path.string()));
    EBB_TRY(check_part(part, wanted, part_path.string()));
    append(parts, std::move(part), std::move(*mapped));
  }
  EBB_TRY(check_total(parts));
  return parts;
}

}  // namespace ebb::format
