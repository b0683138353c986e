// The embedding on a card: out[t, :] = scale * table[ids[t], :], packed rows of any DType made float32 there, the same bits
// as kernels/dequantize.h gives. The table is a copy on the card, that of a tied head for instance; the ids are there too.
// A row whose id the table does not have is NaN, since the host cannot look: a broken request shows in its logits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/tensor_view.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

class EmbedRows {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<EmbedRows> find(const LoadedCode& code);

  /// Shape   table.data on the card, 16-byte aligned; ids [tokens] i32, out [tokens, table.cols] f32; tokens, rows and cols < 2^31.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status run(device::Stream stream, const TensorView& table, const std::int32_t* ids, std::size_t tokens, float scale,
                           float* out) const;

 private:
  explicit EmbedRows(device::CudaDevice& device) : device_(&device) {}

  device::CudaDevice* device_;
  std::array<device::cuda::Kernel, kDTypeCount> by_type_{};
};

}  // namespace ebb::kernels::cuda
