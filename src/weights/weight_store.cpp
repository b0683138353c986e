#include "weights/weight_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/dtype.h"
#include "memory/page_pool.h"
#include "weights/internal/store_state.h"
#include "weights/internal/tensor_names.h"

namespace ebb::weights {

WeightStore::WeightStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
WeightStore::~WeightStore() = default;

Result<std::unique_ptr<WeightStore>> WeightStore::open(const std::filesystem::path& path, memory::PagePool& host) {
  auto state = std::make_unique<State>(path, host);
  EBB_TRY_ASSIGN(state->directory, format::ModelDirectory::open(path));
  EBB_TRY_ASSIGN(state->mapped, memory::HostLease::take(host.ledger(), memory::Tag::MappedFile, memory::kEngineOwner,
                                                        state->directory->mapped_bytes()));
  return std::unique_ptr<WeightStore>(new WeightStore(std::move(state)));
}

bool WeightStore::has(Part part, std::size_t layer_idx) const {
  return find_tensor(*state_->directory, part, layer_idx) != nullptr;
}

std::optional<std::size_t> WeightStore::rows(Part part, std::size_t layer_idx) const {
  const format::TensorEntry* entry = find_tensor(*state_->directory, part, layer_idx);
  if (entry == nullptr || entry->shape.empty()) return std::nullopt;
  return entry->shape.front();
}

std::size_t WeightStore::part_bytes(Part part, std::size_t layer_idx) const {
  const format::TensorEntry* entry = find_tensor(*state_->directory, part, layer_idx);
  return entry == nullptr ? 0 : entry->bytes;
}

Status WeightStore::expect(Part part, std::size_t layer_idx, std::size_t rows, std::size_t cols) const {
  const format::TensorEntry* entry = find_tensor(*state_->directory, part, layer_idx);
  if (entry == nullptr) {
    const std::string name = (is_gguf() ? gguf_names(part, layer_idx) : safetensors_names(part, layer_idx)).front();
    return fail(ErrorCode::BadFile, fmt::format("{}: tensor {} is missing; the file is not a complete Gemma 3 text model",
                                                path().string(), name));
  }
  const std::vector<std::uint64_t> shape = is_norm(part) ? std::vector<std::uint64_t>{cols} : std::vector<std::uint64_t>{rows, cols};
  if (entry->shape != shape) {
    return fail(ErrorCode::BadFile, fmt::format("{}: tensor {} has shape [{}]; the model's configuration asks for [{}]",
                                                path().string(), entry->name, fmt::join(entry->shape, ", "),
                                                fmt::join(shape, ", ")));
  }
  if (is_norm(part) && !is_norm_type(entry->dtype)) {
    return fail(ErrorCode::Unsupported, fmt::format("tensor {} is a norm vector of type {}; accepted are F32, F16, BF16",
                                                    entry->name, dtype_info(entry->dtype).name));
  }
  return {};
}

bool WeightStore::is_gguf() const { return state_->directory->container() == format::Container::Gguf; }
std::optional<std::uint64_t> WeightStore::meta_uint(std::string_view key) const { return state_->directory->meta_uint(key); }
std::optional<double> WeightStore::meta_float(std::string_view key) const { return state_->directory->meta_float(key); }
std::optional<std::string_view> WeightStore::meta_string(std::string_view key) const {
  return state_->directory->meta_string(key);
}

std::vector<std::int32_t> WeightStore::meta_ints(std::string_view key) const {
  const format::MetaValue* value = state_->directory->meta(key);
  if (value == nullptr) return {};
  if (const auto* ints = std::get_if<std::vector<std::int32_t>>(value)) return *ints;
  if (const auto* bytes = std::get_if<std::vector<std::uint8_t>>(value)) return {bytes->begin(), bytes->end()};
  return {};
}

Result<VocabularyData> WeightStore::vocabulary() const {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  constexpr std::string_view kScores = "tokenizer.ggml.scores";
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
  const auto missing = [&](std::string_view key) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: metadata {} is missing or not an array of the right kind", path().string(), key));
  };
  const std::string_view kind = meta_string("tokenizer.ggml.model").value_or("");
  if (kind != "llama") {
    return fail(ErrorCode::Unsupported,
                fmt::format("{}: the tokenizer is of kind \"{}\"; accepted is \"llama\" (SentencePiece), as Gemma 3 files have",
                            path().string(), kind));
  }
  VocabularyData data;
  const auto* tokens = state_->directory->meta(kTokens);
  const auto* scores = state_->directory->meta(kScores);
  const auto* types = state_->directory->meta(kTypes);
  if (tokens == nullptr || !std::holds_alternative<std::vector<std::string_view>>(*tokens)) return missing(kTokens);
  if (scores == nullptr || !std::holds_alternative<std::vector<float>>(*scores)) return missing(kScores);
  if (types == nullptr || !std::holds_alternative<std::vector<std::int32_t>>(*types)) return missing(kTypes);
  data.pieces = std::get<std::vector<std::string_view>>(*tokens);
  data.scores = std::get<std::vector<float>>(*scores);
  data.types = std::get<std::vector<std::int32_t>>(*types);
  return data;
}

Result<std::string> WeightStore::side_file(std::string_view name) const { return state_->directory->side_file(name); }
std::size_t WeightStore::file_bytes() const { return state_->directory->mapped_bytes(); }
std::filesystem::path WeightStore::path() const { return state_->path; }

std::uint64_t WeightStore::parameters() const {
  std::uint64_t count = 0;
  for (const format::TensorEntry& entry : state_->directory->tensors()) {
    const TensorView view = entry.view();
    count += static_cast<std::uint64_t>(view.rows) * view.cols;
  }
  return count;
}

std::string WeightStore::matrix_types() const {
  std::array<std::size_t, kDTypeCount> counts{};
  for (const format::TensorEntry& entry : state_->directory->tensors()) {
    if (entry.shape.size() > 1) ++counts[static_cast<std::size_t>(entry.dtype)];
  }
  std::vector<std::string> words;
  for (std::size_t idx = 0; idx < counts.size(); ++idx) {
    if (counts[idx] != 0) words.push_back(fmt::format("{} {}", dtype_info(static_cast<DType>(idx)).name, counts[idx]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace ebb::weights
