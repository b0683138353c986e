#include "tokenizer/internal/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace ebb::tokenizer {

namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 24;  // 64 times Gemma 3's; leaves 7 tag bits in a slot
constexpr std::size_t kMaxPieceBytes = 0xFFFF;            // the merge key counts characters in 16 bits
constexpr std::size_t kMaxAllPiecesBytes = std::size_t{1} << 30;

template <typename Word>
std::uint64_t load(const char* at) {
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// One to eight bytes as a number, without reading past them; equal numbers of equal length mean equal bytes.
std::uint64_t load_short(const char* at, std::size_t count) {
  if (count >= 4) return load<std::uint32_t>(at) << 32 | load<std::uint32_t>(at + count - 4);
  return load<std::uint8_t>(at) << 16 | load<std::uint8_t>(at + count / 2) << 8 | load<std::uint8_t>(at + count - 1);
}

/// `text` must not be empty.
std::uint64_t hash(std::string_view text) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  std::uint64_t state = text.size() * kMix;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left > 8; left -= 8, at += 8) {
    state = (state ^ load<std::uint64_t>(at)) * kMix;
    state ^= state >> 32;
  }
  state = (state ^ load_short(at, left)) * kMix;
  state ^= state >> 32;
  state *= kMix;
  return state ^ (state >> 32);
}

std::optional<std::uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

bool is_reachable(TokenType type) { return type == TokenType::Normal || type == TokenType::UserDefined; }

}  // namespace

