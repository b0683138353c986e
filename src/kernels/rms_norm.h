// RMSNorm: y = x * (mean(x^2) + eps)^-1/2 * w, in float32 with a float64 sum. w already holds Gemma's 1 + weight.
// Each row depends on itself alone, bit for bit.
#pragma once

#include <cstddef>

#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Shape   x, y [rows, cols] f32 (may be the same), w [cols] f32.
void rms_norm(ThreadPool& threads, const float* x, const float* w, float eps, std::size_t rows, std::size_t cols, float* y);

/// The end of a branch and the start of the next: x += RMSNorm(branch; w_post), then y = RMSNorm(x; w_next).
/// Shape   x, branch, y [rows, cols] f32; w_post, w_next [cols] f32.
void residual_rms_norm(ThreadPool& threads, float* x, const float* branch, const float* w_post, const float* w_next, float eps,
                       std::size_t rows, std::size_t cols, float* y);

}  // namespace ebb::kernels
