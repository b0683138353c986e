// Attention on a card: that of kernels/attention.h, in two launches. Blocks sum up segments of 128 keys at absolute
// multiples of 128, each for itself; then a query's segments are added in a fixed order. So a query's result depends on
// its position and the keys it sees alone, bit for bit, however tokens were batched and whatever card has how many
// processors (decision 0007). Prefill takes the same way with eight queries a block. Called from the thread that runs
// the pass; queued, not awaited. Source    Dao et al. 2022 (online softmax); keys shared out over blocks: Dao et al.
// 2023, "Flash-Decoding".
#pragma once

#include <array>
#include <cstddef>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/cuda/kv_place.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

/// Workspace with which a launch takes `rows` query rows that end at position end_pos. Less is enough: run() then takes
/// the rows in more launches, the results are the same. At least that of one row.
[[nodiscard]] std::size_t attention_bytes(std::size_t rows, std::size_t end_pos, std::size_t window,
                                          std::size_t q_heads, std::size_t head_dim);

class Attention {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<Attention> find(const LoadedCode& code);

  /// Shape   as kernels::attention; all addresses of the device. Rows of F32, F16 and BF16, queries and results are
  /// read in vectors:
  ///         their addresses and strides are multiples of 16 bytes, as the workspace's. Positions < 2^32.
  ///         NaN among the values of a segment may reach earlier rows of the same launch; such a request fails anyway.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status run(device::Stream stream, const AttentionShape& shape, const float* q, std::size_t q_stride,
                           const KvView& past, const KvView& fresh, float* out, std::byte* workspace,
                           std::size_t workspace_bytes) const;

 private:
  static constexpr std::array<std::size_t, 3> kLanes = {8, 16, 32};  // of a row; each has 8 columns
  static constexpr std::array<std::size_t, 3> kQueries = {2, 4, 8};  // of a block

  explicit Attention(device::CudaDevice& device) : device_(&device) {}

  device::CudaDevice* device_;
  std::array<std::array<device::cuda::Kernel, kQueries.size()>, kLanes.size()> segments_{};
  device::cuda::Kernel merge_ = nullptr;
};

}  // namespace ebb::kernels::cuda
