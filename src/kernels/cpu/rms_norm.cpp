#include "kernels/rms_norm.h"

#include "kernels/internal/split_rows.h"
#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {

void rms_norm(ThreadPool& threads, const float* x, const float* w, float eps, std::size_t rows, std::size_t cols,
              float* y) {
  const VectorKernels& vector = vector_kernels(simd_level());
  split_rows(threads, rows, cols, [&](std::size_t first, std::size_t last) {
    for (std::size_t row_idx = first; row_idx < last; ++row_idx)
      vector.rms_norm_row(x + row_idx * cols, w, eps, cols, y + row_idx * cols);
  });
}

void residual_rms_norm(ThreadPool& threads, float* x, const float* branch, const float* w_post, const float* w_next,
                       float eps, std::size_t rows, std::size_t cols, float* y) {
  const VectorKernels& vector = vector_kernels(simd_level());
  split_rows(threads, rows, cols, [&](std::size_t first, std::size_t last) {
    for (std::size_t row_idx = first; row_idx < last; ++row_idx) {
      const std::size_t at = row_idx * cols;
      vector.residual_rms_norm_row(x + at, branch + at, w_post, w_next, eps, cols, y + at);
    }
  });
}

}  // namespace ebb::kernels
