// The pieces of a vocabulary: what each id stands for, and which id a text has.
// Owns one block of bytes for all pieces (U+2581 already turned into a space, byte pieces into their byte) and an
// open-addressing table of 32-bit ids: about 25 bytes a token in all, no allocation per piece.
// Refuses  vocabularies in which two pieces that text can reach are spelled alike, or a byte piece is missing.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace ebb::tokenizer {

inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581, how vocabularies spell a space

/// Order of merges: smaller first. kNeverMerged: no merge makes the piece. kFirstMerged: before all learned pieces.
using Rank = std::uint32_t;
inline constexpr Rank kFirstMerged = 0;
inline constexpr Rank kNeverMerged = 0xFFFFFFFF;

/// Spec 1.5: the spellings that only a template may turn into ids, whatever type a file gives them.
[[nodiscard]] bool is_control_spelling(std::string_view text);

class Vocabulary {
 public:
  /// Shape    all three spans [tokens]; views are read only during the call.
  /// Errors   BadFile.
  [[nodiscard]] static Result<Vocabulary> build(std::span<const std::string_view> pieces,
                                                std::span<const TokenType> types, std::vector<Rank> ranks);

  [[nodiscard]] std::size_t size() const { return types_.size(); }
  [[nodiscard]] bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  [[nodiscard]] TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Rank rank(TokenId id) const { return ranks_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::string_view text(TokenId id) const {
    const std::size_t at = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(offsets_[at], offsets_[at + 1] - offsets_[at]);
  }

  /// Shape    [tokens].
  void set_ranks(std::vector<Rank> ranks) { ranks_ = std::move(ranks); }

  /// Id of the Normal or UserDefined piece that stands for exactly `text`, or -1.
  [[nodiscard]] TokenId find(std::string_view text) const;
  /// Id of the piece for one raw byte.
  [[nodiscard]] TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }
  /// Id of the one-byte piece (ASCII) that stands for `byte`, or -1.
  [[nodiscard]] TokenId ascii_id(std::uint8_t byte) const { return ascii_ids_[byte]; }
  /// Bytes of the longest piece that `find` can return.
  [[nodiscard]] std::size_t longest_bytes() const { return longest_bytes_; }
  /// Whether any piece holds a space right after `byte`. Where none does, no merge can cross the two.
  [[nodiscard]] bool joins_space_after(std::uint8_t byte) const { return joins_space_after_[byte]; }

 private:
  Vocabulary() = default;
  Status add_pieces(std::span<const std::string_view> pieces);
  Status add_byte_piece(TokenId id, std::string_view piece);
  Status index_pieces();

  std::string bytes_;
  std::vector<std::uint32_t> offsets_;  // [tokens + 1] into bytes_
  std::vector<TokenType> types_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> slots_;  // (tag << id_bits_) | (id + 1); 0 is empty
  unsigned id_bits_ = 0;
  std::size_t longest_bytes_ = 0;
  std::array<TokenId, 256> byte_ids_{};
  std::array<TokenId, 256> ascii_ids_{};
  std::bitset<256> joins_space_after_;
};

}  // namespace ebb::tokenizer
