// Panels of any type and of any number of rows: the fast unpackers where they apply, the scalar decoder elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/integer_block.h"
#include "kernels/cpu/internal/matmul_kernels.h"
#include "kernels/cpu/internal/sinks.h"
#include "kernels/cpu/internal/unpack.h"

namespace ebb::kernels {
namespace {

/// Rows with the scalar decoder: types without a fast unpacker, and the last rows of a matrix. Absent rows become
/// zeros.
inline void unpack_slowly(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t block_count,
                          PanelWorkspace& to, std::size_t panel) {
  for (std::size_t r = 0; r < kPanelRows; ++r) {
    IntegerBlock block{};
    std::size_t c = 0;
    for (std::size_t b = 0; b < block_count; ++b) {
      if (r < row_count) decode_block(job.dtype, rows + r * job.w_row_bytes + b * job.block_bytes, block);
      for (std::size_t i = 0; i < job.block_values; i += 4, c += 4) {
        for (std::size_t pair = 0; pair < 2; ++pair) {
          const auto low = static_cast<std::uint16_t>(block.q[i + pair]);
          const auto high = static_cast<std::uint16_t>(block.q[i + pair + 2]);
          to.pairs[panel][(c / 2 + pair) * kPanelRows + r] = static_cast<std::int32_t>(low | std::uint32_t{high} << 16);
        }
      }
      for (std::size_t k = 0; k < job.block_values / 32; ++k) {
        to.scales[panel][(b * (job.block_values / 32) + k) * kPanelRows + r] = block.scale[k];
      }
      if (job.offset_values == 0) continue;
      const std::size_t per_block = job.block_values / job.offset_values;
      for (std::size_t k = 0; k < per_block; ++k) {
        to.offsets[panel][(b * per_block + k) * kPanelRows + r] = block.offset[k];
      }
    }
  }
}

/// `rows`: the first row's blocks at the chunk's first column.
template <class Lanes>
void unpack_integers(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t cols,
                     PanelWorkspace& to, std::size_t panel) {
  const std::size_t block_count = cols / job.block_values;
  PanelSink<Lanes> sink{to.pairs[panel], to.scales[panel], to.offsets[panel]};
  if (row_count == kPanelRows && Unpack<Lanes>::blocks(job.dtype, rows, job.w_row_bytes, block_count, sink)) return;
  unpack_slowly(job, rows, row_count, block_count, to, panel);
}

/// F32, F16 and BF16, a column at a time: the last rows and columns of a matrix.
template <class Lanes, class Sink>
void unpack_floats_slowly(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t first_col,
                          std::size_t cols, Sink& sink) {
  for (std::size_t c = first_col; c < cols; ++c) {
    alignas(64) std::int32_t lanes[kPanelRows] = {};
    for (std::size_t r = 0; r < row_count; ++r) {
      const std::byte* at = rows + r * job.w_row_bytes + c * job.block_bytes;
      lanes[r] = job.dtype == DType::F32 ? read_at<std::int32_t>(at) : read_at<std::uint16_t>(at);
    }
    const auto bits = Lanes::load(lanes);
    sink.column(c, job.dtype == DType::F32   ? Lanes::as_floats(bits)
                   : job.dtype == DType::F16 ? Lanes::half_to_floats(bits)
                                             : Lanes::as_floats(Lanes::template shift_left<16>(bits)));
  }
}

/// F32, F16, BF16: calls sink.column(c, sixteen rows) in rising order, and sink.end_words() after each 16 bytes a row.
template <class Lanes, DType kType, class Sink>
void unpack_floats_as(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t cols,
                      Sink& sink) {
  constexpr std::size_t kPerWord = kType == DType::F32 ? 1 : 2;
  std::size_t c = 0;
  for (; row_count == kPanelRows && c + 4 * kPerWord <= cols; c += 4 * kPerWord) {
    typename Lanes::Ints words[4];
    Lanes::load_words(rows + c * 4 / kPerWord, job.w_row_bytes, words);
    EBB_UNROLL for (std::size_t w = 0; w < 4; ++w) {
      if constexpr (kType == DType::F32) {
        sink.column(c + w, Lanes::as_floats(words[w]));
      } else if constexpr (kType == DType::F16) {
        sink.column(c + 2 * w, Lanes::half_to_floats(words[w]));
        sink.column(c + 2 * w + 1, Lanes::half_to_floats(Lanes::template shift_right<16>(words[w])));
      } else {
        const auto high = Lanes::broadcast(static_cast<std::int32_t>(0xffff0000u));
        sink.column(c + 2 * w, Lanes::as_floats(Lanes::template shift_left<16>(words[w])));
        sink.column(c + 2 * w + 1, Lanes::as_floats(Lanes::bit_and(words[w], high)));
      }
    }
    sink.end_words();
  }
  unpack_floats_slowly<Lanes>(job, rows, row_count, c, cols, sink);
}

template <class Lanes, class Sink>
void unpack_floats(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t cols, Sink& sink) {
  switch (job.dtype) {
    case DType::F32:
      return unpack_floats_as<Lanes, DType::F32>(job, rows, row_count, cols, sink);
    case DType::F16:
      return unpack_floats_as<Lanes, DType::F16>(job, rows, row_count, cols, sink);
    default:
      return unpack_floats_as<Lanes, DType::BF16>(job, rows, row_count, cols, sink);
  }
}

/// An integer panel to [cols][16 rows] f32: exactly the values that dequantize_row gives.
template <class Lanes, bool kOffsets>
void floats_from_integers_as(const MatmulJob& job, const PanelWorkspace& from, std::size_t panel, std::size_t cols,
                             float* to) {
  using Ints = typename Lanes::Ints;
  using Floats = typename Lanes::Floats;
  const std::size_t halves_per_offset = kOffsets ? job.offset_values / 16 : 1;
  for (std::size_t half = 0; half < cols / 16; ++half) {
    const Floats scale = Lanes::load(from.scales[panel] + half / 2 * kPanelRows);
    const Floats offset = kOffsets ? Lanes::load(from.offsets[panel] + half / halves_per_offset * kPanelRows) : scale;
    const auto value = [&](const Ints& integer) EBB_INLINE_LAMBDA {
      const Floats scaled = Lanes::mul(Lanes::to_floats(integer), scale);
      return kOffsets ? Lanes::fma(scaled, Lanes::broadcast(1.0F), offset) : scaled;
    };
    EBB_UNROLL for (std::size_t pair = 0; pair < 8; ++pair) {
      const Ints ints = Lanes::load(from.pairs[panel] + (half * 8 + pair) * kPanelRows);
      float* first = to + (half * 16 + pair / 2 * 4 + pair % 2) * kPanelRows;  // pair order: columns c and c + 2
      Lanes::store(first, value(Lanes::template shift_right_signed<16>(Lanes::template shift_left<16>(ints))));
      Lanes::store(first + 2 * kPanelRows, value(Lanes::template shift_right_signed<16>(ints)));
    }
  }
}

template <class Lanes>
void floats_from_integers(const MatmulJob& job, const PanelWorkspace& from, std::size_t panel, std::size_t cols,
                          float* to) {
  if (job.offset_values == 0) return floats_from_integers_as<Lanes, false>(job, from, panel, cols, to);
  floats_from_integers_as<Lanes, true>(job, from, panel, cols, to);
}

}  // namespace
}  // namespace ebb::kernels
