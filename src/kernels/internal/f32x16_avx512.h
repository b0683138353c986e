// f32x16.h with AVX-512 F, BW, DQ and VL.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ebb::kernels::EBB_SIMD_LEVEL {

struct F32x16 {
  __m512 v;
};

inline F32x16 zero() { return {_mm512_setzero_ps()}; }
inline F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 load(const float* from) { return {_mm512_loadu_ps(from)}; }
inline void store(float* to, F32x16 x) { _mm512_storeu_ps(to, x.v); }
inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
/// The lesser; x where x is NaN.
inline F32x16 min_or_nan(F32x16 limit, F32x16 x) { return {_mm512_min_ps(limit.v, x.v)}; }
inline F32x16 max_or_nan(F32x16 limit, F32x16 x) { return {_mm512_max_ps(limit.v, x.v)}; }

/// x, but zero in the lanes where a < b.
inline F32x16 zero_where_less(F32x16 a, F32x16 b, F32x16 x) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ), x.v)};
}

/// x * 2^n, where n stands in the low bits of `shifted` (see exp2).
inline F32x16 add_to_exponent(F32x16 x, F32x16 shifted) {
  const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), n))};
}

/// x in the lanes [first, last), `other` elsewhere.
inline F32x16 keep_lanes(F32x16 x, int first, int last, F32x16 other) {
  const auto lanes_below = [](int end) { return end <= 0 ? 0u : end >= 16 ? 0xffffu : (1u << end) - 1u; };
  const auto kept = static_cast<__mmask16>(lanes_below(last) & ~lanes_below(first));
  return {_mm512_mask_mov_ps(other.v, kept, x.v)};
}

inline float reduce_add(F32x16 x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float reduce_max(F32x16 x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline F32x16 load_f16(const std::uint16_t* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}

inline F32x16 load_bf16(const std::uint16_t* from) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
}

/// Nearest, ties to even; beyond the largest finite half: that half.
inline void store_f16(std::uint16_t* to, F32x16 x) {
  x = max_or_nan(set1(-65504.0f), min_or_nan(set1(65504.0f), x));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/// Nearest, ties to even; NaN stays NaN.
inline void store_bf16(std::uint16_t* to, F32x16 x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i chosen = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
}

/// One half, in all lanes.
inline F32x16 broadcast_f16(const std::byte* from) {
  std::int16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return {_mm512_cvtph_ps(_mm256_set1_epi16(bits))};
}

inline F32x16 load_i8(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}

/// Four bits of each of sixteen bytes: kShift 0 the low ones, 4 the high ones.
template <int kShift>
inline F32x16 load_nibbles(const std::byte* from) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(bytes, kShift), _mm512_set1_epi32(15)))};
}

/// Nearest, ties to even; |x| <= 127.5.
inline void store_i8(std::byte* to, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v)));
}

/// Rounded down and at most 15: `low` to the low four bits of sixteen bytes, `high` to the high ones. 0 <= x < 17.
inline void store_nibbles(std::byte* to, F32x16 low, F32x16 high) {
  const auto nibbles = [](F32x16 x) { return _mm512_min_epi32(_mm512_cvttps_epi32(x.v), _mm512_set1_epi32(15)); };
  const __m512i bytes = _mm512_or_si512(nibbles(low), _mm512_slli_epi32(nibbles(high), 4));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(bytes));
}

struct Words16 {
  __m512i v;
};

/// Sixteen bytes of sixteen rows: lane i of words[w] is bytes 4 w .. 4 w + 3 at rows[i] + offset.
inline void load_words(const std::byte* const* rows, std::size_t offset, Words16 (&words)[4]) {
  __m512i four[4];  // rows j, j + 4, j + 8, j + 12
  for (std::size_t j = 0; j < 4; ++j) {
    const auto row = [&](std::size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + offset)); };
    four[j] = _mm512_castsi128_si512(row(j));
    four[j] = _mm512_inserti32x4(four[j], row(j + 4), 1);
    four[j] = _mm512_inserti32x4(four[j], row(j + 8), 2);
    four[j] = _mm512_inserti32x4(four[j], row(j + 12), 3);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(four[0], four[1]);
  const __m512i high01 = _mm512_unpackhi_epi32(four[0], four[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(four[2], four[3]);
  const __m512i high23 = _mm512_unpackhi_epi32(four[2], four[3]);
  words[0].v = _mm512_unpacklo_epi64(low01, low23);
  words[1].v = _mm512_unpackhi_epi64(low01, low23);
  words[2].v = _mm512_unpacklo_epi64(high01, high23);
  words[3].v = _mm512_unpackhi_epi64(high01, high23);
}

/// Byte kByte of each word, with its sign.
template <int kByte>
inline F32x16 signed_byte(Words16 words) {
  return {_mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words.v, 24 - 8 * kByte), 24))};
}

/// The four bits from kShift on of each word.
template <int kShift>
inline F32x16 nibble(Words16 words) {
  return {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(words.v, kShift), _mm512_set1_epi32(15)))};
}

/// Lane i is the half at rows[i] + offset.
inline F32x16 gather_f16(const std::byte* const* rows, std::size_t offset) {
  const auto half = [&](std::size_t i) {
    std::int16_t bits;
    __builtin_memcpy(&bits, rows[i] + offset, sizeof bits);
    return bits;
  };
  return {_mm512_cvtph_ps(_mm256_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7),
                                            half(8), half(9), half(10), half(11), half(12), half(13), half(14),
                                            half(15)))};
}

/// Column j of the sixteen rows becomes row j.
inline void transpose(F32x16 (&row)[16]) {
  __m512 pair[16];  // after this step: 2 x 2 blocks are turned
  for (int i = 0; i < 16; i += 2) {
    pair[i] = _mm512_unpacklo_ps(row[i].v, row[i + 1].v);
    pair[i + 1] = _mm512_unpackhi_ps(row[i].v, row[i + 1].v);
  }
  __m512 quad[16];  // 4 x 4: quad[4b + c] holds columns c, c + 4, c + 8, c + 12 of rows 4b .. 4b + 3
  for (int b = 0; b < 16; b += 4) {
    const auto low = [](__m512 x, __m512 y) {
      return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
    };
    const auto high = [](__m512 x, __m512 y) {
      return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
    };
    quad[b] = low(pair[b], pair[b + 2]);
    quad[b + 1] = high(pair[b], pair[b + 2]);
    quad[b + 2] = low(pair[b + 1], pair[b + 3]);
    quad[b + 3] = high(pair[b + 1], pair[b + 3]);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(quad[c], quad[c + 4], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(quad[c], quad[c + 4], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(quad[c + 8], quad[c + 12], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(quad[c + 8], quad[c + 12], 0xee);
    row[c].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    row[c + 4].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    row[c + 8].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    row[c + 12].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

/// Sixteen float64 sums. The square of a float is exact in float64, so all levels round alike.
struct SquareSum {
  __m512d low = _mm512_setzero_pd();
  __m512d high = _mm512_setzero_pd();

  void add(F32x16 x) {
    const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
    const __m512d second = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1));
    low = _mm512_fmadd_pd(first, first, low);
    high = _mm512_fmadd_pd(second, second, high);
  }
  [[nodiscard]] double total() const {
    const __m512d eight = _mm512_add_pd(low, high);
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

constexpr int kProductRows = 12;  // 12 x 2 sums, 2 columns and 1 broadcast in 32 registers
constexpr int kProductVectors = 2;

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
