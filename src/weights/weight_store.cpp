#include "weights/weight_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/half.h"
#include "device/device.h"
#include "format/model_directory.h"
#include "memory/page_pool.h"
#include "memory/region.h"
#include "weights/internal/tensor_names.h"

namespace ebb::weights {
namespace {

constexpr std::size_t kWeightAlignment = 64;  // bytes; a cache line, more than any element or vector load needs

std::size_t element_alignment(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 4;
    case DType::F16:
    case DType::BF16:
      return 2;
    default:
      return 1;  // blocks are read byte by byte
  }
}

Result<float> element(const format::TensorEntry& entry, std::size_t idx) {
  const std::byte* at = entry.data + idx * dtype_info(entry.dtype).block_bytes;
  std::uint16_t half = 0;
  float value = 0;
  switch (entry.dtype) {
    case DType::F32:
      std::memcpy(&value, at, sizeof value);
      return value;
    case DType::F16:
      std::memcpy(&half, at, sizeof half);
      return f16_to_float(half);
    case DType::BF16:
      std::memcpy(&half, at, sizeof half);
      return bf16_to_float(half);
    default:
      return fail(ErrorCode::Unsupported, fmt::format("tensor {} is a norm vector of type {}; accepted are F32, F16, BF16",
                                                      entry.name, dtype_info(entry.dtype).name));
  }
}

}  // namespace

struct WeightStore::State {
  State(std::filesystem::path p, memory::PagePool& pages) : path(std::move(p)), pool(pages) {}

  std::filesystem::path path;
  memory::PagePool& pool;
  std::unique_ptr<format::ModelDirectory> directory;
  memory::HostLease mapped;             // the file's bytes, as host memory
  std::vector<memory::Region> regions;  // copies: norm vectors, and matrices on devices that cannot read the mapping
  std::size_t used_bytes = 0;           // of the last region

  [[nodiscard]] const format::TensorEntry* find(Part part, std::size_t layer_idx) const {
    const bool gguf = directory->container() == format::Container::Gguf;
    for (const std::string& name : gguf ? gguf_names(part, layer_idx) : safetensors_names(part, layer_idx)) {
      if (const format::TensorEntry* entry = directory->find(name)) return entry;
    }
    return nullptr;
  }

  [[nodiscard]] std::string wanted_name(Part part, std::size_t layer_idx) const {
    const bool gguf = directory->container() == format::Container::Gguf;
    return (gguf ? gguf_names(part, layer_idx) : safetensors_names(part, layer_idx)).front();
  }

  [[nodiscard]] Result<const format::TensorEntry*> get(Part part, std::size_t layer_idx,
                                                       std::span<const std::uint64_t> shape) const {
    const format::TensorEntry* entry = find(part, layer_idx);
    if (entry == nullptr) {
      return fail(ErrorCode::BadFile, fmt::format("{}: tensor {} is missing; the file is not a complete Gemma 3 text model",
                                                  path.string(), wanted_name(part, layer_idx)));
    }
    if (!std::ranges::equal(entry->shape, shape)) {
      return fail(ErrorCode::BadFile, fmt::format("{}: tensor {} has shape [{}]; the model's configuration asks for [{}]",
                                                  path.string(), entry->name, fmt::join(entry->shape, ", "),
                                                  fmt::join(shape, ", ")));
    }
    return entry;
  }

  /// A place for `bytes` in the weight regions; a region is one block of at least 1 MiB, filled from the front.
  [[nodiscard]] Result<std::byte*> place(std::size_t bytes) {
    const std::size_t aligned = round_up(bytes, kWeightAlignment);
    if (regions.empty() || used_bytes + aligned > regions.back().reserved_bytes()) {
      EBB_TRY_ASSIGN(auto region, memory::Region::reserve(pool, memory::Tag::Weights, memory::kEngineOwner, std::max(aligned, kMiB)));
      regions.push_back(std::move(region));
      used_bytes = 0;
    }
    EBB_TRY(regions.back().resize(used_bytes + aligned));
    std::byte* at = regions.back().data() + used_bytes;
    used_bytes += aligned;
    return at;
  }
};

WeightStore::WeightStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
WeightStore::~WeightStore() = default;

Result<std::unique_ptr<WeightStore>> WeightStore::open(const std::filesystem::path& path, memory::PagePool& pool) {
  auto state = std::make_unique<State>(path, pool);
  EBB_TRY_ASSIGN(state->directory, format::ModelDirectory::open(path));
  EBB_TRY_ASSIGN(state->mapped, memory::HostLease::take(pool.ledger(), memory::Tag::MappedFile, memory::kEngineOwner,
                                                        state->directory->mapped_bytes()));
  return std::unique_ptr<WeightStore>(new WeightStore(std::move(state)));
}

bool WeightStore::has(Part part, std::size_t layer_idx) const { return state_->find(part, layer_idx) != nullptr; }

std::optional<std::size_t> WeightStore::rows(Part part, std::size_t layer_idx) const {
  const format::TensorEntry* entry = state_->find(part, layer_idx);
  if (entry == nullptr || entry->shape.empty()) return std::nullopt;
  return entry->shape.front();
}

Result<TensorView> WeightStore::matrix(Part part, std::size_t layer_idx, std::size_t rows, std::size_t cols) {
  const std::array<std::uint64_t, 2> shape = {rows, cols};
  EBB_TRY_ASSIGN(const format::TensorEntry* entry, state_->get(part, layer_idx, shape));
  TensorView view = entry->view();
  const bool aligned = reinterpret_cast<std::uintptr_t>(entry->data) % element_alignment(entry->dtype) == 0;
  if (state_->pool.device().kind() == device::Kind::Host && aligned) return view;
  EBB_TRY_ASSIGN(std::byte* copy, state_->place(entry->bytes));
  std::memcpy(copy, entry->data, entry->bytes);
  view.data = copy;
  return view;
}

Result<const float*> WeightStore::norm(Part part, std::size_t layer_idx, std::size_t cols) {
  const std::array<std::uint64_t, 1> shape = {cols};
  EBB_TRY_ASSIGN(const format::TensorEntry* entry, state_->get(part, layer_idx, shape));
  EBB_TRY_ASSIGN(std::byte* place, state_->place(cols * sizeof(float)));
  const float folded = is_gguf() ? 0.0F : 1.0F;  // the GGUF converter has added it already
  for (std::size_t col_idx = 0; col_idx < cols; ++col_idx) {
    EBB_TRY_ASSIGN(const float stored, element(*entry, col_idx));
    const float value = stored + folded;
    std::memcpy(place + col_idx * sizeof(float), &value, sizeof value);
  }
  return reinterpret_cast<const float*>(place);
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
