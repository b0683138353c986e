// Rotary position embedding, half-split (NeoX) form, fused with the q/k norm that stands before it.
// theta(p, e) = p / factor * base^(-2e / head_dim); out[e] = a cos - b sin; out[e + hd/2] = b cos + a sin.
#pragma once

#include <cstddef>

#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Cosines and sines for positions first_pos .. first_pos + rows - 1, angles in float64.
/// Shape   table [rows, 2, head_dim / 2] f32: cosines, then sines.
void rope_table(std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base, double factor, float* table);

/// x = rope(RMSNorm(x over head_dim; w)), in place, each head alone.
/// Shape   x [rows, x_stride] f32, the first heads * head_dim columns used; w [head_dim] f32; table as rope_table made it.
void norm_rope(ThreadPool& threads, float* x, std::size_t x_stride, const float* w, float eps, const float* table,
               std::size_t rows, std::size_t heads, std::size_t head_dim);

}  // namespace ebb::kernels
