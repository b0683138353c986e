// Byte-pair merging of one stretch of text: the smallest rank first, then the split with the longer left side, then the
// leftmost. A heap over a linked list: n log n in the length of the stretch, nearly n for repeated characters.
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
  using Index = std::int32_t;  // of a symbol; -1 is none

  struct Symbol {
    std::uint64_t key;    // of the merge with the next symbol: rank, left and right characters (more first); or kNoMerge
    std::uint32_t begin;  // into the stretch
    std::uint32_t bytes;  // 0: merged into its left neighbour
    std::uint32_t chars;
    Index previous;
    Index next;
    TokenId id;      // -1: a character without a piece, written as bytes
    TokenId merged;  // what the merge with the next symbol makes
  };
  struct Candidate {
    std::uint64_t key;
    Index left;
  };

  [[nodiscard]] Symbol& at(Index index) { return symbols_[static_cast<std::size_t>(index)]; }
  void split(std::string_view text);
  void merge_all(std::string_view text);
  void merge(std::string_view text, Index left);
  void find_merge(std::string_view text, Index left);
  [[nodiscard]] bool comes_before(Index a, Index b);
  void offer(Index left);

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;  // every merge that comes before both its neighbours' merges, and some outdated ones
};

}  // namespace ebb::tokenizer
