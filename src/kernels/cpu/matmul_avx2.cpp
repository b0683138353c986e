#include "kernels/cpu/internal/lanes_avx2.h"
#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/panel.h"
#include "kernels/cpu/internal/quantize.h"

namespace ebb::kernels {

const MatmulKernels& avx2_matmul_kernels() {
  static constexpr MatmulKernels kKernels{&quantize_row<Avx2Lanes>, &Panel<Avx2Lanes>::run};
  return kKernels;
}

}  // namespace ebb::kernels
