#include "kernels/ops.h"

#include <algorithm>

#include "base/bytes.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_ops.h"

namespace ebb::kernels {
namespace {

// Rows of a chunk whose partial results do not fit take more launches; beyond this a launch is long enough.
constexpr std::size_t kCardAttentionBytes = 32 * kMiB;

}  // namespace

OpsBytes ops_bytes(device::Kind kind, const OpsShape& shape) {
  if (kind == device::Kind::Cuda) {
    const auto attention = [&](std::size_t rows) {
      return cuda::attention_bytes(rows, shape.max_tokens, 0, shape.q_heads, shape.head_dim);
    };
    return {0, 0, std::max(attention(1), std::min(attention(shape.rows), kCardAttentionBytes))};
  }
  return {matmul_input_bytes(shape.arithmetic, shape.rows, shape.max_cols), matmul_workspace_bytes(shape.threads, shape.max_cols),
          attention_workspace_bytes(shape.threads, shape.rows, shape.q_heads, shape.head_dim)};
}

Result<std::unique_ptr<Ops>> ops_on(device::Device& device, ThreadPool& threads, Arithmetic arithmetic) {
  if (device.kind() == device::Kind::Cuda) return cuda::card_ops(dynamic_cast<device::CudaDevice&>(device), arithmetic);
  return host_ops(threads, arithmetic);
}

}  // namespace ebb::kernels
