#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {

namespace portable {
extern const VectorKernels kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const VectorKernels kTable;
}
namespace avx512 {
extern const VectorKernels kTable;
}
#endif

const VectorKernels& vector_kernels(SimdLevel level) {
  switch (level) {
#if defined(__x86_64__)
    case SimdLevel::Avx512:
      return avx512::kTable;
    case SimdLevel::Avx2:
      return avx2::kTable;
#endif
    default:
      return portable::kTable;
  }
}

}  // namespace ebb::kernels
