// Keys and values of one layer in memory of their own, with a layout that has runs and padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/attention.h"

namespace ebb::kernels {

class KvMemory {
 public:
  /// `run_tokens` slots of one head lie together; the bytes start as garbage (0xfe: huge floats), as recycled pages do.
  KvMemory(KvTypes types, std::size_t slots, std::size_t run_tokens, std::size_t kv_heads, std::size_t head_dim) {
    view_.types = types;
    view_.slots = slots;
    view_.run_tokens = run_tokens;
    view_.k_head_stride_bytes = run_tokens * kv_row_bytes(types.k, head_dim);
    view_.v_head_stride_bytes = run_tokens * kv_row_bytes(types.v, head_dim);
    view_.run_stride_bytes = kv_heads * std::max(view_.k_head_stride_bytes, view_.v_head_stride_bytes) + 64;
    const std::size_t bytes = (slots + run_tokens - 1) / run_tokens * view_.run_stride_bytes;
    k_.assign(bytes, std::byte{0xfe});
    v_.assign(bytes, std::byte{0xfe});
    view_.k = k_.data();
    view_.v = v_.data();
  }
  [[nodiscard]] const KvView& view() const { return view_; }

 private:
  std::vector<std::byte> k_;
  std::vector<std::byte> v_;
  KvView view_;
};

}  // namespace ebb::kernels
