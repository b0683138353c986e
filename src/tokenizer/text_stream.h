// Bytes of tokens to text that may be shown: whole UTF-8 characters only.
// An incomplete tail is held back; a byte that cannot go on becomes U+FFFD; what is held at the end becomes one U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace ebb::tokenizer {

class TextStream {
 public:
  /// Adds bytes and returns the characters that are now whole.
  [[nodiscard]] std::string push(std::string_view bytes);
  /// Ends the text: the held tail as one U+FFFD, or nothing.
  [[nodiscard]] std::string finish();

 private:
  std::string held_;  // at most three bytes: the start of a valid character
};

}  // namespace ebb::tokenizer
