// The gated activation: y = gelu_tanh(gate) * up, with gelu_tanh(z) = z/2 (1 + tanh(0.7978845608 (z + 0.044715 z^3))).
#pragma once

#include <cstddef>

#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Shape   gate, up, y [rows, cols] f32; y may be gate. Error of y: a few ulp of gate * up.
void geglu(ThreadPool& threads, const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y);

}  // namespace ebb::kernels
