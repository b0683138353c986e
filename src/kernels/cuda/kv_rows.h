// Keys and values on a card: kv_store of kernels/attention.h, the same bytes from the same numbers (a NaN's payload and
// a broken block's sign apart, in which the CPU's own levels differ), and rows copied from one layout to another.
// Called from the thread that runs the pass; the work is queued, not awaited.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/cuda/kv_place.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

/// The view as kernels are told it.
[[nodiscard]] KvPlace place_of(const KvView& view);
/// Whether all addresses and strides of a view are multiples of `bytes`.
[[nodiscard]] bool is_aligned(const KvView& view, std::size_t bytes);

class KvRows {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<KvRows> find(const LoadedCode& code);

  /// As kernels::kv_store: writes positions first_pos .. first_pos + rows - 1, the last `slots` of them when there are
  /// more. Shape   k, v [rows, stride] f32; all addresses of the device; positions < 2^32. Errors  DeviceLost; Io when
  /// the driver refuses the launch.
  [[nodiscard]] Status store(device::Stream stream, const float* k, const float* v, std::size_t stride,
                             std::size_t first_pos, std::size_t rows, std::size_t kv_heads, std::size_t head_dim,
                             const KvView& to) const;

  /// Copies positions first_pos .. first_pos + count - 1 of `from` to to_pos .. of `to`, which has the same types and
  /// shares no memory with it. Either may be host memory that pin() had. count is at most the slots of each. Errors  as
  /// store().
  [[nodiscard]] Status copy(device::Stream stream, const KvView& from, std::size_t first_pos, std::size_t count,
                            std::size_t kv_heads, std::size_t head_dim, const KvView& to, std::size_t to_pos) const;

 private:
  explicit KvRows(device::CudaDevice& device) : device_(&device) {}

  device::CudaDevice* device_;
  device::cuda::Kernel store_ = nullptr;
  device::cuda::Kernel copy_ = nullptr;
};

}  // namespace ebb::kernels::cuda
