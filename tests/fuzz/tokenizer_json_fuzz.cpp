// Any bytes as tokenizer.json: a Tokenizer or an error, and what was accepted must encode and decode.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb::tokenizer;
  const auto made = Tokenizer::from_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!made) return made.error().message.empty() ? std::abort(), 0 : 0;
  const Tokenizer& tokenizer = **made;
  const std::string_view text = "the  thing\n\n<h1>and\t<eos> \xC3\xA9\xFF";
  for (const ControlText control : {ControlText::Literal, ControlText::Parse}) {
    const auto ids = tokenizer.encode(text, control);
    for (const TokenId id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= tokenizer.size()) std::abort();
      if (control == ControlText::Literal && tokenizer.is_control(id)) std::abort();
    }
    if (tokenizer.decode(ids, true) != "the  thing\n\n<h1>and\t<eos> \xC3\xA9\xEF\xBF\xBD") std::abort();
  }
  return 0;
}
