// One step of UTF-8 at a time: is this a whole character, the start of one, or bytes that can be neither?
// Shared by the encoder (bad bytes become U+FFFD) and by TextStream, so that both cut broken text in the same places.
// Source   Unicode 16, section 3.9, table 3-7 and "U+FFFD substitution of maximal subparts".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebb::tokenizer {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind { Whole, Incomplete, Bad };

/// What the text begins with. Whole and Incomplete: `bytes` of it. Bad: `bytes` to replace by one U+FFFD.
struct Utf8Step {
  Utf8Kind kind;
  std::size_t bytes;
};

/// `text` must not be empty. Incomplete means that all of `text` is the proper beginning of some character.
[[nodiscard]] Utf8Step utf8_step(std::string_view text);

[[nodiscard]] bool is_valid_utf8(std::string_view text);

/// `text` with every broken sequence (also one cut off by the end) replaced by U+FFFD.
[[nodiscard]] std::string repaired_utf8(std::string_view text);

}  // namespace ebb::tokenizer
