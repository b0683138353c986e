#include "tokenizer/internal/frozen_pieces.h"

#include <algorithm>

namespace ebb::tokenizer {

void FrozenPieces::add(std::string_view spelling, TokenId id, bool is_control) {
  if (spelling.empty()) return;
  entries_.push_back(
      {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(spelling.size()), id, is_control});
  bytes_ += spelling;
  first_bytes_.set(static_cast<std::uint8_t>(spelling[0]));
}

void FrozenPieces::finish() {
  bytes_.shrink_to_fit();
  entries_.shrink_to_fit();
  // The id decides between two control pieces of one spelling, so that the order never depends on the sort.
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    const int order = spelling(a).compare(spelling(b));
    return order != 0 ? order < 0 : a.id > b.id;
  });
}

FrozenPieces::Match FrozenPieces::match(std::string_view text, ControlText control) const {
  Match best;
  auto low = entries_.begin();
  auto high = entries_.end();
  // Each round keeps the pieces that agree with `text` in one byte more; a piece of exactly that length matches.
  for (std::size_t depth = 0; low != high && depth < text.size(); ++depth) {
    const auto byte = static_cast<std::uint8_t>(text[depth]);
    low = std::partition_point(low, high, [&](const Entry& entry) {
      return entry.size <= depth || static_cast<std::uint8_t>(spelling(entry)[depth]) < byte;
    });
    high = std::partition_point(
        low, high, [&](const Entry& entry) { return static_cast<std::uint8_t>(spelling(entry)[depth]) == byte; });
    for (auto entry = low; entry != high && entry->size == depth + 1; ++entry) {
      if (!entry->is_control || control == ControlText::Parse) best = {entry->id, depth + 1};
    }
  }
  return best;
}

}  // namespace ebb::tokenizer
