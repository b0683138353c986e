// JSON out of untrusted files as a stream of events: no document is built, depth is bounded, nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ebb::format {

inline constexpr int kMaxJsonDepth = 32;

enum class JsonKind { Object, Array, String, WholeNumber, Other };

/// A scalar. `text` for strings, `number` for whole numbers from 0 to 2^64 - 1; every other scalar is Other.
struct JsonScalar {
  JsonKind kind = JsonKind::Other;
  std::string_view text;
  std::uint64_t number = 0;
};

/// Receives the events; each returns the sentence that refuses the file, or an empty string.
/// `depth` is how many containers are open around the event: 0 for the root value, 1 for the root's keys.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual std::string on_open(int depth, JsonKind kind) = 0;
  virtual std::string on_close(int depth) = 0;
  virtual std::string on_key(int depth, std::string_view key) = 0;
  virtual std::string on_scalar(int depth, const JsonScalar& scalar) = 0;
};

/// Errors   BadFile naming `file` and the place; `file_offset` is where the text starts in it.
[[nodiscard]] Status read_json(std::span<const std::byte> text, std::uint64_t file_offset, std::string_view file,
                               JsonHandler& handler);

}  // namespace ebb::format
