// Sixteen 32-bit lanes in one AVX-512 register; each function as lanes_portable.h defines it.
// Included only by files built with AVX-512 flags: nothing here may be an inline function that other files share.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ebb::kernels {
namespace {

struct Avx512Lanes {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr std::size_t kTilePanels = 2;   // 2 x 12 sums, 2 registers of weights, the rest for activations
  static constexpr std::size_t kTileTokens = 12;

  static Ints zero() { return _mm512_setzero_si512(); }
  static Ints broadcast(std::int32_t value) { return _mm512_set1_epi32(value); }
  static Ints load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  static void store(std::int32_t* p, Ints a) { _mm512_storeu_si512(p, a); }

  static __m128i load_16_bytes(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static void load_words(const std::byte* p, std::size_t stride, Ints out[4]) {
    Ints rows[4];  // rows i, i + 4, i + 8, i + 12, one a 128-bit lane: transposing inside the lanes then gives rows in order
    for (std::size_t i = 0; i < 4; ++i) {
      const std::byte* row = p + i * stride;
      Ints four = _mm512_castsi128_si512(load_16_bytes(row));
      four = _mm512_inserti32x4(four, load_16_bytes(row + 4 * stride), 1);
      four = _mm512_inserti32x4(four, load_16_bytes(row + 8 * stride), 2);
      rows[i] = _mm512_inserti32x4(four, load_16_bytes(row + 12 * stride), 3);
    }
    const Ints low01 = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const Ints low23 = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const Ints high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const Ints high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    out[0] = _mm512_unpacklo_epi64(low01, low23);
    out[1] = _mm512_unpackhi_epi64(low01, low23);
    out[2] = _mm512_unpacklo_epi64(high01, high23);
    out[3] = _mm512_unpackhi_epi64(high01, high23);
    // The lanes hold rows (0, 1, 2, 3), (4 .. 7), (8 .. 11), (12 .. 15).
  }
  static Ints gather_words(const std::byte* p, std::size_t stride) {
    const Ints row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(row, broadcast(static_cast<std::int32_t>(stride))), p, 1);
  }

  static Ints bit_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  static Ints masked_or(Ints a, Ints mask, Ints b) { return _mm512_ternarylogic_epi32(a, mask, b, 0xea); }
  template <int kBits>
  static Ints shift_left(Ints a) { return _mm512_slli_epi32(a, kBits); }
  template <int kBits>
  static Ints shift_right(Ints a) { return _mm512_srli_epi32(a, kBits); }
  template <int kBits>
  static Ints shift_right_signed(Ints a) { return _mm512_srai_epi32(a, kBits); }
  template <int kBits>
  static Ints shift_left16(Ints a) { return _mm512_slli_epi16(a, kBits); }
  template <int kBits>
  static Ints shift_right_signed16(Ints a) { return _mm512_srai_epi16(a, kBits); }
  static Ints sub16(Ints a, Ints b) { return _mm512_sub_epi16(a, b); }
  static Ints mul16(Ints a, Ints b) { return _mm512_mullo_epi16(a, b); }
  static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static Ints dot(Ints acc, Ints a, Ints b) { return _mm512_dpwssd_epi32(acc, a, b); }

  static Floats zero_floats() { return _mm512_setzero_ps(); }
  static Floats broadcast(float value) { return _mm512_set1_ps(value); }
  static Floats load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Floats a) { _mm512_storeu_ps(p, a); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  static Ints round_to_ints(Floats a) { return _mm512_cvtps_epi32(a); }
  static Floats half_to_floats(Ints a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
  static Floats as_floats(Ints a) { return _mm512_castsi512_ps(a); }
  static Ints as_ints(Floats a) { return _mm512_castps_si512(a); }
  static std::int32_t max_lane(Ints a) { return _mm512_reduce_max_epi32(a); }
  static std::int32_t sum_lanes(Ints a) { return _mm512_reduce_add_epi32(a); }
  static Ints pack_pairs(Ints first, Ints second) {
    // Lanes of 128 bits become (0 1 2 3 | second's 0 1 2 3) as int16; then the halves return to order and words 1, 2 swap.
    Ints words = _mm512_packs_epi32(first, second);
    words = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), words);
    return _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(words, 0xd8), 0xd8);
  }
  static void prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
};

}  // namespace
}  // namespace ebb::kernels
