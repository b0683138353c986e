// How one row of keys or values of each KvType is read: sixteen columns of a row, or of sixteen rows turned. Values of
// blocks are exact in float32 (at most 8 bits times a half), so that every way to read them gives the same bits.
#pragma once

#include "kernels/attention.h"
#include "kernels/internal/f32x16.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

template <typename T>
struct PlainRow {
  static constexpr std::size_t kLineColumns = 64 / sizeof(T);  // so many columns on, a prefetch is due

  static std::size_t offset(std::size_t col_idx) { return col_idx * sizeof(T); }
  static F32x16 load_some(const std::byte* row, std::size_t col_idx, std::size_t cols) {
    return kernels::EBB_SIMD_LEVEL::load_some(reinterpret_cast<const T*>(row) + col_idx, cols);
  }
  static void load_pair(const std::byte* row, std::size_t col_idx, F32x16 (&columns)[2]) {
    columns[0] = load(reinterpret_cast<const T*>(row) + col_idx);
    columns[1] = load(reinterpret_cast<const T*>(row) + col_idx + kLanes);
  }
  /// `cols` columns from col_idx on of sixteen rows, turned: vector i is column i of all rows.
  static void load_square(const std::byte* const* rows, std::size_t col_idx, std::size_t cols,
                          F32x16 (&square)[kLanes]) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const T* row = reinterpret_cast<const T*>(rows[i]) + col_idx;
      square[i] = cols == kLanes ? load(row) : kernels::EBB_SIMD_LEVEL::load_some(row, cols);
    }
    transpose(square);
  }
};

// A row in blocks is whole blocks: there are always sixteen columns from a multiple of sixteen on. Turning is done on
// packed words: four shuffles instead of sixteen.

struct Q8Row {
  static constexpr std::size_t kLineColumns = 32;

  static std::size_t offset(std::size_t col_idx) { return col_idx / 32 * 34; }
  static F32x16 load_some(const std::byte* row, std::size_t col_idx, std::size_t /*cols*/) {
    const std::byte* block = row + offset(col_idx);
    return load_i8(block + 2 + col_idx % 32) * broadcast_f16(block);
  }
  static void load_pair(const std::byte* row, std::size_t col_idx, F32x16 (&columns)[2]) {
    const std::byte* block = row + offset(col_idx);
    const F32x16 scale = broadcast_f16(block);
    columns[0] = load_i8(block + 2) * scale;
    columns[1] = load_i8(block + 2 + kLanes) * scale;
  }
  static void load_square(const std::byte* const* rows, std::size_t col_idx, std::size_t /*cols*/,
                          F32x16 (&square)[kLanes]) {
    const F32x16 scale = gather_f16(rows, offset(col_idx));
    Words16 words[4];
    load_words(rows, offset(col_idx) + 2 + col_idx % 32, words);
    for (int w = 0; w < 4; ++w) {
      square[4 * w] = signed_byte<0>(words[w]) * scale;
      square[4 * w + 1] = signed_byte<1>(words[w]) * scale;
      square[4 * w + 2] = signed_byte<2>(words[w]) * scale;
      square[4 * w + 3] = signed_byte<3>(words[w]) * scale;
    }
  }
};

struct Q4Row {
  static constexpr std::size_t kLineColumns = 96;

  static std::size_t offset(std::size_t col_idx) { return col_idx / 32 * 18; }
  static F32x16 load_some(const std::byte* row, std::size_t col_idx, std::size_t /*cols*/) {
    const std::byte* block = row + offset(col_idx);
    const F32x16 nibbles = col_idx % 32 == 0 ? load_nibbles<0>(block + 2) : load_nibbles<4>(block + 2);
    return (nibbles - set1(8.0f)) * broadcast_f16(block);
  }
  static void load_pair(const std::byte* row, std::size_t col_idx, F32x16 (&columns)[2]) {
    const std::byte* block = row + offset(col_idx);
    const F32x16 scale = broadcast_f16(block);
    columns[0] = (load_nibbles<0>(block + 2) - set1(8.0f)) * scale;
    columns[1] = (load_nibbles<4>(block + 2) - set1(8.0f)) * scale;
  }
  template <int kShift>
  static void load_half(const Words16 (&words)[4], F32x16 scale, F32x16 (&square)[kLanes]) {
    const F32x16 middle = set1(8.0f);
    for (int w = 0; w < 4; ++w) {
      square[4 * w] = (nibble<kShift>(words[w]) - middle) * scale;
      square[4 * w + 1] = (nibble<8 + kShift>(words[w]) - middle) * scale;
      square[4 * w + 2] = (nibble<16 + kShift>(words[w]) - middle) * scale;
      square[4 * w + 3] = (nibble<24 + kShift>(words[w]) - middle) * scale;
    }
  }
  static void load_square(const std::byte* const* rows, std::size_t col_idx, std::size_t /*cols*/,
                          F32x16 (&square)[kLanes]) {
    const F32x16 scale = gather_f16(rows, offset(col_idx));
    Words16 words[4];
    load_words(rows, offset(col_idx) + 2, words);
    if (col_idx % 32 == 0) {
      load_half<0>(words, scale, square);
    } else {
      load_half<4>(words, scale, square);
    }
  }
};

/// Calls body(the type's row).
template <typename Body>
void with_row_of(KvType type, Body body) {
  switch (type) {
    case KvType::F32:
      return body(PlainRow<float>{});
    case KvType::F16:
      return body(PlainRow<F16>{});
    case KvType::BF16:
      return body(PlainRow<Bf16>{});
    case KvType::Q8_0:
      return body(Q8Row{});
    case KvType::Q4_0:
      return body(Q4Row{});
  }
}

/// Where a row's cache lines begin, near enough to ask for them.
struct RowSpread {
  std::size_t line_columns = 0;
  std::size_t bytes_per_sixteen = 0;
};
inline RowSpread spread_of(KvType type) {
  RowSpread spread;
  with_row_of(type, [&spread](auto row) { spread = {row.kLineColumns, row.offset(32) / 2}; });
  return spread;
}

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
