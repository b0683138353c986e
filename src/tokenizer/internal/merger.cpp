#include "tokenizer/internal/merger.h"

#include <algorithm>

#include "tokenizer/internal/utf8.h"

namespace ebb::tokenizer {

namespace {

constexpr std::uint64_t kCharMask = 0xFFFF;
constexpr std::uint64_t kNoMerge = ~std::uint64_t{0};

/// The order of std::push_heap, whose top is the last in it.
constexpr auto kLater = [](const auto& a, const auto& b) { return a.key != b.key ? a.key > b.key : a.left > b.left; };

}  // namespace

void Merger::encode(std::string_view text, std::vector<TokenId>& out) {
  split(text);
  merge_all(text);
  for (Index index = symbols_.empty() ? -1 : 0; index != -1; index = at(index).next) {
    const Symbol& symbol = at(index);
    if (symbol.id != -1) {
      out.push_back(symbol.id);
      continue;
    }
    for (const char byte : text.substr(symbol.begin, symbol.bytes)) {
      out.push_back(vocabulary_.byte_id(static_cast<std::uint8_t>(byte)));
    }
  }
}

void Merger::split(std::string_view text) {
  symbols_.clear();
  for (std::size_t from = 0; from < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[from]);
    const std::size_t bytes = lead < 0x80 ? 1 : utf8_step(text.substr(from)).bytes;
    const TokenId id = lead < 0x80 ? vocabulary_.ascii_id(lead) : vocabulary_.find(text.substr(from, bytes));
    const auto index = static_cast<Index>(symbols_.size());
    symbols_.push_back({.key = kNoMerge,
                        .begin = static_cast<std::uint32_t>(from),
                        .bytes = static_cast<std::uint32_t>(bytes),
                        .chars = 1,
                        .previous = index - 1,
                        .next = index + 1,
                        .id = id,
                        .merged = -1});
    from += bytes;
  }
  if (!symbols_.empty()) symbols_.back().next = -1;
}

void Merger::merge_all(std::string_view text) {
  heap_.clear();
  const auto count = static_cast<Index>(symbols_.size());
  for (Index index = 0; index < count; ++index) find_merge(text, index);
  for (Index index = 0; index < count; ++index) offer(index);
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    heap_.pop_back();
    const Symbol& left = at(best.left);
    // Outdated unless the two symbols still are what they were; the key holds their lengths.
    if (left.bytes != 0 && left.key == best.key) merge(text, best.left);
  }
}

void Merger::merge(std::string_view text, Index index) {
  Symbol& left = at(index);
  Symbol& right = at(left.next);
  left.bytes += right.bytes;
  left.chars += right.chars;
  left.id = left.merged;
  left.next = right.next;
  right.bytes = 0;
  find_merge(text, index);
  if (left.next != -1) at(left.next).previous = index;
  if (left.previous != -1) {
    find_merge(text, left.previous);
    offer(left.previous);
    offer(at(left.previous).previous);
  }
  offer(index);
  offer(left.next);
}

/// Sets key and merged of `index` from what it and the next symbol spell.
void Merger::find_merge(std::string_view text, Index index) {
  Symbol& left = at(index);
  left.key = kNoMerge;
  if (left.next == -1) return;
  const Symbol& right = at(left.next);
  if (left.id == -1 || right.id == -1) return;
  const TokenId id = vocabulary_.find(text.substr(left.begin, left.bytes + right.bytes));
  if (id == -1) return;
  const Rank rank = vocabulary_.rank(id);
  if (rank == kNeverMerged) return;
  left.key = std::uint64_t{rank} << 32 | (kCharMask - left.chars) << 16 | (kCharMask - right.chars);
  left.merged = id;
}

bool Merger::comes_before(Index a, Index b) {
  return a != -1 && (at(a).key != at(b).key ? at(a).key < at(b).key : a < b);
}

/// Puts the merge of `index` on the heap unless a neighbour's comes first: that one changes or ends this one anyway,
/// and then it is offered again. The heap stays small, and its top is still the first of all merges.
void Merger::offer(Index index) {
  if (index == -1 || at(index).key == kNoMerge) return;
  if (comes_before(at(index).previous, index) || comes_before(at(index).next, index)) return;
  heap_.push_back({at(index).key, index});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

}  // namespace ebb::tokenizer
