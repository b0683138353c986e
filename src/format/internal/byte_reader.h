// A cursor over a file's bytes that never leaves them. Reads are cheap booleans, because a vocabulary is 262,144
// strings; the caller turns a false into an error with `ended`, which knows the place.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace ebb::format {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and are read in place");

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  template <typename T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  /// The next `size` bytes in place.
  [[nodiscard]] bool take(std::uint64_t size, std::span<const std::byte>& bytes) {
    if (size > remaining()) return false;
    bytes = bytes_.subspan(offset_, static_cast<std::size_t>(size));
    offset_ += static_cast<std::size_t>(size);
    return true;
  }

  /// A GGUF string: 64-bit length, then bytes, in place.
  [[nodiscard]] bool read_string(std::string_view& text) {
    std::uint64_t size = 0;
    std::span<const std::byte> bytes;
    if (!read(size) || !take(size, bytes)) return false;
    text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - offset_; }
  [[nodiscard]] std::string_view file() const { return file_; }

  /// BadFile: the file ends inside `what`.
  [[nodiscard]] tl::unexpected<Error> ended(std::string_view what) const;
  /// BadFile: "<file>: offset <offset>: <sentence>".
  [[nodiscard]] tl::unexpected<Error> bad(std::size_t offset, std::string_view sentence) const;

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::size_t offset_ = 0;
};

/// A name out of a file made safe to print: control and non-ASCII bytes escaped, cut after 80.
[[nodiscard]] std::string printable(std::string_view text);

/// What a file that is not a model seems to be, for an error: "a zip archive (...)", or its first bytes in hex.
[[nodiscard]] std::string describe_content(std::span<const std::byte> bytes);

}  // namespace ebb::format
