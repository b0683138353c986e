// Where files meet memory: gives the model its tensors by what they are, and puts them where they shall be read.
// Weights move as units. On a host pool a unit's matrices stay in the file's mapping where alignment allows and only its
// norm vectors are copied; on any other pool all of it lies in one region. Norm vectors are always float32 with Gemma's 1
// folded in, so that kernels are the same for GGUF (already folded) and safetensors.
// Called by model/ and engine/. Owns the mapping and the regions. A unit that leaves a pool and comes back has the same
// address there, and a failed move leaves it where it was.
// Threads   one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/tensor_view.h"
#include "device/device.h"
#include "weights/part.h"
#include "weights/unit.h"

namespace ebb::memory {
class PagePool;
}

namespace ebb::weights {

/// Vocabulary arrays of a GGUF file, id by id; the pieces point into the mapping.
struct VocabularyData {
  std::vector<std::string_view> pieces;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
};

class WeightStore {
 public:
  /// Opens the files; reads headers only. `host` takes what the mapping cannot give; it outlives the store, as every pool
  /// that a unit is placed on.
  /// Errors   NotFound, BadFile, Unsupported, as format/ says them.
  [[nodiscard]] static Result<std::unique_ptr<WeightStore>> open(const std::filesystem::path& path, memory::PagePool& host);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;  // owns mappings that views point into
  WeightStore& operator=(const WeightStore&) = delete;

  [[nodiscard]] bool has(Part part, std::size_t layer_idx = 0) const;
  /// Rows of a matrix as the file has them; nothing when absent. For the vocabulary's padded rows.
  [[nodiscard]] std::optional<std::size_t> rows(Part part, std::size_t layer_idx = 0) const;
  /// As the file has it; 0 when absent.
  [[nodiscard]] std::size_t part_bytes(Part part, std::size_t layer_idx = 0) const;
  /// Shape    a matrix [rows, cols]; a norm vector [cols], rows is 1.
  /// Errors   BadFile naming the tensor, the shape found and the shape wanted; Unsupported for a norm's type.
  [[nodiscard]] Status expect(Part part, std::size_t layer_idx, std::size_t rows, std::size_t cols) const;

  /// What place() commits on a pool of that kind of device, before rounding to pages.
  [[nodiscard]] std::size_t unit_bytes(UnitId unit, device::Kind kind) const;
  /// Makes the unit readable on `pool` and then gives up where it was; views of it change. The embedding is always read
  /// on the host: `pool` is the host's.
  /// Errors   OutOfMemory, Io, DeviceLost: the unit is where it was, and `pool` has every byte back.
  [[nodiscard]] Status place(UnitId unit, memory::PagePool& pool);
  /// Gives its bytes back. Its addresses stay reserved.
  void evict(UnitId unit);
  /// Null when it is nowhere.
  [[nodiscard]] memory::PagePool* place_of(UnitId unit) const;

  /// Where the part is now, valid until its unit is placed elsewhere or evicted. Its unit is placed. The head is the
  /// embedding's matrix when the file ties them.
  [[nodiscard]] TensorView matrix(Part part, std::size_t layer_idx = 0) const;
  /// Shape    [cols] f32, 1 folded in.
  [[nodiscard]] const float* norm(Part part, std::size_t layer_idx = 0) const;

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
  /// Tells models apart: names, types, shapes and a few kilobytes of every tensor. The same for every way to cut one
  /// model into files; another one for another precision or container. Reads some megabytes; metadata does not count.
  [[nodiscard]] Digest identity() const;

 private:
  struct State;
  explicit WeightStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ebb::weights
