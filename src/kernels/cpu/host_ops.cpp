#include <cstring>

#include "kernels/dequantize.h"
#include "kernels/geglu.h"
#include "kernels/ops.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace ebb::kernels {
namespace {

class HostOps final : public Ops {
 public:
  HostOps(ThreadPool& threads, Arithmetic arithmetic) : threads_(threads), arithmetic_(arithmetic) {}

  Status embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale, std::span<std::byte> /*staging*/,
                    float* out) override {
    kernels::embed_rows(table, ids, scale, out);
    return {};
  }
  Status rope_table(std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base, double factor,
                    float* table) override {
    kernels::rope_table(first_pos, rows, head_dim, base, factor, table);
    return {};
  }
  Status rms_norm(const float* x, const float* w, float eps, std::size_t rows, std::size_t cols, float* y) override {
    kernels::rms_norm(threads_, x, w, eps, rows, cols, y);
    return {};
  }
  Status residual_rms_norm(float* x, const float* branch, const float* w_post, const float* w_next, float eps, std::size_t rows,
                           std::size_t cols, float* y) override {
    kernels::residual_rms_norm(threads_, x, branch, w_post, w_next, eps, rows, cols, y);
    return {};
  }
  Status norm_rope(float* x, std::size_t x_stride, const float* w, float eps, const float* table, std::size_t rows,
                   std::size_t heads, std::size_t head_dim) override {
    kernels::norm_rope(threads_, x, x_stride, w, eps, table, rows, heads, head_dim);
    return {};
  }
  Status geglu(const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y) override {
    kernels::geglu(threads_, gate, up, rows, cols, y);
    return {};
  }
  Status products(const float* x, std::size_t rows, std::size_t cols, std::span<const MatmulProduct> products,
                  const ProductWorkspace& workspace) override {
    matmul(threads_, prepare_matmul_input(threads_, arithmetic_, x, rows, cols, workspace.input), products, workspace.panels);
    return {};
  }
  Status kv_store(const float* k, const float* v, std::size_t stride, std::size_t first_pos, std::size_t rows,
                  std::size_t kv_heads, std::size_t head_dim, const KvView& to) override {
    kernels::kv_store(threads_, k, v, stride, first_pos, rows, kv_heads, head_dim, to);
    return {};
  }
  Status copy_rows(const RowsCopy& copy) override {
    return for_each_piece(copy, [](std::byte* to, const std::byte* from, std::size_t bytes) -> Status {
      std::memcpy(to, from, bytes);
      return {};
    });
  }
  Status attention(const AttentionShape& shape, const float* q, std::size_t q_stride, const KvView& past, const KvView& fresh,
                   float* out, std::span<std::byte> workspace) override {
    kernels::attention(threads_, shape, q, q_stride, past, fresh, out, workspace.data());
    return {};
  }
  Result<const float*> on_host(const float* data, std::size_t /*count*/, std::span<std::byte> /*staging*/) override { return data; }

 private:
  ThreadPool& threads_;
  const Arithmetic arithmetic_;
};

}  // namespace

std::unique_ptr<Ops> host_ops(ThreadPool& threads, Arithmetic arithmetic) { return std::make_unique<HostOps>(threads, arithmetic); }

}  // namespace ebb::kernels
