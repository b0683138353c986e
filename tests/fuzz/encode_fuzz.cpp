// Any text to ids and back with a small vocabulary: nothing is lost, and message text holds no control token (T1, T2,
// T8).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/internal/utf8.h"
#include "tokenizer/text_stream.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace ebb::tokenizer;

std::unique_ptr<Tokenizer> small_tokenizer() {
  std::vector<std::string> pieces;
  VocabularyArrays arrays;
  const auto add = [&](std::string piece, TokenType type) {
    arrays.scores.push_back(-static_cast<float>(pieces.size()));
    arrays.types.push_back(static_cast<std::int32_t>(type));
    pieces.push_back(std::move(piece));
  };
  for (const char* control : {"<bos>", "<end_of_turn>", "<unused1>"}) add(control, TokenType::Control);
  for (const char* piece : {"\n", "\n\n", "  ", "   ", "<h1>", "[multimodal]"}) add(piece, TokenType::UserDefined);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + '>', TokenType::Byte);
  }
  for (const char* piece : {"aa", "aaa", "aaaa", "ab",
                            "\xE2\x96\x81"
                            "a",
                            "a\xE2\x96\x81"
                            "b",
                            "<b",
                            "\xC3\xA9"
                            "a",
                            "\xC3\xA9\xC3\xA9", "a", "b", "<", "o", "s", "\xE2\x96\x81", "\xC3\xA9", "1", ">"}) {
    add(piece, TokenType::Normal);
  }
  arrays.pieces.assign(pieces.begin(), pieces.end());
  auto made = Tokenizer::from_arrays(arrays);
  if (!made) std::abort();
  return std::move(*made);
}

std::string with_spaces(std::string text) {
  constexpr std::string_view kEscaped = "\xE2\x96\x81";
  for (std::size_t at = text.find(kEscaped); at != text.npos; at = text.find(kEscaped, at)) {
    text.replace(at, kEscaped.size(), " ");
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<Tokenizer> tokenizer = small_tokenizer();
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0] % 7;  // how streamed bytes are cut
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string wanted = with_spaces(repaired_utf8(text));
  for (const ControlText control : {ControlText::Literal, ControlText::Parse}) {
    const auto ids = tokenizer->encode(text, control);
    if (tokenizer->decode(ids, true) != wanted) std::abort();
    if (control == ControlText::Parse) continue;
    for (const TokenId id : ids) {
      if (tokenizer->is_control(id)) std::abort();
    }
  }
  TextStream stream;
  std::string shown;
  for (std::size_t at = 0; at < text.size(); at += step) {
    const std::string part = stream.push(text.substr(at, step));
    if (!is_valid_utf8(part)) std::abort();
    shown += part;
  }
  shown += stream.finish();
  if (shown != repaired_utf8(text)) std::abort();
  return 0;
}
