// f32x16.h with AVX2, FMA and F16C: two registers of eight lanes.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ebb::kernels::EBB_SIMD_LEVEL {

struct F32x16 {
  __m256 low;
  __m256 high;
};

inline F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float* to, F32x16 x) {
  _mm256_storeu_ps(to, x.low);
  _mm256_storeu_ps(to + 8, x.high);
}
inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline F32x16 min_or_nan(F32x16 limit, F32x16 x) {
  return {_mm256_min_ps(limit.low, x.low), _mm256_min_ps(limit.high, x.high)};
}
inline F32x16 max_or_nan(F32x16 limit, F32x16 x) {
  return {_mm256_max_ps(limit.low, x.low), _mm256_max_ps(limit.high, x.high)};
}

inline F32x16 zero_where_less(F32x16 a, F32x16 b, F32x16 x) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.low, b.low, _CMP_NLT_UQ), x.low),
          _mm256_and_ps(_mm256_cmp_ps(a.high, b.high, _CMP_NLT_UQ), x.high)};
}

inline F32x16 add_to_exponent(F32x16 x, F32x16 shifted) {
  const auto half = [](__m256 value, __m256 from) {
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(from), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), n));
  };
  return {half(x.low, shifted.low), half(x.high, shifted.high)};
}

inline F32x16 keep_lanes(F32x16 x, int first, int last, F32x16 other) {
  const auto half = [first, last](__m256 value, __m256 instead, __m256i lane) {
    const __m256i from_first = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(first - 1));
    const __m256i below_last = _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane);
    return _mm256_blendv_ps(instead, value, _mm256_castsi256_ps(_mm256_and_si256(from_first, below_last)));
  };
  return {half(x.low, other.low, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          half(x.high, other.high, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}

inline float reduce_add(F32x16 x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float reduce_max(F32x16 x) {
  const __m256 eight = _mm256_max_ps(x.low, x.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline F32x16 load_f16(const std::uint16_t* from) {
  const auto* halves = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

inline F32x16 load_bf16(const std::uint16_t* from) {
  const auto half = [](const std::uint16_t* at) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  };
  return {half(from), half(from + 8)};
}

inline void store_f16(std::uint16_t* to, F32x16 x) {
  x = max_or_nan(set1(-65504.0f), min_or_nan(set1(65504.0f), x));
  auto* halves = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
}

inline void store_bf16(std::uint16_t* to, F32x16 x) {
  const auto half = [](__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
  };
  const __m256i packed = _mm256_packus_epi32(half(x.low), half(x.high));  // interleaves the 128-bit halves
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
}

inline F32x16 broadcast_f16(const std::byte* from) {
  std::int16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  const __m256 eight = _mm256_cvtph_ps(_mm_set1_epi16(bits));
  return {eight, eight};
}

inline F32x16 load_i8(const std::byte* from) {
  const auto half = [from](int at) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + at));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  };
  return {half(0), half(8)};
}

template <int kShift>
inline F32x16 load_nibbles(const std::byte* from) {
  const auto half = [from](int at) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + at)));
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(bytes, kShift), _mm256_set1_epi32(15)));
  };
  return {half(0), half(8)};
}

