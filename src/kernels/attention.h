// Attention of query rows over one layer's keys and values, with or without a sliding window, in one pass (flash style:
// running maximum and sum, float32). A query's result depends on its own position and the keys it sees alone, bit for
// bit, however the tokens were batched: key tiles start at absolute positions that are multiples of the tile (decision 0007).
// Source    Dao et al. 2022 (online softmax); window as Gemma 3: key j is visible to query i iff j <= i and i - j < window.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/thread_pool.h"

namespace ebb::kernels {

enum class KvType : std::uint8_t { F32, F16, BF16, Q8_0, Q4_0 };

/// Types of one layer's keys and values.
struct KvTypes {
  KvType k = KvType::F16;
  KvType v = KvType::F16;
  friend bool operator==(const KvTypes&, const KvTypes&) = default;
};

/// Elements that share a scale in Q8_0 and Q4_0: a row is a whole number of such blocks.
constexpr std::size_t kKvBlock = 32;

/// One head of one position. Q8_0 and Q4_0 are the block formats of GGUF weights: a half as scale, then 32 bytes or 16.
[[nodiscard]] constexpr std::size_t kv_row_bytes(KvType type, std::size_t head_dim) {
  switch (type) {
    case KvType::F32:
      return head_dim * 4;
    case KvType::F16:
    case KvType::BF16:
      return head_dim * 2;
    case KvType::Q8_0:
      return head_dim / kKvBlock * 34;
    case KvType::Q4_0:
      return head_dim / kKvBlock * 18;
  }
  return 0;
}

/// Whether kv_store and attention work with these types at this head size: any pair of types, head_dim a multiple of 8
/// (of kKvBlock where a type has blocks) and at most 256.
[[nodiscard]] bool kv_supported(KvTypes types, std::size_t head_dim);

/// One layer's K or V for a range of positions, as somebody laid it out. A position's slot is pos % slots; slots come in
/// runs of run_tokens: the row (head, pos) of K is at
///   k + (slot / run_tokens) * run_stride_bytes + head * k_head_stride_bytes + (slot % run_tokens) * kv_row_bytes(types.k).
struct KvView {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  KvTypes types;
  std::size_t slots = 0;  // capacity in tokens: the window for a ring, the context for a growing range
  std::size_t run_tokens = 0;
  std::size_t run_stride_bytes = 0;
  std::size_t k_head_stride_bytes = 0;
  std::size_t v_head_stride_bytes = 0;

  [[nodiscard]] std::size_t offset_k(std::size_t head, std::size_t pos, std::size_t head_dim) const {
    return offset(head * k_head_stride_bytes, pos, kv_row_bytes(types.k, head_dim));
  }
  [[nodiscard]] std::size_t offset_v(std::size_t head, std::size_t pos, std::size_t head_dim) const {
    return offset(head * v_head_stride_bytes, pos, kv_row_bytes(types.v, head_dim));
  }

 private:
  [[nodiscard]] std::size_t offset(std::size_t head_offset, std::size_t pos, std::size_t row_bytes) const {
    const std::size_t slot = pos % slots;
    return slot / run_tokens * run_stride_bytes + head_offset + slot % run_tokens * row_bytes;
  }
};

/// Rounds k and v to the view's types and writes them at positions first_pos .. first_pos + rows - 1. f16 saturates at
/// its largest finite value. When rows > slots only the last `slots` rows are written.
/// Shape   k, v [rows, stride] f32, the first kv_heads * head_dim columns used.
void kv_store(ThreadPool& threads, const float* k, const float* v, std::size_t stride, std::size_t first_pos, std::size_t rows,
              std::size_t kv_heads, std::size_t head_dim, const KvView& to);

struct AttentionShape {
  std::size_t first_pos = 0;  // position of the first query row
  std::size_t rows = 0;
  std::size_t q_heads = 0;
  std::size_t kv_heads = 0;  // query head h reads kv head h / (q_heads / kv_heads); at most 264 share one
  std::size_t head_dim = 0;  // as kv_supported says
  std::size_t window = 0;    // keys a query sees, itself included; 0 = all
  float scale = 1;
};

/// Bytes of workspace for any call of at most these sizes.
[[nodiscard]] std::size_t attention_workspace_bytes(int thread_count, std::size_t rows, std::size_t q_heads, std::size_t head_dim);

/// Shape   q [rows, q_stride] f32 (q_heads * head_dim columns used), out [rows, q_heads * head_dim] f32.
///         past holds positions before first_pos (as far back as the window asks), fresh those of the rows themselves:
///         two places, so that a ring may keep exactly `window` slots while a chunk passes. Both of the same KvTypes.
void attention(ThreadPool& threads, const AttentionShape& shape, const float* q, std::size_t q_stride, const KvView& past,
               const KvView& fresh, float* out, std::byte* workspace);

}  // namespace ebb::kernels
