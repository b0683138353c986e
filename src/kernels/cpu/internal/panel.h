// One job of matmul for one instruction set: chunk by chunk unpack a panel or two, then run tiles of tokens over it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/tile.h"
#include "kernels/cpu/internal/unpack_any.h"

namespace ebb::kernels {
namespace {

template <class Lanes>
struct Panel {
  /// Offsets meet the sums of the activations they cover: a small float product on top of the integer one.
  template <std::size_t kPanels>
  static void add_offsets(const MatmulJob& job, std::size_t first_col, std::size_t cols, const TileOut& out) {
    const std::byte* sums = job.quantized + job.sums_at + first_col / job.offset_values * 4;
    for_each_tile<Lanes::kTileTokens>(job.token_count, [&](std::size_t t, auto width) {
      const FloatTile in{job.workspace->offsets[0], std::size(job.workspace->offsets[0]), sums + t * job.quantized_row_bytes,
                         job.quantized_row_bytes, cols / job.offset_values};
      float_tile<Lanes, kPanels, decltype(width)::kTokens>(in, {out.y + t * out.stride, out.stride, true});
    });
  }

  template <std::size_t kPanels>
  static void integer_panels(const MatmulJob& job, const std::byte* rows, std::size_t row_count, float* y, std::size_t y_stride) {
    PanelWorkspace& ws = *job.workspace;
    for (std::size_t first_col = 0; first_col < job.cols; first_col += kChunkCols) {
      const std::size_t cols = job.cols - first_col < kChunkCols ? job.cols - first_col : kChunkCols;
      const std::byte* blocks = rows + first_col / job.block_values * job.block_bytes;
      for (std::size_t i = 0; i < kPanels; ++i) {
        unpack_integers<Lanes>(job, blocks + i * kPanelRows * job.w_row_bytes, row_count, cols, ws, i);
      }
      const TilePanels panels{ws.pairs[0], std::size(ws.pairs[0]), ws.scales[0], std::size(ws.scales[0])};
      const TileOut out{y, y_stride, first_col != 0};
      for_each_tile<Lanes::kTileTokens>(job.token_count, [&](std::size_t t, auto width) {
        const std::byte* x = job.quantized + t * job.quantized_row_bytes;
        const TileRows x_rows{x + first_col * 2, x + job.scales_at + first_col / kQuantizedBlock * 4, job.quantized_row_bytes};
        integer_tile<Lanes, kPanels, decltype(width)::kTokens>(panels, x_rows, cols / kQuantizedBlock,
                                                               {out.y + t * out.stride, out.stride, out.accumulate});
      });
      if (job.offset_values != 0) add_offsets<kPanels>(job, first_col, cols, out);
    }
  }

  template <std::size_t kPanels>
  static void float_panels(const MatmulJob& job, const std::byte* rows, std::size_t row_count, float* y, std::size_t y_stride) {
    PanelWorkspace& ws = *job.workspace;
    const bool plain = job.block_values == 1;
    for (std::size_t first_col = 0; first_col < job.cols; first_col += kFloatChunkCols) {
      const std::size_t cols = job.cols - first_col < kFloatChunkCols ? job.cols - first_col : kFloatChunkCols;
      for (std::size_t i = 0; i < kPanels; ++i) {
        const std::byte* blocks = rows + i * kPanelRows * job.w_row_bytes + first_col / job.block_values * job.block_bytes;
        if (plain) {
          unpack_floats<Lanes>(job, blocks, row_count, cols, ws.floats[i]);
        } else {
          unpack_integers<Lanes>(job, blocks, row_count, cols, ws, i);
          floats_from_integers<Lanes>(job, ws, i, cols, ws.floats[i]);
        }
      }
      for_each_tile<Lanes::kTileTokens>(job.token_count, [&](std::size_t t, auto width) {
        const auto* x = reinterpret_cast<const std::byte*>(job.x + t * job.cols + first_col);
        float_tile<Lanes, kPanels, decltype(width)::kTokens>(
            {ws.floats[0], std::size(ws.floats[0]), x, job.cols * sizeof(float), cols},
            {y + t * y_stride, y_stride, first_col != 0});
      });
    }
  }

  template <std::size_t kPanels>
  static void panels(const MatmulJob& job, const std::byte* rows, std::size_t row_count, float* y, std::size_t y_stride) {
    if (job.quantized != nullptr) {
      integer_panels<kPanels>(job, rows, row_count, y, y_stride);
    } else {
      float_panels<kPanels>(job, rows, row_count, y, y_stride);
    }
  }

  /// How far ahead of one token's products weights are asked for: 4 x 16 rows measured best (docs/decisions/0006).
  static constexpr std::size_t kPanelsAhead = 4;

  /// One token and sixteen rows of a type with a fast unpacker; false: nothing was done.
  static bool dot(const MatmulJob& job, const std::byte* rows, float* y) {
    DotSink<Lanes> sink{job.digits,
                        job.digit_sums,
                        job.quantized + job.scales_at,
                        job.workspace->offsets[0],
                        rows + kPanelsAhead * kPanelRows * job.w_row_bytes,
                        job.block_bytes * kPanelRows * kQuantizedBlock / job.block_values};
    for (std::size_t first_col = 0; first_col < job.cols; first_col += kChunkCols) {
      const std::size_t cols = job.cols - first_col < kChunkCols ? job.cols - first_col : kChunkCols;
      const std::byte* blocks = rows + first_col / job.block_values * job.block_bytes;
      if (!Unpack<Lanes>::blocks(job.dtype, blocks, job.w_row_bytes, cols / job.block_values, sink)) return false;
      if (job.offset_values == 0) continue;
      const std::byte* sums = job.quantized + job.sums_at + first_col / job.offset_values * 4;
      for (std::size_t o = 0; o < cols / job.offset_values; ++o) {
        const auto offset = Lanes::load(job.workspace->offsets[0] + o * kPanelRows);
        sink.sum = Lanes::fma(offset, Lanes::broadcast(read_at<float>(sums + o * 4)), sink.sum);
      }
    }
    Lanes::store(y, sink.sum);
    return true;
  }

  /// Fewer than sixteen rows: whole lanes go to the workspace, and from there the columns that exist.
  static void last_rows(const MatmulJob& job, const std::byte* rows, std::size_t row_count, float* y) {
    float* partial = job.workspace->partial;
    panels<1>(job, rows, row_count, partial, kPanelRows);
    for (std::size_t t = 0; t < job.token_count; ++t) {
      for (std::size_t r = 0; r < row_count; ++r) y[t * job.y_stride + r] = partial[t * kPanelRows + r];
    }
  }

  static void run(const MatmulJob& job) {
    std::size_t row = 0;
    const auto rows_at = [&] { return job.w + row * job.w_row_bytes; };
    if constexpr (Lanes::kByteDot) {
      while (job.digits != nullptr && row + kPanelRows <= job.row_count && dot(job, rows_at(), job.y + row)) row += kPanelRows;
    }
    constexpr std::size_t kTileRows = Lanes::kTilePanels * kPanelRows;
    for (; row + kTileRows <= job.row_count; row += kTileRows) {
      panels<Lanes::kTilePanels>(job, rows_at(), kPanelRows, job.y + row, job.y_stride);
    }
    for (; row + kPanelRows <= job.row_count; row += kPanelRows) panels<1>(job, rows_at(), kPanelRows, job.y + row, job.y_stride);
    if (row < job.row_count) last_rows(job, rows_at(), job.row_count - row, job.y + row);
  }
};

}  // namespace
}  // namespace ebb::kernels
