// Text of a Hugging Face config.json to a Config: any bytes give a Config within bounds, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = ebb::model::parse_hf_config(text)) {
    if (config->global.size() != config->layers || config->q_heads % config->kv_heads != 0) std::abort();
  }
  return 0;
}