bool is_control_spelling(std::string_view text) {
  // Asked for each of a quarter of a million pieces: nearly all are ruled out by their first character.
  if (!text.starts_with('<') && !text.starts_with('[')) return false;
  constexpr std::array<std::string_view, 11> kNames = {"<pad>",
                                                       "<eos>",
                                                       "<bos>",
                                                       "<unk>",
                                                       "<mask>",
                                                       "[multimodal]",
                                                       "<start_of_turn>",
                                                       "<end_of_turn>",
                                                       "<start_of_image>",
                                                       "<end_of_image>",
                                                       "<image_soft_token>"};
  if (std::find(kNames.begin(), kNames.end(), text) != kNames.end()) return true;
  constexpr std::string_view kUnused = "<unused";
  if (!text.starts_with(kUnused) || !text.ends_with('>') || text.size() < kUnused.size() + 2) return false;
  const std::string_view number = text.substr(kUnused.size(), text.size() - kUnused.size() - 1);
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<Vocabulary> Vocabulary::build(std::span<const std::string_view> pieces, std::span<const TokenType> types,
                                     std::vector<Rank> ranks) {
  if (pieces.empty() || pieces.size() > kMaxTokens) {
    return fail(ErrorCode::BadFile,
                fmt::format("the vocabulary has {} tokens; accepted are 1 to {}", pieces.size(), kMaxTokens));
  }
  Vocabulary made;
  made.types_.assign(types.begin(), types.end());
  made.ranks_ = std::move(ranks);
  made.byte_ids_.fill(-1);
  made.ascii_ids_.fill(-1);
  EBB_TRY(made.add_pieces(pieces));
  const auto missing = std::find(made.byte_ids_.begin(), made.byte_ids_.end(), -1);
  if (missing != made.byte_ids_.end()) {
    return fail(ErrorCode::BadFile,
                fmt::format("the vocabulary has no piece <0x{:02X}>; all 256 byte pieces are needed",
                            missing - made.byte_ids_.begin()));
  }
  EBB_TRY(made.index_pieces());
  return made;
}

Status Vocabulary::add_pieces(std::span<const std::string_view> pieces) {
  std::size_t total_bytes = 0;
  for (const std::string_view piece : pieces) {
    if (piece.size() > kMaxPieceBytes) {
      return fail(ErrorCode::BadFile, fmt::format("a piece of the vocabulary has {} bytes; accepted are at most {}",
                                                  piece.size(), kMaxPieceBytes));
    }
    total_bytes += piece.size();
  }
  if (total_bytes > kMaxAllPiecesBytes) {
    return fail(ErrorCode::BadFile, fmt::format("the pieces of the vocabulary have {} bytes; accepted are at most {}",
                                                total_bytes, kMaxAllPiecesBytes));
  }
  bytes_.reserve(total_bytes);
  offsets_.reserve(pieces.size() + 1);
  offsets_.push_back(0);
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    std::string_view piece = pieces[at];
    if (types_[at] == TokenType::Byte) {
      EBB_TRY(add_byte_piece(static_cast<TokenId>(at), piece));
    } else {
      for (std::size_t found = piece.find(kEscapedSpace); found != piece.npos; found = piece.find(kEscapedSpace)) {
        bytes_ += piece.substr(0, found);
        bytes_ += ' ';
        piece.remove_prefix(found + kEscapedSpace.size());
      }
      bytes_ += piece;
    }
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  bytes_.shrink_to_fit();
  return {};
}

Status Vocabulary::add_byte_piece(TokenId id, std::string_view piece) {
  std::optional<std::uint8_t> value;
  if (piece.size() == 1) {
    value = static_cast<std::uint8_t>(piece[0]);  // some converters write the tab itself for <0x09>
  } else if (piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>') {
    const auto high = hex_digit(piece[3]);
    const auto low = hex_digit(piece[4]);
    if (high && low) value = static_cast<std::uint8_t>(*high * 16 + *low);
  }
  if (!value) {
    return fail(ErrorCode::BadFile, fmt::format("token {} is of type byte but is not spelled <0x00> to <0xFF>", id));
  }
  if (byte_ids_[*value] != -1) {
    return fail(ErrorCode::BadFile,
                fmt::format("tokens {} and {} both stand for byte 0x{:02X}", byte_ids_[*value], id, *value));
  }
  byte_ids_[*value] = id;
  bytes_ += static_cast<char>(*value);
  return {};
}

Status Vocabulary::index_pieces() {
  slots_.assign(std::bit_ceil(size() * 2), 0);
  id_bits_ = static_cast<unsigned>(std::bit_width(size()));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = 0; at < size(); ++at) {
    const TokenId id = static_cast<TokenId>(at);
    const std::string_view piece = text(id);
    if (!is_reachable(types_[at]) || piece.empty()) continue;
    const std::uint64_t code = hash(piece);
    const std::uint32_t tag = static_cast<std::uint32_t>(code >> (32 + id_bits_));
    std::size_t slot = static_cast<std::size_t>(code) & mask;
    for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
      const TokenId other = static_cast<TokenId>((slots_[slot] & ((1U << id_bits_) - 1)) - 1);
      if (slots_[slot] >> id_bits_ == tag && text(other) == piece) {
        return fail(ErrorCode::BadFile, fmt::format("tokens {} and {} have the same piece", other, id));
      }
    }
    slots_[slot] = (tag << id_bits_) | static_cast<std::uint32_t>(at + 1);
    longest_bytes_ = std::max(longest_bytes_, piece.size());
    if (piece.size() == 1) ascii_ids_[static_cast<std::uint8_t>(piece[0])] = id;
    for (std::size_t space = piece.find(' ', 1); space != piece.npos; space = piece.find(' ', space + 1)) {
      joins_space_after_.set(static_cast<std::uint8_t>(piece[space - 1]));
    }
  }
  return {};
}

TokenId Vocabulary::find(std::string_view text_bytes) const {
  if (text_bytes.empty() || text_bytes.size() > longest_bytes_) return -1;
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t code = hash(text_bytes);
  const std::uint32_t tag = static_cast<std::uint32_t>(code >> (32 + id_bits_));
  for (std::size_t slot = static_cast<std::size_t>(code) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (slots_[slot] >> id_bits_ != tag) continue;
    const TokenId id = static_cast<TokenId>((slots_[slot] & ((1U << id_bits_) - 1)) - 1);
    if (text(id) == text_bytes) return id;
  }
  return -1;
}

}  // namespace ebb::tokenizer
