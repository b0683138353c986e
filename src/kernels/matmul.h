// Products of activations with a weight matrix, straight from the file's packed blocks: y[t, r] = sum_c x[t, c] w[r, c].
// Canonical order, the same for one row or many and for every instruction set: a row of y depends on its row of x alone,
// bit for bit, however the tokens were batched. No dequantised copy of a weight outlives the panel being worked on.
// Called by model/. Owns nothing; all memory is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensor_view.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// How packed weights meet activations.
/// Exact      float32 activations, weights dequantised exactly, float32 accumulation.
/// Quantized  block-quantised weights: activations as int16 in blocks of 32 with a float32 scale (rounded to nearest),
///            integer sums inside a block, float32 across blocks. F32, F16 and BF16 weights: as Exact.
enum class Arithmetic : std::uint8_t { Exact, Quantized };

/// Rows of activations made ready once, for any number of products that read them.
struct MatmulInput {
  const float* x = nullptr;  // [rows, cols] f32
  std::size_t rows = 0;
  std::size_t cols = 0;
  Arithmetic arithmetic = Arithmetic::Exact;
  const std::byte* quantized = nullptr;  // private layout of kernels/cpu; null in Exact arithmetic
};

/// Bytes of workspace that prepare_matmul_input needs.
[[nodiscard]] std::size_t matmul_input_bytes(Arithmetic arithmetic, std::size_t rows, std::size_t cols);

/// Shape      x [rows, cols] f32; workspace of matmul_input_bytes(), 64-byte aligned, alive as long as the result.
[[nodiscard]] MatmulInput prepare_matmul_input(ThreadPool& threads, Arithmetic arithmetic, const float* x, std::size_t rows,
                                               std::size_t cols, std::byte* workspace);

struct MatmulProduct {
  TensorView w;              // [w.rows, cols], any DType
  float* y = nullptr;        // [rows, y_stride], columns [0, w.rows) are written
  std::size_t y_stride = 0;  // floats between rows of y
};

/// Bytes of workspace that matmul needs for its panels.
[[nodiscard]] std::size_t matmul_workspace_bytes(int thread_count, std::size_t max_cols);

/// Runs all products on one input in one parallel section.
void matmul(ThreadPool& threads, const MatmulInput& input, std::span<const MatmulProduct> products, std::byte* workspace);

}  // namespace ebb::kernels
