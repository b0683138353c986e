#define EBB_NO_UNROLL

#include "kernels/cpu/internal/lanes_portable.h"
#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/panel.h"
#include "kernels/cpu/internal/quantize.h"

namespace ebb::kernels {

const MatmulKernels& portable_matmul_kernels() {
  static constexpr MatmulKernels kKernels{&quantize_row<PortableLanes>, &Panel<PortableLanes>::run};
  return kKernels;
}

}  // namespace ebb::kernels
