#include "kernels/rows_copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/ops.h"
#include "support/must.h"

namespace ebb::kernels {
namespace {

using tests::must;

/// A layer's rows in runs of their own length, with a margin between them that nobody may write.
struct Layout {
  Layout(KvTypes types, std::size_t slots, std::size_t run_tokens, std::size_t heads, std::size_t head_dim) {
    const std::size_t k_head = run_tokens * kv_row_bytes(types.k, head_dim), v_head = run_tokens * kv_row_bytes(types.v, head_dim);
    view.types = types;
    view.slots = slots;
    view.run_tokens = run_tokens;
    view.run_stride_bytes = heads * (k_head + v_head) + 24;
    view.k_head_stride_bytes = k_head;
    view.v_head_stride_bytes = v_head;
    bytes.resize((slots + run_tokens - 1) / run_tokens * view.run_stride_bytes);
    view.k = bytes.data();
    view.v = bytes.data() + heads * k_head;
  }
  std::vector<std::byte> bytes;
  KvView view;
};

// Any two layouts, rings that wrap on either side: every row arrives, and no other byte changes.
TEST(RowsCopy, MovesExactlyTheRowsBetweenAnyLayouts) {
  std::mt19937 dice(11);
  ThreadPool threads(1);
  const std::unique_ptr<Ops> ops = host_ops(threads, Arithmetic::Exact);
  const auto pick = [&](std::size_t low, std::size_t high) { return low + dice() % (high - low + 1); };
  for (int round = 0; round < 500; ++round) {
    constexpr KvTypes kTypes[] = {{KvType::F16, KvType::F16}, {KvType::Q8_0, KvType::Q4_0}, {KvType::F32, KvType::BF16}};
    const KvTypes types = kTypes[dice() % 3];
    const std::size_t heads = pick(1, 3), head_dim = 32 * pick(1, 2);
    Layout from(types, pick(1, 70), pick(1, 32), heads, head_dim), to(types, pick(1, 70), pick(1, 32), heads, head_dim);
    for (std::byte& byte : from.bytes) byte = static_cast<std::byte>(dice());
    std::vector<std::byte> expected = to.bytes;
    const RowsCopy copy{from.view, to.view, pick(0, 200), pick(0, 200), pick(0, std::min(from.view.slots, to.view.slots)), heads, head_dim};
    for (std::size_t row = 0; row < copy.count; ++row) {
      for (std::size_t head = 0; head < heads; ++head) {
        const auto put = [&](std::byte* target, const std::byte* source, std::size_t count) {
          std::copy_n(source, count, expected.data() + (target - to.bytes.data()));
        };
        put(to.view.k + to.view.offset_k(head, copy.to_pos + row, head_dim),
            from.view.k + from.view.offset_k(head, copy.from_pos + row, head_dim), kv_row_bytes(types.k, head_dim));
        put(to.view.v + to.view.offset_v(head, copy.to_pos + row, head_dim),
            from.view.v + from.view.offset_v(head, copy.from_pos + row, head_dim), kv_row_bytes(types.v, head_dim));
      }
    }
    must(ops->copy_rows(copy));
    ASSERT_EQ(to.bytes, expected) << round;
  }
}

// Rows that lie side by side in both go in one piece, so that a card is not asked row by row.
TEST(RowsCopy, NeighboursAreOnePiece) {
  const Layout from({}, 128, 32, 2, 64);
  Layout to({}, 128, 32, 2, 64);
  std::size_t pieces = 0;
  must(for_each_piece({from.view, to.view, 32, 64, 64, 2, 64}, [&](std::byte*, const std::byte*, std::size_t bytes) -> Status {
    EXPECT_EQ(bytes, 32 * kv_row_bytes(KvType::F16, 64));
    ++pieces;
    return {};
  }));
  EXPECT_EQ(pieces, 8U);  // two runs, two heads, K and V
}

}  // namespace
}  // namespace ebb::kernels
