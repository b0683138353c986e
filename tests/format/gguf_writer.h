// Writes small GGUF files for tests, right or wrong in one chosen place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace ebb::format {

template <typename T>
std::string packed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string packed_string(std::string_view text) {
  return packed(std::uint64_t{text.size()}) + std::string(text);
}

inline std::span<const std::byte> as_span(const std::string& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

enum GgufValue : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

inline std::string packed_array(GgufValue type, std::uint64_t count, std::string_view elements) {
  return packed(static_cast<std::uint32_t>(type)) + packed(count) + std::string(elements);
}

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  std::optional<std::uint64_t> claimed_tensors;  // in place of the true counts
  std::optional<std::uint64_t> claimed_meta;

  GgufWriter& meta(std::string_view key, std::uint32_t type, std::string_view value) {
    meta_ += packed_string(key) + packed(type) + std::string(value);
    ++meta_count_;
    return *this;
  }
  GgufWriter& text(std::string_view key, std::string_view value) { return meta(key, String, packed_string(value)); }
  GgufWriter& count(std::string_view key, std::uint32_t value) { return meta(key, U32, packed(value)); }

  /// `dims` innermost first, as in the file; the next free offset and patterned data of `bytes` bytes.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                     std::size_t bytes) {
    entry(name, dims, type, data_.size());
    for (std::size_t idx = 0; idx < bytes; ++idx) data_ += static_cast<char>(idx + tensor_count_);
    data_.resize(round_up(data_.size(), static_cast<std::size_t>(alignment)), '\0');
    return *this;
  }
  GgufWriter& f32(std::string_view name, const std::vector<std::uint64_t>& dims) {
    std::size_t values = 1;
    for (const std::uint64_t size : dims) values *= static_cast<std::size_t>(size);
    return tensor(name, dims, 0, values * 4);
  }
  /// A table entry without data of its own.
  GgufWriter& entry(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                    std::uint64_t offset) {
    table_ += packed_string(name) + packed(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t size : dims) table_ += packed(size);
    table_ += packed(type) + packed(offset);
    ++tensor_count_;
    return *this;
  }

  [[nodiscard]] std::string bytes() const {
    std::string out = "GGUF" + packed(version) + packed(claimed_tensors.value_or(tensor_count_)) +
                      packed(claimed_meta.value_or(meta_count_)) + meta_ + table_;
    if (tensor_count_ > 0) out.resize(round_up(out.size(), static_cast<std::size_t>(alignment)), '\0');
    return out + data_;
  }

 private:
  std::string meta_;
  std::string table_;
  std::string data_;
  std::uint64_t meta_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

}  // namespace ebb::format
