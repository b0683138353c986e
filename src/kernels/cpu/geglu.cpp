#include "kernels/geglu.h"

#include "kernels/internal/split_rows.h"
#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {

void geglu(ThreadPool& threads, const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y) {
  const VectorKernels& vector = vector_kernels(simd_level());
  split_rows(threads, rows, cols, [&](std::size_t first, std::size_t last) {
    vector.geglu(gate + first * cols, up + first * cols, (last - first) * cols, y + first * cols);
  });
}

}  // namespace ebb::kernels
