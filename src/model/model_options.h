// How a model computes. A plain value, chosen by the engine.
#pragma once

#include <cstddef>

#include "kernels/matmul.h"

namespace ebb::model {

using kernels::Arithmetic;

struct ModelOptions {
  Arithmetic arithmetic = Arithmetic::Quantized;
  int threads = 1;
  std::size_t chunk_tokens = 512;  // most tokens of one forward call
};

}  // namespace ebb::model
