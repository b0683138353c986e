// Sixteen 32-bit lanes in two AVX2 registers; each function as lanes_portable.h defines it.
// Included only by files built with AVX2 flags: nothing here may be an inline function that other files share.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/unroll.h"

namespace ebb::kernels {
namespace {

struct Avx2Lanes {
  struct Ints {
    __m256i a, b;
  };
  struct Floats {
    __m256 a, b;
  };
  static constexpr std::size_t kTilePanels = 1;
  static constexpr bool kByteDot = false;
  static constexpr std::size_t kTileTokens = 4;  // 4 x 2 sums of 16 registers

  EBB_INLINE static Ints zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  EBB_INLINE static Ints broadcast(std::int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  EBB_INLINE static Ints load(const std::int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
  }
  EBB_INLINE static void store(std::int32_t* p, const Ints& x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
  }

  EBB_INLINE static void load_words_8(const std::byte* p, std::size_t stride, __m256i out[4]) {
    __m256i rows[4];  // rows i and i + 4
    for (std::size_t i = 0; i < 4; ++i) {
      rows[i] = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(p + (i + 4) * stride),
                                    reinterpret_cast<const __m128i*>(p + i * stride));
    }
    const __m256i low01 = _mm256_unpacklo_epi32(rows[0], rows[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
    const __m256i high01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
    const __m256i high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
    out[0] = _mm256_unpacklo_epi64(low01, low23);
    out[1] = _mm256_unpackhi_epi64(low01, low23);
    out[2] = _mm256_unpacklo_epi64(high01, high23);
    out[3] = _mm256_unpackhi_epi64(high01, high23);
  }
  EBB_INLINE static void load_words(const std::byte* p, std::size_t stride, Ints out[4]) {
    __m256i first[4];
    __m256i second[4];
    load_words_8(p, stride, first);
    load_words_8(p + 8 * stride, stride, second);
    for (int d = 0; d < 4; ++d) out[d] = {first[d], second[d]};
  }
  EBB_INLINE static Ints gather_words(const std::byte* p, std::size_t stride) {
    const __m256i row = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i at = _mm256_mullo_epi32(row, _mm256_set1_epi32(static_cast<std::int32_t>(stride)));
    return {_mm256_i32gather_epi32(reinterpret_cast<const int*>(p), at, 1),
            _mm256_i32gather_epi32(reinterpret_cast<const int*>(p + 8 * stride), at, 1)};
  }

  EBB_INLINE static Ints bit_and(const Ints& x, const Ints& y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
  EBB_INLINE static Ints bit_xor(const Ints& x, const Ints& y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
  EBB_INLINE static Ints masked_or(const Ints& x, const Ints& mask, const Ints& y) {
    return {_mm256_or_si256(_mm256_and_si256(x.a, mask.a), y.a), _mm256_or_si256(_mm256_and_si256(x.b, mask.b), y.b)};
  }
  template <int kBits>
  EBB_INLINE static Ints shift_left(const Ints& x) { return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)}; }
  template <int kBits>
  EBB_INLINE static Ints shift_right(const Ints& x) { return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)}; }
  template <int kBits>
  EBB_INLINE static Ints shift_right_signed(const Ints& x) { return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)}; }
  template <int kFirst>
  EBB_INLINE static __m256i fifth_bits_8(__m256i fifth) {
    constexpr int kByte = kFirst / 8;  // the byte of each lane that holds the four bits, copied to all four places
    const __m256i places = _mm256_broadcastsi128_si256(
        _mm_setr_epi32(kByte * 0x01010101, 0x04040404 + kByte * 0x01010101, 0x08080808 + kByte * 0x01010101,
                       0x0c0c0c0c + kByte * 0x01010101));
    const __m256i one_each = _mm256_set1_epi32(static_cast<int>(0x08040201u << kFirst % 8));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(fifth, places), one_each), one_each);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
  }
  template <int kFirst>
  EBB_INLINE static Ints with_fifth_bits(const Ints& bytes, const Ints& fifth) {
    return {_mm256_or_si256(bytes.a, fifth_bits_8<kFirst>(fifth.a)), _mm256_or_si256(bytes.b, fifth_bits_8<kFirst>(fifth.b))};
  }
  EBB_INLINE static Ints sub16(const Ints& x, const Ints& y) { return {_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)}; }
  EBB_INLINE static Ints mul16(const Ints& x, const Ints& y) { return {_mm256_mullo_epi16(x.a, y.a), _mm256_mullo_epi16(x.b, y.b)}; }
  EBB_INLINE static Ints add(const Ints& x, const Ints& y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  EBB_INLINE static Ints max(const Ints& x, const Ints& y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
  EBB_INLINE static Ints dot(const Ints& acc, const Ints& x, const Ints& y) {
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b))};
  }

  EBB_INLINE static Floats zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  EBB_INLINE static Floats broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  EBB_INLINE static Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  EBB_INLINE static void store(float* p, const Floats& x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  EBB_INLINE static Floats mul(const Floats& x, const Floats& y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  EBB_INLINE static Floats fma(const Floats& x, const Floats& y, const Floats& z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  EBB_INLINE static Floats to_floats(const Ints& x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  EBB_INLINE static Ints round_to_ints(const Floats& x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  EBB_INLINE static __m256 half_to_floats_8(__m256i x) {
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
  }
  EBB_INLINE static Floats half_to_floats(const Ints& x) { return {half_to_floats_8(x.a), half_to_floats_8(x.b)}; }
  EBB_INLINE static Floats as_floats(const Ints& x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  EBB_INLINE static Ints as_ints(const Floats& x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  EBB_INLINE static std::int32_t max_lane(const Ints& x) {
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_max_epi32(x.a, x.b));
    std::int32_t out = lanes[0];
    for (int i = 1; i < 8; ++i) out = lanes[i] > out ? lanes[i] : out;
    return out;
  }
  EBB_INLINE static std::int32_t sum_lanes(const Ints& x) {
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi32(x.a, x.b));
    std::int32_t out = 0;
    for (int i = 0; i < 8; ++i) out += lanes[i];
    return out;
  }
  EBB_INLINE static __m256i pack_pairs_16(__m256i first, __m256i second) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
    return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  }
  EBB_INLINE static Ints pack_pairs(const Ints& first, const Ints& second) {
    return {pack_pairs_16(first.a, first.b), pack_pairs_16(second.a, second.b)};
  }
  EBB_INLINE static void prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
};

}  // namespace
}  // namespace ebb::kernels
