// Where files meet memory: binds a model file's byte ranges to what the model calls them.
// On the host, matrices stay in the file's mapping and nothing is copied where alignment allows; on any other device they
// are copied into a region of its pool. Norm vectors are small and always kept as float32 with Gemma's 1 folded in, so
// that kernels are the same for GGUF (already folded) and safetensors.
// Called by model/ and engine/. Owns the mapping and the regions; views are valid as long as it lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_view.h"

namespace ebb::memory {
class PagePool;
}

namespace ebb::weights {

/// What a tensor is to the model, whatever its file calls it.
enum class Part : std::uint8_t {
  Embedding,
  Head,  // absent when tied to the embedding
  OutputNorm,
  AttnNorm,
  AttnQ,
  AttnK,
  AttnV,
  AttnQNorm,
  AttnKNorm,
  AttnOutput,
  PostAttnNorm,
  FfnNorm,
  FfnGate,
  FfnUp,
  FfnDown,
  PostFfnNorm,
};

/// Vocabulary arrays of a GGUF file, id by id; the pieces point into the mapping.
struct VocabularyData {
  std::vector<std::string_view> pieces;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
};

class WeightStore {
 public:
  /// Opens the files; reads headers only.
  /// Errors   NotFound, BadFile, Unsupported, as format/ says them.
  [[nodiscard]] static Result<std::unique_ptr<WeightStore>> open(const std::filesystem::path& path, memory::PagePool& pool);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;  // owns mappings that views point into
  WeightStore& operator=(const WeightStore&) = delete;

  [[nodiscard]] bool has(Part part, std::size_t layer_idx = 0) const;
  /// Rows of a matrix before it is bound; nothing when absent. For the vocabulary's padded rows.
  [[nodiscard]] std::optional<std::size_t> rows(Part part, std::size_t layer_idx = 0) const;

  /// Shape    [rows, cols], checked against the file.
  /// Errors   BadFile naming the tensor, the shape found and the shape wanted; OutOfMemory where it must be copied.
  [[nodiscard]] Result<TensorView> matrix(Part part, std::size_t layer_idx, std::size_t rows, std::size_t cols);
  /// Shape    [cols] f32, 1 folded in.
  [[nodiscard]] Result<const float*> norm(Part part, std::size_t layer_idx, std::size_t cols);

  [[nodiscard]] bool is_gguf() const;
  [[nodiscard]] std::optional<std::uint64_t> meta_uint(std::string_view key) const;
  [[nodiscard]] std::optional<double> meta_float(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> meta_string(std::string_view key) const;
  /// A boolean or integer array; empty when absent.
  [[nodiscard]] std::vector<std::int32_t> meta_ints(std::string_view key) const;
  [[nodiscard]] Result<VocabularyData> vocabulary() const;
  /// Text of a file beside the weights ("config.json"); NotFound when absent.
  [[nodiscard]] Result<std::string> side_file(std::string_view name) const;

  [[nodiscard]] std::size_t file_bytes() const;
  [[nodiscard]] std::uint64_t parameters() const;          // elements over all tensors
  [[nodiscard]] std::string matrix_types() const;          // "Q5_0 81, Q4_K 27"
  [[nodiscard]] std::filesystem::path path() const;

 private:
  struct State;
  explicit WeightStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ebb::weights
