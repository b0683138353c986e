#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <utility>

#include "tokenizer/internal/frozen_pieces.h"
#include "tokenizer/internal/json_source.h"
#include "tokenizer/internal/merger.h"
#include "tokenizer/internal/utf8.h"
#include "tokenizer/internal/vocabulary.h"
#include "tokenizer/text_stream.h"

namespace ebb::tokenizer {

struct Tokenizer::State {
  Vocabulary vocabulary;
  FrozenPieces frozen;
  SpecialIds special;
};

namespace {

constexpr std::size_t kMaxStretchBytes = std::size_t{1} << 30;  // Merger's links are 32-bit

bool is_space_run(std::string_view text) { return !text.empty() && text.find_first_not_of(' ') == text.npos; }

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

/// Files disagree about the types of control pieces; the spelling does not.
TokenType corrected(TokenType type, std::string_view piece) {
  const bool takes_part = type != TokenType::Byte && type != TokenType::Unknown;
  return takes_part && is_control_spelling(piece) ? TokenType::Control : type;
}

Result<TokenType> token_type(std::int32_t value, std::size_t id) {
  if (value >= 1 && value <= 6) return static_cast<TokenType>(value);
  return fail(ErrorCode::BadFile, fmt::format("token {} has type {}; accepted are 1 to 6", id, value));
}

/// Numbers that sort as the scores do, the highest first.
Result<Rank> rank_of_score(float score, std::size_t id) {
  if (std::isnan(score)) return fail(ErrorCode::BadFile, fmt::format("the score of token {} is not a number", id));
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // the sum makes -0.0 equal to 0.0
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

SpecialIds find_special(const Vocabulary& vocabulary) {
  SpecialIds special;
  const std::array<std::pair<std::string_view, TokenId*>, 8> wanted = {{
      {"<pad>", &special.pad},
      {"<eos>", &special.eos},
      {"<bos>", &special.bos},
      {"<unk>", &special.unk},
      {"<start_of_turn>", &special.start_of_turn},
      {"<end_of_turn>", &special.end_of_turn},
      {"<start_of_image>", &special.start_of_image},
      {"<end_of_image>", &special.end_of_image},
  }};
  for (std::size_t at = 0; at < vocabulary.size(); ++at) {
    const auto id = static_cast<TokenId>(at);
    if (vocabulary.type(id) != TokenType::Control && vocabulary.type(id) != TokenType::Unknown) continue;
    for (const auto& [name, slot] : wanted) {
      if (*slot == -1 && vocabulary.text(id) == name) *slot = id;
    }
  }
  return special;
}

/// Ids of text in which no piece is frozen: cut where no merge can cross, then merged stretch by stretch.
void encode_fragment(const Vocabulary& vocabulary, std::string_view fragment, Merger& merger,
                     std::vector<TokenId>& out) {
  std::string with_spaces;
  if (fragment.find(kEscapedSpace) != fragment.npos) {
    with_spaces = replaced(fragment, kEscapedSpace, " ");
    fragment = with_spaces;
  }
  std::size_t begin = 0;
  for (std::size_t at = 1; at < fragment.size(); ++at) {
    const bool can_cut =
        fragment[at] == ' ' && !vocabulary.joins_space_after(static_cast<std::uint8_t>(fragment[at - 1]));
    const bool must_cut = at - begin >= kMaxStretchBytes && (static_cast<std::uint8_t>(fragment[at]) & 0xC0) != 0x80;
    if (!can_cut && !must_cut) continue;
    merger.encode(fragment.substr(begin, at - begin), out);
    begin = at;
  }
  if (begin < fragment.size()) merger.encode(fragment.substr(begin), out);
}

}  // namespace

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_arrays(const VocabularyArrays& arrays) {
  const std::size_t tokens = arrays.pieces.size();
  if (arrays.scores.size() != tokens || arrays.types.size() != tokens) {
    return fail(ErrorCode::BadFile,
                fmt::format("the vocabulary has {} pieces, {} scores and {} types; accepted are as many "
                            "of each",
                            tokens, arrays.scores.size(), arrays.types.size()));
  }
  std::vector<TokenType> types(tokens);
  std::vector<Rank> ranks(tokens, kNeverMerged);
  FrozenPieces frozen;
  for (std::size_t at = 0; at < tokens; ++at) {
    const std::string_view piece = arrays.pieces[at];
    EBB_TRY_ASSIGN(const TokenType given, token_type(arrays.types[at], at));
    const TokenType type = corrected(given, piece);
    types[at] = type;
    if (type == TokenType::Normal) {
      EBB_TRY_ASSIGN(ranks[at], rank_of_score(arrays.scores[at], at));
    } else if (type == TokenType::UserDefined && is_space_run(piece)) {
      // The converter wrote spaces for U+2581. In text, the run made of U+2581 is cut out and the one made of spaces
      // is merged before anything else.
      ranks[at] = kFirstMerged;
      frozen.add(replaced(piece, " ", kEscapedSpace), static_cast<TokenId>(at), false);
    } else if (type == TokenType::UserDefined || type == TokenType::Control || type == TokenType::Unknown) {
      frozen.add(piece, static_cast<TokenId>(at), type != TokenType::UserDefined);
    }
  }
  frozen.finish();
  EBB_TRY_ASSIGN(Vocabulary vocabulary, Vocabulary::build(arrays.pieces, types, std::move(ranks)));
  const SpecialIds special = find_special(vocabulary);
  std::unique_ptr<Tokenizer> made(new Tokenizer());
  made->state_ = std::make_unique<State>(State{std::move(vocabulary), std::move(frozen), special});
  return made;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view json) {
  EBB_TRY_ASSIGN(const JsonVocabulary read, read_tokenizer_json(json));
  EBB_TRY_ASSIGN(JsonPieces source, pieces_by_id(read));
  FrozenPieces frozen;
  for (std::size_t at = 0; at < source.types.size(); ++at) {
    source.types[at] = corrected(source.types[at], source.pieces[at]);
    const TokenType type = source.types[at];
    if (type != TokenType::UserDefined && type != TokenType::Control) continue;
    frozen.add(source.pieces[at], static_cast<TokenId>(at), type == TokenType::Control);
  }
  frozen.finish();
  EBB_TRY_ASSIGN(Vocabulary vocabulary,
                 Vocabulary::build(source.pieces, source.types, std::vector<Rank>(source.pieces.size(), kNeverMerged)));
  EBB_TRY_ASSIGN(std::vector<Rank> ranks, ranks_from_merges(read, vocabulary));
  vocabulary.set_ranks(std::move(ranks));
  const SpecialIds special = find_special(vocabulary);
  std::unique_ptr<Tokenizer> made(new Tokenizer());
  made->state_ = std::make_unique<State>(State{std::move(vocabulary), std::move(frozen), special});
  return made;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, ControlText control) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repaired_utf8(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  Merger merger(state_->vocabulary);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    FrozenPieces::Match match;
    if (state_->frozen.may_begin(static_cast<std::uint8_t>(text[at]))) {
      match = state_->frozen.match(text.substr(at), control);
    }
    if (match.id == -1) {
      ++at;
      continue;
    }
    encode_fragment(state_->vocabulary, text.substr(begin, at - begin), merger, ids);
    ids.push_back(match.id);
    at += match.bytes;
    begin = at;
  }
  encode_fragment(state_->vocabulary, text.substr(begin), merger, ids);
  return ids;
}

std::string_view Tokenizer::bytes(TokenId id) const {
  return state_->vocabulary.contains(id) ? state_->vocabulary.text(id) : std::string_view();
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool with_control) const {
  TextStream stream;
  std::string text;
  for (const TokenId id : ids) {
    if (with_control || !is_control(id)) text += stream.push(bytes(id));
  }
  return text += stream.finish();
}

std::size_t Tokenizer::size() const { return state_->vocabulary.size(); }

TokenType Tokenizer::type(TokenId id) const {
  return state_->vocabulary.contains(id) ? state_->vocabulary.type(id) : TokenType::Unused;
}

bool Tokenizer::is_control(TokenId id) const {
  const TokenType kind = type(id);
  return kind == TokenType::Control || kind == TokenType::Unknown || kind == TokenType::Unused;
}

const SpecialIds& Tokenizer::special() const { return state_->special; }

}  // namespace ebb::tokenizer
