#include "tokenizer/text_stream.h"

#include <utility>

#include "tokenizer/internal/utf8.h"

namespace ebb::tokenizer {

std::string TextStream::push(std::string_view bytes) {
  std::string joined = std::exchange(held_, {});
  joined += bytes;
  std::string_view rest = joined;
  std::string out;
  out.reserve(joined.size());
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::Incomplete) {
      held_ = rest;
      break;
    }
    out += step.kind == Utf8Kind::Whole ? rest.substr(0, step.bytes) : kReplacement;
    rest.remove_prefix(step.bytes);
  }
  return out;
}

std::string TextStream::finish() {
  const bool cut_off = !std::exchange(held_, {}).empty();
  return cut_off ? std::string(kReplacement) : std::string();
}

}  // namespace ebb::tokenizer
