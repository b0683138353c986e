#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/internal/split_rows.h"
#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {
namespace {

void store_row(const VectorKernels& vector, KvType type, const float* from, std::size_t count, std::byte* to) {
  switch (type) {
    case KvType::F32:
      std::memcpy(to, from, count * sizeof(float));
      break;
    case KvType::F16:
      vector.store_f16(from, count, reinterpret_cast<std::uint16_t*>(to));
      break;
    case KvType::BF16:
      vector.store_bf16(from, count, reinterpret_cast<std::uint16_t*>(to));
      break;
    case KvType::Q8_0:
      vector.store_q8_0(from, count, to);
      break;
    case KvType::Q4_0:
      vector.store_q4_0(from, count, to);
      break;
  }
}

}  // namespace

void kv_store(ThreadPool& threads, const float* k, const float* v, std::size_t stride, std::size_t first_pos,
              std::size_t rows, std::size_t kv_heads, std::size_t head_dim, const KvView& to) {
  EBB_CHECK(kv_supported(to.types, head_dim), "no kernel for these KV types with head_dim {}", head_dim);
  const VectorKernels& vector = vector_kernels(simd_level());
  const std::size_t skipped = rows - std::min(rows, to.slots);
  split_rows(threads, rows - skipped, 2 * kv_heads * head_dim, [&](std::size_t first, std::size_t last) {
    for (std::size_t row_idx = skipped + first; row_idx < skipped + last; ++row_idx) {
      for (std::size_t head_idx = 0; head_idx < kv_heads; ++head_idx) {
        const std::size_t from = row_idx * stride + head_idx * head_dim;
        const std::size_t pos = first_pos + row_idx;
        store_row(vector, to.types.k, k + from, head_dim, to.k + to.offset_k(head_idx, pos, head_dim));
        store_row(vector, to.types.v, v + from, head_dim, to.v + to.offset_v(head_idx, pos, head_dim));
      }
    }
  });
}

}  // namespace ebb::kernels
