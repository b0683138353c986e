// The ops of a forward pass as one set for each place where they can run: the host's threads now, a card's streams next.
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
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/rows_copy.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Where products may put what they prepare: matmul_input_bytes() and matmul_workspace_bytes().
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

  /// `table` and `ids` are the host's, wherever `out` is.
  [[nodiscard]] virtual Status embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale, float* out) = 0;
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
                                         const KvView& fresh, float* out, std::byte* workspace) = 0;
  /// Waits for what is queued; then `count` floats of `data` where the host can read them, until the next op.
  [[nodiscard]] virtual Result<const float*> on_host(const float* data, std::size_t count) = 0;
};

/// On the host, with `threads`, which outlive the set. Every op is done when it returns.
[[nodiscard]] std::unique_ptr<Ops> host_ops(ThreadPool& threads, Arithmetic arithmetic);

}  // namespace ebb::kernels
