// Sixteen 32-bit lanes in one AVX-512 register; each function as lanes_portable.h defines it.
// Included only by files built with AVX-512 flags: nothing here may be an inline function that other files share.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/unroll.h"

namespace ebb::kernels {
namespace {

struct Avx512Lanes {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr std::size_t kTilePanels = 2;   // 2 x 12 sums, 2 registers of weights, the rest for activations
  static constexpr std::size_t kTileTokens = 12;
  static constexpr bool kByteDot = true;

  EBB_INLINE static Ints zero() { return _mm512_setzero_si512(); }
  EBB_INLINE static Ints broadcast(std::int32_t value) { return _mm512_set1_epi32(value); }
  EBB_INLINE static Ints load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  EBB_INLINE static void store(std::int32_t* p, Ints a) { _mm512_storeu_si512(p, a); }

  EBB_INLINE static __m128i load_16_bytes(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  EBB_INLINE static void load_words(const std::byte* p, std::size_t stride, Ints out[4]) {
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
  EBB_INLINE static Ints gather_words(const std::byte* p, std::size_t stride) {
    const Ints row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(row, broadcast(static_cast<std::int32_t>(stride))), p, 1);
  }

  EBB_INLINE static Ints bit_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  EBB_INLINE static Ints bit_xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  EBB_INLINE static Ints masked_or(Ints a, Ints mask, Ints b) { return _mm512_ternarylogic_epi32(a, mask, b, 0xea); }
  template <int kBits>
  EBB_INLINE static Ints shift_left(Ints a) { return _mm512_slli_epi32(a, kBits); }
  template <int kBits>
  EBB_INLINE static Ints shift_right(Ints a) { return _mm512_srli_epi32(a, kBits); }
  template <int kBits>
  EBB_INLINE static Ints shift_right_signed(Ints a) { return _mm512_srai_epi32(a, kBits); }
  template <int kFirst>
  EBB_INLINE static Ints with_fifth_bits(Ints bytes, Ints fifth) {
    constexpr int kByte = kFirst / 8;  // the byte of each lane that holds the four bits, copied to all four places
    const Ints copied = _mm512_shuffle_epi8(
        fifth, _mm512_set4_epi32(0x0c0c0c0c + kByte * 0x01010101, 0x08080808 + kByte * 0x01010101,
                                 0x04040404 + kByte * 0x01010101, kByte * 0x01010101));
    const __mmask64 set = _mm512_test_epi8_mask(copied, broadcast(0x08040201 << kFirst % 8));
    return _mm512_mask_add_epi8(bytes, set, bytes, broadcast(0x10101010));
  }
  EBB_INLINE static Ints sub16(Ints a, Ints b) { return _mm512_sub_epi16(a, b); }
  EBB_INLINE static Ints mul16(Ints a, Ints b) { return _mm512_mullo_epi16(a, b); }
  EBB_INLINE static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  EBB_INLINE static Ints sub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  EBB_INLINE static Ints mul(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
  EBB_INLINE static Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  EBB_INLINE static Ints dot(Ints acc, Ints a, Ints b) {
    // Not the intrinsic: GCC 12 then copies each sum to another register and back, which costs a third of the speed.
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
  /// acc + the four products of unsigned bytes of a with signed bytes of b.
  EBB_INLINE static Ints dot_bytes(Ints acc, Ints a, Ints b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
  /// 16 int32 that fit in int8, as 16 bytes.
  EBB_INLINE static void store_bytes(std::byte* p, Ints a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
  }

  EBB_INLINE static Floats zero_floats() { return _mm512_setzero_ps(); }
  EBB_INLINE static Floats broadcast(float value) { return _mm512_set1_ps(value); }
  EBB_INLINE static Floats load(const float* p) { return _mm512_loadu_ps(p); }
  EBB_INLINE static void store(float* p, Floats a) { _mm512_storeu_ps(p, a); }
  EBB_INLINE static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  EBB_INLINE static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  EBB_INLINE static Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  EBB_INLINE static Ints round_to_ints(Floats a) { return _mm512_cvtps_epi32(a); }
  EBB_INLINE static Floats half_to_floats(Ints a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
  EBB_INLINE static Floats as_floats(Ints a) { return _mm512_castsi512_ps(a); }
  EBB_INLINE static Ints as_ints(Floats a) { return _mm512_castps_si512(a); }
  EBB_INLINE static std::int32_t max_lane(Ints a) { return _mm512_reduce_max_epi32(a); }
  EBB_INLINE static std::int32_t sum_lanes(Ints a) { return _mm512_reduce_add_epi32(a); }
  EBB_INLINE static Ints pack_pairs(Ints first, Ints second) {
    // Lanes of 128 bits become (0 1 2 3 | second's 0 1 2 3) as int16; then the halves return to order and words 1, 2 swap.
    Ints words = _mm512_packs_epi32(first, second);
    words = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), words);
    return _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(words, 0xd8), 0xd8);
  }
  EBB_INLINE static void prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1); }
};

}  // namespace
}  // namespace ebb::kernels
