// What a tensor is to the model, whatever its file calls it.
// Called by model/ to ask for tensors. Layer parts come last, so that one comparison tells them apart.
#pragma once

#include <cstdint>

namespace ebb::weights {

enum class Part : std::uint8_t {
  Embedding,
  Head,  // absent from files that tie it to the embedding
  OutputNorm,
  AttnNorm,
  AttnQ,
  AttnK,
  AttnV,
  AttnQNorm,
  AttnKNorm,
  AttnOutput,
  PostAttnNorm,
  FfnNorm,
  FfnGate,
  FfnUp,
  FfnDown,
  PostFfnNorm,
};

[[nodiscard]] constexpr bool is_norm(Part part) {
  switch (part) {
    case Part::OutputNorm:
    case Part::AttnNorm:
    case Part::AttnQNorm:
    case Part::AttnKNorm:
    case Part::PostAttnNorm:
    case Part::FfnNorm:
    case Part::PostFfnNorm:
      return true;
    default:
      return false;
  }
}

}  // namespace ebb::weights
