// Gemma 3's tokenizer: SentencePiece-style BPE with byte fallback, exact to Hugging Face `tokenizers`.
// Text to ids and back, from the vocabulary arrays it is given (a GGUF's, or tokenizer.json's). Adds no <bos>.
// Refuses   vocabularies without all 256 byte pieces, and merge lists in another order than Gemma's.
// Called by engine/ (prompts, chat template, streaming). Keeps: no id of a control piece comes from Literal text.
// Threads   const after construction; safe from any thread.
// Source    docs/decisions/0003-own-tokenizer.md
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::tokenizer {

using TokenId = std::int32_t;

enum class TokenType : std::uint8_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

/// Whether spellings such as "<end_of_turn>" in the text become control ids. Message text is never control.
enum class ControlText { Literal, Parse };

/// Vocabulary as a GGUF's three arrays, id by id. Read only while the Tokenizer is made; it keeps its own copy.
struct VocabularyArrays {
  std::vector<std::string_view> pieces;  // spaces as U+2581; in space runs of type UserDefined as spaces
  std::vector<float> scores;             // of Normal pieces: higher merges first
  std::vector<std::int32_t> types;       // TokenType values; pieces of spec 1.5 count as Control whatever stands here
};

/// Ids with a meaning of their own; -1 when the vocabulary has none.
struct SpecialIds {
  TokenId pad = -1, eos = -1, bos = -1, unk = -1, start_of_turn = -1, end_of_turn = -1, start_of_image = -1,
          end_of_image = -1;
};

class Tokenizer {
 public:
  /// Errors   BadFile when the arrays disagree in length, a piece repeats, a byte piece is missing, a type is unknown.
  [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> from_arrays(const VocabularyArrays& arrays);
  /// From the text of a Hugging Face tokenizer.json.
  /// Errors   BadFile or Unsupported with what was found and what is accepted.
  [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;  // holds tables of megabytes; share by reference
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of `text`. Each broken UTF-8 sequence counts as one U+FFFD. A stretch without white space is cut at 1 GiB.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, ControlText control) const;

  /// Bytes of one token, as the text it stands for (a space for U+2581, one raw byte for a byte token, a control
  /// token's spelling). May be part of a character. Empty for an id outside the vocabulary.
  /// Owner    the Tokenizer.
  [[nodiscard]] std::string_view bytes(TokenId id) const;
  /// Text of ids: whole characters, invalid bytes as U+FFFD. Control tokens are left out unless asked for.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool with_control = false) const;

  [[nodiscard]] std::size_t size() const;  // number of tokens
  /// Unused for an id outside the vocabulary.
  [[nodiscard]] TokenType type(TokenId id) const;
  /// Whether the token is never shown: Control, Unknown, Unused.
  [[nodiscard]] bool is_control(TokenId id) const;
  [[nodiscard]] const SpecialIds& special() const;

 private:
  Tokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::tokenizer
