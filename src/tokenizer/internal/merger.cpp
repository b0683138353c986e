#include "tokenizer/internal/merger.h"

#include <algorithm>

#include "tokenizer/internal/utf8.h"

namespace ebb::tokenizer {

namespace {

constexpr std::uint64_t kCharMask = 0xFFFF;

/// Whether `a` is to be merged after `b`: the order of std::push_heap, whose top is the last in it.
constexpr auto kLater = [](const auto& a, const auto& b) { return a.key != b.key ? a.key > b.key : a.left > b.left; };

}  // namespace

void Merger::encode(std::string_view text, std::vector<TokenId>& out) {
  split(text);
  merge_all(text);
  for (std::int32_t at = symbols_.empty() ? -1 : 0; at != -1; at = symbols_[static_cast<std::size_t>(at)].next) {
    const Symbol& symbol = symbols_[static_cast<std::size_t>(at)];
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
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[at]);
    const std::size_t bytes = lead < 0x80 ? 1 : utf8_step(text.substr(at)).bytes;
    const TokenId id = lead < 0x80 ? vocabulary_.ascii_id(lead) : vocabulary_.find(text.substr(at, bytes));
    const auto index = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back(
        {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(bytes), 1, index - 1, index + 1, id});
    at += bytes;
  }
  if (!symbols_.empty()) symbols_.back().next = -1;
}

void Merger::propose(std::string_view text, std::int32_t left) {
  const Symbol& a = symbols_[static_cast<std::size_t>(left)];
  if (a.next == -1) return;
  const Symbol& b = symbols_[static_cast<std::size_t>(a.next)];
  if (a.id == -1 || b.id == -1) return;
  const TokenId id = vocabulary_.find(text.substr(a.begin, a.bytes + b.bytes));
  if (id == -1) return;
  const Rank rank = vocabulary_.rank(id);
  if (rank == kNeverMerged) return;
  const std::uint64_t key = std::uint64_t{rank} << 32 | (kCharMask - a.chars) << 16 | (kCharMask - b.chars);
  heap_.push_back({key, static_cast<std::uint32_t>(left), id});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

void Merger::merge_all(std::string_view text) {
  heap_.clear();
  for (std::size_t at = 0; at < symbols_.size(); ++at) propose(text, static_cast<std::int32_t>(at));
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    heap_.pop_back();
    Symbol& left = symbols_[best.left];
    if (left.bytes == 0 || left.next == -1) continue;
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    // Stale unless the two still spell the same piece: same beginning, so equal length is enough.
    const std::uint64_t chars = 2 * kCharMask - ((best.key >> 16) & kCharMask) - (best.key & kCharMask);
    if (left.chars + right.chars != chars) continue;
    left.bytes += right.bytes;
    left.chars += right.chars;
    left.id = best.id;
    left.next = right.next;
    right.bytes = 0;
    if (left.next != -1) {
      symbols_[static_cast<std::size_t>(left.next)].previous = static_cast<std::int32_t>(best.left);
    }
    if (left.previous != -1) propose(text, left.previous);
    propose(text, static_cast<std::int32_t>(best.left));
  }
}

}  // namespace ebb::tokenizer
