// What each Part is called in GGUF and in the safetensors layouts of Gemma 3.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weights/part.h"

namespace ebb::weights {

/// Spellings to try, the most usual first.
[[nodiscard]] std::vector<std::string> gguf_names(Part part, std::size_t layer_idx);
[[nodiscard]] std::vector<std::string> safetensors_names(Part part, std::size_t layer_idx);

}  // namespace ebb::weights
