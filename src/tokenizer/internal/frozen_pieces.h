// The pieces that are cut out of the raw text before any merging: newline and tab runs, U+2581 runs, HTML tags and,
// only where asked for, control spellings. Leftmost first, then longest, as Hugging Face's added tokens.
// The invariant: what is found is spelled in the text exactly as in the list; real spaces do not match U+2581.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ebb::tokenizer {

class FrozenPieces {
 public:
  struct Match {
    TokenId id = -1;  // -1: none
    std::size_t bytes = 0;
  };

  /// Adds a piece as it is spelled in text. All calls come before `finish`.
  void add(std::string_view spelling, TokenId id, bool is_control);
  /// Sorts; `match` may be called from any thread afterwards.
  void finish();

  /// The longest piece that `text` begins with.
  [[nodiscard]] Match match(std::string_view text, ControlText control) const;
  /// Whether any piece begins with `byte`.
  [[nodiscard]] bool may_begin(std::uint8_t byte) const { return first_bytes_[byte]; }

 private:
  struct Entry {
    std::uint32_t begin;  // into bytes_
    std::uint32_t size;
    TokenId id;
    bool is_control;
  };
  [[nodiscard]] std::string_view spelling(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.size);
  }

  std::string bytes_;
  std::vector<Entry> entries_;  // sorted by spelling
  std::bitset<256> first_bytes_;
};

}  // namespace ebb::tokenizer
