// What moves as a whole: the embedding table, the output (head matrix and output norm), or one layer.
// Called by whoever places weights. A plain value.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace ebb::weights {

struct UnitId {
  enum class Kind : std::uint8_t { Embedding, Output, Layer };
  Kind kind = Kind::Layer;
  std::size_t layer_idx = 0;  // 0 unless kind is Layer

  friend auto operator<=>(const UnitId&, const UnitId&) = default;
};

inline constexpr UnitId kEmbeddingUnit{UnitId::Kind::Embedding, 0};
inline constexpr UnitId kOutputUnit{UnitId::Kind::Output, 0};
[[nodiscard]] constexpr UnitId layer_unit(std::size_t layer_idx) { return {UnitId::Kind::Layer, layer_idx}; }

}  // namespace ebb::weights
