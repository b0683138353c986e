// The ops of a forward pass as one set for each place where they can run: the host's threads, a card's stream.
// Names, shapes and results are those of the headers that are included here; all addresses are memory of that place, unless
// an op says otherwise. An op may be queued: it runs behind all that was given to the device's compute stream before, and
// its inputs stay valid until a fence of that stream is done.
// Called by model/. Errors of every op: DeviceLost; Io when a driver refuses the work. The host's never fail.
// Threads   one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/tensor_view.h"
#include "device/device.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/rows_copy.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Where products may put what they prepare, of ops_bytes().
struct ProductWorkspace {
  std::byte* input = nullptr;
  std::byte* panels = nullptr;
};

class Ops {
 public:
  Ops() = default;
  Ops(const Ops&) = delete;  // one for a place
  Ops& operator=(const Ops&) = delete;
  virtual ~Ops() = default;

  /// `table` and `ids` are the host's, wherever `out` is. Staging: as on_host(), of one row or more.
  [[nodiscard]] virtual Status embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale,
                                          std::span<std::byte> staging, float* out) = 0;
  [[nodiscard]] virtual Status rope_table(std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base, double factor,
                                          float* table) = 0;
  [[nodiscard]] virtual Status rms_norm(const float* x, const float* w, float eps, std::size_t rows, std::size_t cols, float* y) = 0;
  [[nodiscard]] virtual Status residual_rms_norm(float* x, const float* branch, const float* w_post, const float* w_next, float eps,
                                                 std::size_t rows, std::size_t cols, float* y) = 0;
  [[nodiscard]] virtual Status norm_rope(float* x, std::size_t x_stride, const float* w, float eps, const float* table,
                                         std::size_t rows, std::size_t heads, std::size_t head_dim) = 0;
  [[nodiscard]] virtual Status geglu(const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y) = 0;
  /// All products of one input. Shape: x [rows, cols] f32.
  [[nodiscard]] virtual Status products(const float* x, std::size_t rows, std::size_t cols, std::span<const MatmulProduct> products,
                                        const ProductWorkspace& workspace) = 0;
  [[nodiscard]] virtual Status kv_store(const float* k, const float* v, std::size_t stride, std::size_t first_pos, std::size_t rows,
                                        std::size_t kv_heads, std::size_t head_dim, const KvView& to) = 0;
  /// One side may be host memory.
  [[nodiscard]] virtual Status copy_rows(const RowsCopy& copy) = 0;
  [[nodiscard]] virtual Status attention(const AttentionShape& shape, const float* q, std::size_t q_stride, const KvView& past,
                                         const KvView& fresh, float* out, std::span<std::byte> workspace) = 0;
  /// Waits for what is queued; then `count` floats of `data` where the host can read them, until the next op.
  /// Staging  host memory that a card's copies go through, of so many floats; the host's ops need none.
  [[nodiscard]] virtual Result<const float*> on_host(const float* data, std::size_t count, std::span<std::byte> staging) = 0;
};

/// On the host, with `threads`, which outlive the set. Every op is done when it returns.
[[nodiscard]] std::unique_ptr<Ops> host_ops(ThreadPool& threads, Arithmetic arithmetic);
/// Where a device's memory is: its own kernels on a card, else host_ops(). `device`
/// outlives the set. Errors: Unsupported (no code for this card in this binary), DeviceLost.
[[nodiscard]] Result<std::unique_ptr<Ops>> ops_on(device::Device& device, ThreadPool& threads, Arithmetic arithmetic);

/// The largest step that a workspace is for.
struct OpsShape {
  Arithmetic arithmetic = Arithmetic::Exact;
  int threads = 1;
  std::size_t rows = 0;
  std::size_t max_cols = 0;  // of an input of a product
  std::size_t q_heads = 0;
  std::size_t head_dim = 0;
  std::size_t max_tokens = 0;  // of a conversation
};
/// Bytes of workspace, by its use.
struct OpsBytes {
  std::size_t input = 0;
  std::size_t panels = 0;
  std::size_t attention = 0;
};
[[nodiscard]] OpsBytes ops_bytes(device::Kind kind, const OpsShape& shape);

}  // namespace ebb::kernels
