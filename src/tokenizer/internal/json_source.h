// From tokenizer.json's lists to the form every vocabulary is used in: pieces by id and ranks by piece.
// Keeps    the promise of the decision record: the file's merges, in the file's order, are exactly what Merger does.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/internal/json_reader.h"
#include "tokenizer/internal/vocabulary.h"

namespace ebb::tokenizer {

struct JsonPieces {
  std::vector<std::string_view> pieces;  // by id, into the JsonVocabulary
  std::vector<TokenType> types;          // by id
};

/// Errors   BadFile: an id twice or left out, a piece twice.
[[nodiscard]] Result<JsonPieces> pieces_by_id(const JsonVocabulary& json);

/// Rank of each piece from the merge list.
/// Errors   Unsupported: a list that merging by piece rank would not follow exactly. BadFile: unknown pieces.
[[nodiscard]] Result<std::vector<Rank>> ranks_from_merges(const JsonVocabulary& json, const Vocabulary& vocabulary);

}  // namespace ebb::tokenizer
