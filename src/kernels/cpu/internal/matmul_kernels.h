// What one instruction set offers matmul, and the layouts that all of them share. kernels/cpu/matmul.cpp splits the work
// and picks the table; kernels/cpu/matmul_<level>.cpp fill it, all from the same templates (tile.h, unpack.h, panel.h).
//
// Panel        the weights of 16 rows, one row a lane, over at most kChunkCols columns.
// Pair order   int16 values stand in pairs that one 32-bit lane holds: inside each four columns 4j .. 4j+3 the pairs are
//              (4j, 4j+2) and (4j+1, 4j+3). Splitting the bytes of a 32-bit word by shifts gives exactly that, for
//              8-bit and 4-bit types alike, so packed bytes are transposed while they are still small.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/internal/simd.h"
#include "kernels/matmul.h"

namespace ebb::kernels {

inline constexpr std::size_t kPanelRows = 16;
inline constexpr std::size_t kQuantizedBlock = 32;  // activations that share one scale
inline constexpr std::size_t kMaxTilePanels = 2;
inline constexpr std::size_t kMaxTokenBlock = 256;  // tokens of one job; their partial rows fit in workspace

/// Columns unpacked at a time: two int16 panels are 32 KiB and stay in the first-level cache beside a tile of activations.
/// Chunks start at multiples of it, which is part of the order of summation.
inline constexpr std::size_t kChunkCols = 512;
inline constexpr std::size_t kFloatChunkCols = 256;  // the same for panels of float32

/// Largest activation integer: 32 products with a weight of up to 4096 (Q6_K with its scale folded in) stay below 2^31.
inline constexpr int kMaxActivation = 16383;
static_assert(std::int64_t{kMaxActivation} * 4096 * kQuantizedBlock <= INT32_MAX);

/// One quantised row: int16 values in pair order, then for each block of 32 the scale, the sum (scale times the sum of its
/// integers), and the same sums for each 16. Columns are padded with zeros to a whole block.
/// A lone row has besides, for the product of one token: its integers as digits of 8 bits, q = 256 high + low, for each
/// block low [32] and high [32]; and int32 sums of the integers, one for each 16.
struct QuantizedLayout {
  explicit constexpr QuantizedLayout(std::size_t cols)
      : blocks((cols + kQuantizedBlock - 1) / kQuantizedBlock),
        scales_at(blocks * kQuantizedBlock * 2),
        sums32_at(scales_at + blocks * 4),
        sums16_at(sums32_at + blocks * 4),
        // An odd number of cache lines: rows of a tile do not meet in one cache set.
        row_bytes(((sums16_at + blocks * 8 + 63) / 64 | 1) * 64),
        digits_at(row_bytes),
        digit_sums_at(digits_at + blocks * 64),
        lone_row_bytes(digit_sums_at + blocks * 8) {}

  std::size_t blocks;
  std::size_t scales_at;  // byte offsets from the row's start
  std::size_t sums32_at;
  std::size_t sums16_at;
  std::size_t row_bytes;
  std::size_t digits_at;
  std::size_t digit_sums_at;
  std::size_t lone_row_bytes;
};

/// Pointers into one such row.
struct QuantizedRow {
  std::int32_t* pairs;
  float* scales;
  float* sums32;
  float* sums16;
  std::byte* digits;  // null: one row of several
  std::int32_t* digit_sums;
  std::size_t block_count;
};

/// One thread's workspace.
struct PanelWorkspace {
  alignas(64) std::int32_t pairs[kMaxTilePanels][kChunkCols / 2 * kPanelRows];
  alignas(64) float scales[kMaxTilePanels][kChunkCols / kQuantizedBlock * kPanelRows];
  alignas(64) float offsets[kMaxTilePanels][kChunkCols / 16 * kPanelRows];
  alignas(64) float floats[kMaxTilePanels][kFloatChunkCols * kPanelRows];
  alignas(64) float partial[kMaxTokenBlock * kPanelRows];  // y of a panel with fewer than 16 rows
};

/// Some rows of one product for some tokens. Plain numbers only: files built for an instruction set must not instantiate
/// inline functions that other files share.
struct MatmulJob {
  DType dtype = DType::F32;
  std::size_t block_values = 1;  // of the dtype
  std::size_t block_bytes = 4;
  const std::byte* w = nullptr;  // the first row's blocks
  std::size_t w_row_bytes = 0;
  std::size_t row_count = 0;
  std::size_t cols = 0;
  std::size_t offset_values = 0;  // of the dtype (integer_block.h)
  std::size_t token_count = 0;    // at most kMaxTokenBlock
  const float* x = nullptr;       // the first token's row [token_count, cols]
  const std::byte* quantized = nullptr;  // the first token's quantised row; null: float32 arithmetic
  std::size_t quantized_row_bytes = 0;
  std::size_t scales_at = 0;  // as QuantizedLayout
  std::size_t sums_at = 0;    // those for offset_values
  const std::byte* digits = nullptr;  // null: several rows
  const std::byte* digit_sums = nullptr;
  float* y = nullptr;         // the first row of the first token
  std::size_t y_stride = 0;   // floats
  PanelWorkspace* workspace = nullptr;
};

struct MatmulKernels {
  /// x [cols] f32 to one row of QuantizedLayout.
  void (*quantize_row)(const float* x, std::size_t cols, const QuantizedRow& to);
  void (*run)(const MatmulJob& job);
};

[[nodiscard]] const MatmulKernels& portable_matmul_kernels();
[[nodiscard]] const MatmulKernels& avx2_matmul_kernels();
[[nodiscard]] const MatmulKernels& avx512_matmul_kernels();

}  // namespace ebb::kernels
