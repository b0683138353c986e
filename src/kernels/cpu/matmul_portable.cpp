#define EBB_NO_UNROLL

#include "kernels/cpu/internal/lanes_portable.h"
#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/panel.h"
#include "kernels/cpu/internal/quantize.h"

namespace ebb::kernels {

const MatmulKernels& portable_matmul_kernels() {
  static constexpr MatmulKernels kernels{&quantize_row<PortableLanes>, &Panel<PortableLanes>::run};
  return kernels;
}

}  // namespace ebb::kernels
