// Rotary embedding on a card: the table of cosines and sines, and the q/k norm fused with the rotation, as kernels/rope.h.
// Called from the thread that runs the pass; the work is queued, not awaited. A head depends on itself alone, bit for bit.
// Angles are float64 on the card too; the frequencies come from the host as arguments of the launch, so no power is taken there.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

inline constexpr std::size_t kMaxRopeHeadDim = 256;

/// The largest error of norm_rope's results over |a| + |b|, the normed pair that is turned, in unit roundings (2^-24). A lane adds
/// n = 2 ceil(head_dim / 64) squares and the tree 5 sums; mean and eps round twice; the root halves them: (n + 7) / 2. Root,
/// quotient and two products round once each, then a product and a fused sum: 6 more.
[[nodiscard]] constexpr double norm_rope_error(std::size_t head_dim) {
  const std::size_t squares = 2 * ((head_dim + 63) / 64);
  return (static_cast<double>(squares) + 7) / 2 + 6;
}

class Rope {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<Rope> find(const LoadedCode& code);

  /// Shape   table [rows, 2, head_dim / 2] f32 on the card: cosines, then sines; positions first_pos .. first_pos + rows - 1,
  ///         below 2^20; head_dim even, at most kMaxRopeHeadDim. Each within 1e-9 of cos or sin, then rounded to float32.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status fill_table(device::Stream stream, std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base,
                                  double factor, float* table) const;

  /// x = rope(RMSNorm(x over head_dim; w)), in place, each head alone.
  /// Shape   x [rows, x_stride] f32, the first heads * head_dim columns used; w [head_dim] f32; table as fill_table made it.
  [[nodiscard]] Status norm_rope(device::Stream stream, float* x, std::size_t x_stride, const float* w, float eps,
                                 const float* table, std::size_t rows, std::size_t heads, std::size_t head_dim) const;

 private:
  explicit Rope(device::CudaDevice& device) : device_(&device) {}

  device::CudaDevice* device_;
  device::cuda::Kernel table_ = nullptr;
  device::cuda::Kernel norm_rope_ = nullptr;
};

}  // namespace ebb::kernels::cuda
