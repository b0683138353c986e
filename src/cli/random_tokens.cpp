#include "cli/random_tokens.h"

namespace ebb::cli {

Tokens random_tokens(const engine::Engine& model, std::size_t count, std::mt19937_64& random) {
  const auto vocabulary = static_cast<std::int32_t>(model.info().vocabulary);
  const std::int32_t first = vocabulary > 2000 ? 1000 : 0;
  Tokens tokens;
  while (tokens.size() < count) {
    tokens.push_back(first + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocabulary - first)));
  }
  return tokens;
}

}  // namespace ebb::cli
