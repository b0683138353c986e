#include "kernels/cuda/cuda_ops.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/geglu.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/matvec.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/dequantize.h"

namespace ebb::kernels::cuda {
namespace {

constexpr device::Stream kStream = device::Stream::Compute;

struct Kernels {
  RmsNorm norm;
  Rope rope;
  Geglu geglu;
  Matvec matvec;
  Matmul matmul;
  KvRows rows;
  Attention attention;
};

Result<Kernels> find_kernels(const LoadedCode& code) {
  EBB_TRY_ASSIGN(RmsNorm norm, RmsNorm::find(code));
  EBB_TRY_ASSIGN(Rope rope, Rope::find(code));
  EBB_TRY_ASSIGN(Geglu geglu, Geglu::find(code));
  EBB_TRY_ASSIGN(Matvec matvec, Matvec::find(code));
  EBB_TRY_ASSIGN(Matmul matmul, Matmul::find(code));
  EBB_TRY_ASSIGN(KvRows rows, KvRows::find(code));
  EBB_TRY_ASSIGN(Attention attention, Attention::find(code));
  return Kernels{norm, rope, geglu, matvec, matmul, rows, attention};
}

class CudaOps final : public Ops {
 public:
  CudaOps(device::CudaDevice& device, Arithmetic arithmetic, std::unique_ptr<LoadedCode> code, const Kernels& kernels)
      : device_(device), arithmetic_(arithmetic), code_(std::move(code)), kernels_(kernels) {}

  Status embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale, std::span<std::byte> staging,
                    float* out) override {
    const std::size_t row_bytes = table.cols * sizeof(float);
    const std::size_t rows_at_once = staging.size() / row_bytes;
    EBB_CHECK(rows_at_once > 0, "{} bytes of staging for rows of {}", staging.size(), row_bytes);
    for (std::size_t row = 0; row < ids.size(); row += rows_at_once) {
      const auto some = ids.subspan(row, std::min(rows_at_once, ids.size() - row));
      EBB_TRY(settle());  // what was copied from the staging before
      kernels::embed_rows(table, some, scale, reinterpret_cast<float*>(staging.data()));
      EBB_TRY(device_.copy(kStream, out + row * table.cols, staging.data(), some.size() * row_bytes));
    }
    return {};
  }
  Status rope_table(std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base, double factor,
                    float* table) override {
    return kernels_.rope.fill_table(kStream, first_pos, rows, head_dim, base, factor, table);
  }
  Status rms_norm(const float* x, const float* w, float eps, std::size_t rows, std::size_t cols, float* y) override {
    return kernels_.norm.run(kStream, x, w, eps, rows, cols, y);
  }
  Status residual_rms_norm(float* x, const float* branch, const float* w_post, const float* w_next, float eps, std::size_t rows,
                           std::size_t cols, float* y) override {
    return kernels_.norm.run_residual(kStream, x, branch, w_post, w_next, eps, rows, cols, y);
  }
  Status norm_rope(float* x, std::size_t x_stride, const float* w, float eps, const float* table, std::size_t rows,
                   std::size_t heads, std::size_t head_dim) override {
    return kernels_.rope.norm_rope(kStream, x, x_stride, w, eps, table, rows, heads, head_dim);
  }
  Status geglu(const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y) override {
    return kernels_.geglu.run(kStream, gate, up, rows, cols, y);
  }
  Status products(const float* x, std::size_t rows, std::size_t cols, std::span<const MatmulProduct> products,
                  const ProductWorkspace& /*workspace*/) override {
    return rows <= kMatvecMaxRows ? kernels_.matvec.run(kStream, arithmetic_, x, rows, cols, products)
                                  : kernels_.matmul.run(kStream, arithmetic_, x, rows, cols, products);
  }
  Status kv_store(const float* k, const float* v, std::size_t stride, std::size_t first_pos, std::size_t rows,
                  std::size_t kv_heads, std::size_t head_dim, const KvView& to) override {
    return kernels_.rows.store(kStream, k, v, stride, first_pos, rows, kv_heads, head_dim, to);
  }
  // One side is the host's, which a kernel could not touch.
  Status copy_rows(const RowsCopy& copy) override {
    return for_each_piece(copy, [this](std::byte* to, const std::byte* from, std::size_t bytes) {
      return device_.copy(kStream, to, from, bytes);
    });
  }
  Status attention(const AttentionShape& shape, const float* q, std::size_t q_stride, const KvView& past, const KvView& fresh,
                   float* out, std::span<std::byte> workspace) override {
    return kernels_.attention.run(kStream, shape, q, q_stride, past, fresh, out, workspace.data(), workspace.size());
  }
  Result<const float*> on_host(const float* data, std::size_t count, std::span<std::byte> staging) override {
    EBB_CHECK(count * sizeof(float) <= staging.size(), "{} floats in {} bytes of staging", count, staging.size());
    EBB_TRY(device_.copy(kStream, staging.data(), data, count * sizeof(float)));
    EBB_TRY(settle());
    return reinterpret_cast<const float*>(staging.data());
  }

 private:
  [[nodiscard]] Status settle() {
    EBB_TRY_ASSIGN(const device::Fence fence, device_.fence(kStream));
    return device_.wait(fence);
  }

  device::CudaDevice& device_;
  const Arithmetic arithmetic_;
  const std::unique_ptr<LoadedCode> code_;
  const Kernels kernels_;
};

}  // namespace

Result<std::unique_ptr<Ops>> card_ops(device::CudaDevice& device, Arithmetic arithmetic) {
  EBB_TRY_ASSIGN(std::unique_ptr<LoadedCode> code, LoadedCode::load(device));
  EBB_TRY_ASSIGN(Kernels kernels, find_kernels(*code));
  return std::make_unique<CudaOps>(device, arithmetic, std::move(code), kernels);
}

}  // namespace ebb::kernels::cuda
