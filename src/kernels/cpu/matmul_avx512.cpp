#include "kernels/cpu/internal/lanes_avx512.h"
#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/panel.h"
#include "kernels/cpu/internal/quantize.h"

namespace ebb::kernels {

const MatmulKernels& avx512_matmul_kernels() {
  static constexpr MatmulKernels kKernels{&quantize_row<Avx512Lanes>, &Panel<Avx512Lanes>::run};
  return kKernels;
}

}  // namespace ebb::kernels
