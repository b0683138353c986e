// What a Hugging Face tokenizer.json says, taken from its text in one pass without building a document tree.
// Refuses  other models than BPE with byte fallback, other normalisers than space to U+2581, and added tokens that eat
//          the white space around them: Gemma 3 has none of these. Unknown keys are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::tokenizer {

struct JsonVocabulary {
  struct Text {
    std::uint32_t begin = 0;  // into bytes
    std::uint32_t size = 0;
  };
  struct Piece {
    Text text;
    std::uint32_t id = 0;
  };
  struct Added {
    Text text;
    std::uint32_t id = 0;
    bool is_special = false;
  };
  struct Merge {
    Text left, right;
  };

  std::string bytes;
  std::vector<Piece> pieces;  // as in the file
  std::vector<Added> added;
  std::vector<Merge> merges;  // first to last

  [[nodiscard]] std::string_view view(Text text) const { return std::string_view(bytes).substr(text.begin, text.size); }
};

/// Errors   BadFile naming the place, Unsupported naming what was found and what is accepted.
[[nodiscard]] Result<JsonVocabulary> read_tokenizer_json(std::string_view json);

}  // namespace ebb::tokenizer
