// Byte-pair merging of one stretch of text: the smallest rank first, then the split with the longer left side, then the
// leftmost. A heap over a linked list: n log n in the length of the stretch.
// Called by Tokenizer::encode, one Merger a call; it keeps its buffers from stretch to stretch.
// Source   docs/decisions/0003-own-tokenizer.md
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/internal/vocabulary.h"

namespace ebb::tokenizer {

class Merger {
 public:
  explicit Merger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// Appends the ids of `text` to `out`. `text` is valid UTF-8, spaces as spaces, shorter than 2 GiB.
  void encode(std::string_view text, std::vector<TokenId>& out);

 private:
  struct Symbol {
    std::uint32_t begin;  // into the stretch
    std::uint32_t bytes;  // 0: merged into its left neighbour
    std::uint32_t chars;
    std::int32_t previous;  // -1 at the left end
    std::int32_t next;      // -1 at the right end
    TokenId id;             // -1: a character without a piece, written as bytes
  };
  struct Candidate {
    std::uint64_t key;   // rank, left characters (more first), right characters (more first)
    std::uint32_t left;  // index of the left symbol
    TokenId id;          // of the merged piece
  };

  void split(std::string_view text);
  void propose(std::string_view text, std::int32_t left);
  void merge_all(std::string_view text);

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace ebb::tokenizer