inline void store_i8(std::byte* to, F32x16 x) {
  const __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
  const __m256i sorted = _mm256_permute4x64_epi64(pairs, 0xd8);  // packing interleaves the 128-bit halves
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

inline void store_nibbles(std::byte* to, F32x16 low, F32x16 high) {
  const auto nibbles = [](__m256 x) { return _mm256_min_epi32(_mm256_cvttps_epi32(x), _mm256_set1_epi32(15)); };
  const __m256i first = _mm256_or_si256(nibbles(low.low), _mm256_slli_epi32(nibbles(high.low), 4));
  const __m256i second = _mm256_or_si256(nibbles(low.high), _mm256_slli_epi32(nibbles(high.high), 4));
  const __m256i sorted = _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

struct Words16 {
  __m256i low;
  __m256i high;
};

inline void load_words(const std::byte* const* rows, std::size_t offset, Words16 (&words)[4]) {
  const auto turn = [&](std::size_t first, __m256i (&word)[4]) {
    __m256i two[4];  // rows j and j + 4
    for (std::size_t j = 0; j < 4; ++j) {
      const auto row = [&](std::size_t i) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[first + i] + offset));
      };
      two[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(row(j)), row(j + 4), 1);
    }
    const __m256i low01 = _mm256_unpacklo_epi32(two[0], two[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(two[0], two[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(two[2], two[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(two[2], two[3]);
    word[0] = _mm256_unpacklo_epi64(low01, low23);
    word[1] = _mm256_unpackhi_epi64(low01, low23);
    word[2] = _mm256_unpacklo_epi64(high01, high23);
    word[3] = _mm256_unpackhi_epi64(high01, high23);
  };
  __m256i low[4];
  __m256i high[4];
  turn(0, low);
  turn(8, high);
  for (int w = 0; w < 4; ++w) words[w] = {low[w], high[w]};
}

template <int kByte>
inline F32x16 signed_byte(Words16 words) {
  const auto half = [](__m256i word) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(word, 24 - 8 * kByte), 24));
  };
  return {half(words.low), half(words.high)};
}

template <int kShift>
inline F32x16 nibble(Words16 words) {
  const auto half = [](__m256i word) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(word, kShift), _mm256_set1_epi32(15)));
  };
  return {half(words.low), half(words.high)};
}

inline F32x16 gather_f16(const std::byte* const* rows, std::size_t offset) {
  const auto half = [&](std::size_t i) {
    std::int16_t bits;
    __builtin_memcpy(&bits, rows[i] + offset, sizeof bits);
    return bits;
  };
  const auto eight = [&](std::size_t i) {
    return _mm256_cvtph_ps(_mm_setr_epi16(half(i), half(i + 1), half(i + 2), half(i + 3), half(i + 4), half(i + 5),
                                          half(i + 6), half(i + 7)));
  };
  return {eight(0), eight(8)};
}

inline void transpose_eight(__m256 (&row)[8]) {
  __m256 pair[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  __m256 quad[8];
  for (int b = 0; b < 8; b += 4) {
    quad[b] = _mm256_shuffle_ps(pair[b], pair[b + 2], 0x44);
    quad[b + 1] = _mm256_shuffle_ps(pair[b], pair[b + 2], 0xee);
    quad[b + 2] = _mm256_shuffle_ps(pair[b + 1], pair[b + 3], 0x44);
    quad[b + 3] = _mm256_shuffle_ps(pair[b + 1], pair[b + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    row[c] = _mm256_permute2f128_ps(quad[c], quad[c + 4], 0x20);
    row[c + 4] = _mm256_permute2f128_ps(quad[c], quad[c + 4], 0x31);
  }
}

inline void transpose(F32x16 (&row)[16]) {
  __m256 block[2][2][8];  // [row half][column half]
  for (int i = 0; i < 8; ++i) {
    block[0][0][i] = row[i].low;
    block[0][1][i] = row[i].high;
    block[1][0][i] = row[i + 8].low;
    block[1][1][i] = row[i + 8].high;
  }
  for (auto& half : block)
    for (auto& eight : half) transpose_eight(eight);
  for (int i = 0; i < 8; ++i) {
    row[i] = {block[0][0][i], block[1][0][i]};
    row[i + 8] = {block[0][1][i], block[1][1][i]};
  }
}

struct SquareSum {
  __m256d quarter[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};

  void add(F32x16 x) {
    const __m128 fours[4] = {_mm256_castps256_ps128(x.low), _mm256_extractf128_ps(x.low, 1),
                             _mm256_castps256_ps128(x.high), _mm256_extractf128_ps(x.high, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m256d wide = _mm256_cvtps_pd(fours[i]);
      quarter[i] = _mm256_fmadd_pd(wide, wide, quarter[i]);
    }
  }
  [[nodiscard]] double total() const {
    const __m256d low = _mm256_add_pd(quarter[0], quarter[2]);
    const __m256d high = _mm256_add_pd(quarter[1], quarter[3]);
    const __m256d four = _mm256_add_pd(low, high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

constexpr int kProductRows = 6;  // 6 x 2 sums, 2 columns and 1 broadcast in 16 registers
constexpr int kProductVectors = 1;

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
