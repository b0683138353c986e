// Rows of keys and values from one layout to another: which stretches lie side by side in both.
// Called by the ops that copy rows and by whoever copies them through a device.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "kernels/attention.h"

namespace ebb::kernels {

/// Rows of K and V of `count` positions, from one view to another of equal types.
struct RowsCopy {
  KvView from;
  KvView to;
  std::size_t from_pos = 0;
  std::size_t to_pos = 0;
  std::size_t count = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
};

/// Rows from position `pos` on that follow each other in memory.
[[nodiscard]] inline std::size_t rows_in_line(const KvView& view, std::size_t pos) {
  const std::size_t slot = pos % view.slots;
  return std::min(view.slots - slot, view.run_tokens - slot % view.run_tokens);
}

/// Status piece(std::byte* to, const std::byte* from, std::size_t bytes), until one fails; K before V, head by head.
template <typename Piece>
[[nodiscard]] Status for_each_piece(const RowsCopy& copy, const Piece& piece) {
  for (std::size_t done = 0; done < copy.count;) {
    const std::size_t from_pos = copy.from_pos + done, to_pos = copy.to_pos + done;
    const std::size_t rows = std::min({copy.count - done, rows_in_line(copy.from, from_pos), rows_in_line(copy.to, to_pos)});
    for (std::size_t head = 0; head < copy.kv_heads; ++head) {
      EBB_TRY(piece(copy.to.k + copy.to.offset_k(head, to_pos, copy.head_dim),
                    copy.from.k + copy.from.offset_k(head, from_pos, copy.head_dim),
                    rows * kv_row_bytes(copy.to.types.k, copy.head_dim)));
      EBB_TRY(piece(copy.to.v + copy.to.offset_v(head, to_pos, copy.head_dim),
                    copy.from.v + copy.from.offset_v(head, from_pos, copy.head_dim),
                    rows * kv_row_bytes(copy.to.types.v, copy.head_dim)));
    }
    done += rows;
  }
  return {};
}

}  // namespace ebb::kernels
