#include "tokenizer/internal/json_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace ebb::tokenizer {

namespace {

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t at = piece.find(kEscapedSpace); at != piece.npos; at = piece.find(kEscapedSpace)) {
    out.append(piece.substr(0, at)).append(1, ' ');
    piece.remove_prefix(at + kEscapedSpace.size());
  }
  return out.append(piece);
}

bool is_byte_spelling(std::string_view piece) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>' && kHex.find(piece[3]) != kHex.npos &&
         kHex.find(piece[4]) != kHex.npos;
}

/// Ways to cut `piece` into two that merging can meet.
std::size_t count_splits(std::string_view piece, const Vocabulary& vocabulary) {
  std::size_t splits = 0;
  for (std::size_t at = 1; at < piece.size(); ++at) {
    if (vocabulary.find(piece.substr(0, at)) != -1 && vocabulary.find(piece.substr(at)) != -1) ++splits;
  }
  return splits;
}

/// Walks the merges in order. The splits of one piece must stand together, longer left sides first, and all splits of
/// space runs before those of learned pieces; then the rank of the piece and the two lengths give the file's order.
class MergeWalk {
 public:
  explicit MergeWalk(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), ranks_(vocabulary.size(), kNeverMerged), counts_(vocabulary.size(), 0) {}

  Status add(std::size_t index, std::string_view left_piece, std::string_view right_piece) {
    const std::string left = with_spaces(left_piece);
    const std::string right = with_spaces(right_piece);
    const std::string whole = left + right;
    const TokenId id = vocabulary_.find(whole);
    if (id == -1 || vocabulary_.find(left) == -1 || vocabulary_.find(right) == -1) {
      return fail(ErrorCode::BadFile,
                  fmt::format("tokenizer.json: merge {} (\"{}\", \"{}\") uses pieces that the vocabulary lacks", index,
                              left_piece, right_piece));
    }
    const bool is_space_run = whole.find_first_not_of(' ') == whole.npos;
    // Such a piece is cut out of the text whole before any merging, so its merges never happen.
    if (vocabulary_.type(id) == TokenType::UserDefined && !is_space_run) return {};
    const std::size_t left_chars = count_chars(left);
    const std::size_t right_chars = count_chars(right);
    ++counts_[static_cast<std::size_t>(id)];
    Rank& rank = ranks_[static_cast<std::size_t>(id)];
    bool in_order = false;
    if (vocabulary_.type(id) == TokenType::UserDefined) {
      in_order = next_rank_ == kFirstMerged + 1 && std::pair(left_chars, right_chars) < last_run_;
      last_run_ = {left_chars, right_chars};
      rank = kFirstMerged;
    } else if (rank == kNeverMerged) {
      in_order = true;
      rank = next_rank_++;
    } else {
      in_order = id == last_id_ && left_chars < last_left_chars_;
    }
    last_id_ = id;
    last_left_chars_ = left_chars;
    if (in_order) return {};
    return fail(
        ErrorCode::Unsupported,
        fmt::format("tokenizer.json: merge {} (\"{}\", \"{}\") is out of Gemma's order; accepted are the splits of "
                    "one piece together, longest left side first, space runs before all else",
                    index, left_piece, right_piece));
  }

  /// Every possible split of a merged piece must be in the list, or merging by piece would do more than the file says.
  Status check_complete() const {
    for (std::size_t at = 0; at < ranks_.size(); ++at) {
      if (ranks_[at] == kNeverMerged) continue;
      const std::size_t splits = count_splits(vocabulary_.text(static_cast<TokenId>(at)), vocabulary_);
      if (splits == counts_[at]) continue;
      return fail(ErrorCode::Unsupported,
                  fmt::format("tokenizer.json: token {} has {} merges; accepted is one for each of its {} splits", at,
                              counts_[at], splits));
    }
    return {};
  }

  [[nodiscard]] std::vector<Rank> take_ranks() { return std::move(ranks_); }

 private:
  const Vocabulary& vocabulary_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> counts_;  // merges seen, by id
  Rank next_rank_ = kFirstMerged + 1;
  TokenId last_id_ = -1;
  std::size_t last_left_chars_ = 0;
  std::pair<std::size_t, std::size_t> last_run_{SIZE_MAX, SIZE_MAX};
};

}  // namespace

Result<JsonPieces> pieces_by_id(const JsonVocabulary& json) {
  std::size_t tokens = 0;
  for (const auto& piece : json.pieces) tokens = std::max<std::size_t>(tokens, piece.id + std::size_t{1});
  for (const auto& added : json.added) tokens = std::max<std::size_t>(tokens, added.id + std::size_t{1});
  if (tokens > json.pieces.size() + json.added.size()) {
    return fail(ErrorCode::BadFile, fmt::format("tokenizer.json: the largest id is {}, but there are only {} tokens",
                                                tokens - 1, json.pieces.size() + json.added.size()));
  }
  JsonPieces made;
  made.pieces.resize(tokens);
  made.types.resize(tokens, TokenType::Normal);
  for (const auto& piece : json.pieces) {
    std::string_view& slot = made.pieces[piece.id];
    if (!slot.empty()) return fail(ErrorCode::BadFile, fmt::format("tokenizer.json: id {} is given twice", piece.id));
    slot = json.view(piece.text);
    if (is_byte_spelling(slot)) made.types[piece.id] = TokenType::Byte;
  }
  for (const auto& added : json.added) {
    std::string_view& slot = made.pieces[added.id];
    const std::string_view content = json.view(added.text);
    if (!slot.empty() && slot != content) {
      return fail(ErrorCode::BadFile,
                  fmt::format("tokenizer.json: id {} is \"{}\" in the vocabulary and \"{}\" among the "
                              "added tokens",
                              added.id, slot, content));
    }
    slot = content;
    made.types[added.id] = added.is_special ? TokenType::Control : TokenType::UserDefined;
  }
  const auto hole = std::find_if(made.pieces.begin(), made.pieces.end(), [](auto piece) { return piece.empty(); });
  if (hole != made.pieces.end()) {
    return fail(ErrorCode::BadFile, fmt::format("tokenizer.json: id {} has no piece", hole - made.pieces.begin()));
  }
  return made;
}

Result<std::vector<Rank>> ranks_from_merges(const JsonVocabulary& json, const Vocabulary& vocabulary) {
  MergeWalk walk(vocabulary);
  for (std::size_t at = 0; at < json.merges.size(); ++at) {
    EBB_TRY(walk.add(at, json.view(json.merges[at].left), json.view(json.merges[at].right)));
  }
  EBB_TRY(walk.check_complete());
  return walk.take_ranks();
}

}  // namespace ebb::tokenizer
