// Any bytes as a GGUF file: parsed or refused, and every range handed out lies inside the bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "format/internal/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto gguf = ebb::format::parse_gguf(bytes, "fuzz.gguf");
  if (!gguf) {
    EBB_CHECK(!gguf.error().message.empty(), "an error without a sentence");
    return 0;
  }
  for (const ebb::format::TensorEntry& tensor : gguf->tensors) {
    EBB_CHECK(tensor.file_offset <= size && tensor.bytes <= size - tensor.file_offset, "{} + {} of {}",
              tensor.file_offset, tensor.bytes, size);
    EBB_CHECK(tensor.data == bytes.data() + tensor.file_offset, "{}", tensor.name);
    EBB_CHECK(tensor.view().bytes() == tensor.bytes, "{} and {}", tensor.view().bytes(), tensor.bytes);
  }
  return 0;
}
