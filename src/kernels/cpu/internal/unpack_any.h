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

/// Rows with the scalar decoder: types without a fast unpacker, and the last rows of a matrix. Absent rows become zeros.
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
template <class Lanes>
void unpack_floats_slowly(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t first_col,
                          std::size_t cols, float* to) {
  for (std::size_t c = first_col; c < cols; ++c) {
    alignas(64) std::int32_t lanes[kPanelRows] = {};
    for (std::size_t r = 0; r < row_count; ++r) {
      const std::byte* at = rows + r * job.w_row_bytes + c * job.block_bytes;
      lanes[r] = job.dtype == DType::F32 ? read_at<std::int32_t>(at) : read_at<std::uint16_t>(at);
    }
    const auto bits = Lanes::load(lanes);
    Lanes::store(to + c * kPanelRows, job.dtype == DType::F32   ? Lanes::as_floats(bits)
                                      : job.dtype == DType::F16 ? Lanes::half_to_floats(bits)
                                                                : Lanes::as_floats(Lanes::template shift_left<16>(bits)));
  }
}

/// F32, F16, BF16 to [cols][16 rows] f32.
template <class Lanes>
void unpack_floats(const MatmulJob& job, const std::byte* rows, std::size_t row_count, std::size_t cols, float* to) {
  const std::size_t per_load = 16 / job.block_bytes;  // columns of one load_words
  std::size_t c = 0;
  for (; row_count == kPanelRows && c + per_load <= cols; c += per_load) {
    typename Lanes::Ints words[4];
    Lanes::load_words(rows + c * job.block_bytes, job.w_row_bytes, words);
    for (std::size_t d = 0; d < 4; ++d) {
      float* out = to + (c + d * per_load / 4) * kPanelRows;
      if (job.dtype == DType::F32) {
        Lanes::store(out, Lanes::as_floats(words[d]));
      } else if (job.dtype == DType::F16) {
        Lanes::store(out, Lanes::half_to_floats(words[d]));
        Lanes::store(out + kPanelRows, Lanes::half_to_floats(Lanes::template shift_right<16>(words[d])));
      } else {
        const auto high = Lanes::broadcast(static_cast<std::int32_t>(0xffff0000u));
        Lanes::store(out, Lanes::as_floats(Lanes::template shift_left<16>(words[d])));
        Lanes::store(out + kPanelRows, Lanes::as_floats(Lanes::bit_and(words[d], high)));
      }
    }
  }
  unpack_floats_slowly<Lanes>(job, rows, row_count, c, cols, to);
}

/// An integer panel to [cols][16 rows] f32: exactly the values that dequantize_row gives.
template <class Lanes>
void floats_from_integers(const MatmulJob& job, const PanelWorkspace& from, std::size_t panel, std::size_t cols, float* to) {
  for (std::size_t c = 0; c < cols; ++c) {
    const std::size_t in_four = c % 4;
    const auto pair = Lanes::load(from.pairs[panel] + (c / 4 * 2 + in_four % 2) * kPanelRows);
    const auto value = Lanes::template shift_right_signed<16>(in_four < 2 ? Lanes::template shift_left<16>(pair) : pair);
    const auto scaled = Lanes::mul(Lanes::to_floats(value), Lanes::load(from.scales[panel] + c / 32 * kPanelRows));
    if (job.offset_values == 0) {
      Lanes::store(to + c * kPanelRows, scaled);
    } else {
      const auto offset = Lanes::load(from.offsets[panel] + c / job.offset_values * kPanelRows);
      Lanes::store(to + c * kPanelRows, Lanes::fma(scaled, Lanes::broadcast(1.0F), offset));
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
