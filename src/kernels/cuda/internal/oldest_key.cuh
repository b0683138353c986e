// The first key that a query sees; both launches of attention must agree on it.
#pragma once

#include "kernels/cuda/kv_place.h"

namespace ebb::kernels::cuda {

__device__ inline unsigned oldest_key(const AttentionCall& call, unsigned pos) {
  return call.window == 0 || pos < call.window ? 0 : pos + 1 - call.window;
}

}  // namespace ebb::kernels::cuda
