// A model's files as a directory of named byte ranges plus metadata, whatever the container.
// Reads GGUF (one file or split) and safetensors (one file, sharded, or a Hugging Face folder). Trusts nothing in a
// file: every count, size and offset is checked before it is used, so a caller may read each range it is given.
// Called by weights/. Owns the mappings; a TensorView is valid as long as the directory lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/tensor_view.h"

namespace ebb::format {

enum class Container { Gguf, Safetensors };

/// A tensor as stored. `shape` is slowest dimension first, as PyTorch prints it: a linear weight is [out, in].
struct TensorEntry {
  std::string name;  // as in the file
  DType dtype = DType::F32;
  std::vector<std::uint64_t> shape;
  const std::byte* data = nullptr;  // inside a mapping; aligned only as the file aligns it
  std::size_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::size_t file_idx = 0;  // index into files()

  /// The last dimension as columns, all others as rows; a scalar is 1 x 1.
  [[nodiscard]] TensorView view() const;
};

/// An array whose values Ebb has no use for: nested, or integers beyond 32 bits. It was checked, and only its count is
/// kept.
struct OpaqueArray {
  std::uint64_t count = 0;
};

/// A GGUF metadata value. Integers are widened to 64 bits by their sign, floats to double. Arrays: bool and u8 as
/// bytes, other integers as int32, floats as float; strings stay where they are in the mapping.
using MetaValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, std::vector<std::string_view>,
                 std::vector<std::int32_t>, std::vector<float>, std::vector<std::uint8_t>, OpaqueArray>;

class ModelDirectory {
 public:
  /// Opens a GGUF file (any part of a split one opens all), a .safetensors file, an index.json or a folder.
  /// Errors   NotFound; BadFile naming file, offset, what was found and what is accepted; Unsupported naming a type.
  [[nodiscard]] static Result<std::unique_ptr<ModelDirectory>> open(const std::filesystem::path& path);

  ModelDirectory(const ModelDirectory&) = delete;  // views point into the mappings it owns
  ModelDirectory& operator=(const ModelDirectory&) = delete;
  ~ModelDirectory();

  [[nodiscard]] Container container() const;
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const;
  [[nodiscard]] std::size_t mapped_bytes() const;
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const;
  [[nodiscard]] const TensorEntry* find(std::string_view name) const;  // null when absent

  /// GGUF metadata by key; null when absent or when the container is not GGUF.
  [[nodiscard]] const MetaValue* meta(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> meta_uint(std::string_view key) const;
  [[nodiscard]] std::optional<double> meta_float(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> meta_string(std::string_view key) const;

  /// Text of a side file of a Hugging Face folder ("config.json", "tokenizer.json"); NotFound when absent.
  [[nodiscard]] Result<std::string> side_file(std::string_view name) const;

 private:
  struct State;
  explicit ModelDirectory(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace ebb::format
