// Gemma 3's tokenizer: SentencePiece-style BPE with byte fallback, exact to Hugging Face `tokenizers`.
// Text to ids and back, from the vocabulary arrays it is given (a GGUF's, or tokenizer.json's). Adds no <bos>.
// Threads   const after construction; safe from any thread.
// Source    spec: SentencePiece BPE (bpe_model.cc); docs/decisions/ for why it is ours.
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

/// Vocabulary as arrays, id by id. Views must outlive the Tokenizer's construction only if `owned` says so in .cpp.
struct VocabularyArrays {
  std::vector<std::string_view> pieces;
  std::vector<float> scores;        // higher merges first; empty when `merges` is given
  std::vector<std::int32_t> types;  // TokenType values
};

/// Ids with a meaning of their own; -1 when the vocabulary has none.
struct SpecialIds {
  TokenId pad = -1, eos = -1, bos = -1, unk = -1, start_of_turn = -1, end_of_turn = -1, start_of_image = -1, end_of_image = -1;
};

class Tokenizer {
 public:
  /// Errors   BadFile when arrays disagree in length, a piece repeats, byte pieces are missing.
  [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> from_arrays(const VocabularyArrays& arrays);
  /// Text of a Hugging Face tokenizer.json. Errors: BadFile with what was found and what is accepted.
  [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;  // holds tables of megabytes; share by reference
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of `text`; invalid UTF-8 becomes U+FFFD.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, ControlText control) const;

  /// Bytes of one token, as the text it stands for (a space for U+2581, one raw byte for a byte token, a control
  /// token's spelling). May be part of a character.
  [[nodiscard]] std::string_view bytes(TokenId id) const;
  /// Text of ids: whole characters, invalid bytes as U+FFFD. Control tokens are left out unless asked for.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool with_control = false) const;

  [[nodiscard]] std::size_t size() const;  // number of tokens
  [[nodiscard]] TokenType type(TokenId id) const;
  [[nodiscard]] bool is_control(TokenId id) const;
  [[nodiscard]] const SpecialIds& special() const;

 private:
  Tokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::tokenizer
