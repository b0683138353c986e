// Any bytes as a safetensors file, and as an index: parsed or refused, and every range handed out lies inside the
// bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "format/internal/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto tensors = ebb::format::parse_safetensors(bytes, "fuzz.safetensors")) {
    std::size_t covered = 0;
    for (const ebb::format::SafetensorsEntry& tensor : *tensors) {
      EBB_CHECK(tensor.file_offset <= size && tensor.data.size() <= size - tensor.file_offset, "{}", tensor.name);
      covered += tensor.data.size();
    }
    EBB_CHECK(covered < size, "{} of {}", covered, size);
  }
  if (const auto map = ebb::format::parse_safetensors_index(bytes, "fuzz.index.json")) {
    for (const auto& [name, file] : *map) EBB_CHECK(file.find('/') == std::string::npos, "{}", file);
  }
  return 0;
}
