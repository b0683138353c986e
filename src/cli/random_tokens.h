// Prompts for measurements: ordinary tokens at random, the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/engine.h"

namespace ebb::cli {

using Tokens = std::vector<std::int32_t>;

/// `count` ids past the first 1,000, which hold control, unused and byte tokens in Gemma's vocabulary.
[[nodiscard]] Tokens random_tokens(const engine::Engine& model, std::size_t count, std::mt19937_64& random);

}  // namespace ebb::cli
