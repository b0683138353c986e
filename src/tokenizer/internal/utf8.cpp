#include "tokenizer/internal/utf8.h"

#include <cstdint>
#include <cstring>

namespace ebb::tokenizer {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t at) { return static_cast<std::uint8_t>(text[at]); }

std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {Utf8Kind::Whole, 1};
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;  // bounds of the second byte: they shut out overlong forms, surrogates and > U+10FFFF
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Kind::Bad, 1};
  }
  for (std::size_t at = 1; at < length; ++at) {
    if (at == text.size()) return {Utf8Kind::Incomplete, at};
    const std::uint8_t next = byte_at(text, at);
    if (next < low || next > high) return {Utf8Kind::Bad, at};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::Whole, length};
}

bool is_valid_utf8(std::string_view text) {
  while (true) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::Whole) return false;
    text.remove_prefix(step.bytes);
  }
}

std::string repaired_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    out += step.kind == Utf8Kind::Whole ? text.substr(0, step.bytes) : kReplacement;
    text.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace ebb::tokenizer
