// Packed rows to unsigned bytes: sixteen rows at once, transposed while still packed, then spread by shifts and masks.
// Each function visits the 32-value blocks of its rows in order and hands a sink
//   quads<kZero>(q, bytes)                 columns 4q .. 4q + 3 of the block, q = 0 .. 7: a byte each; weight = byte - kZero
//   scaled_quads<kZero>(q, bytes, scale)   the same where weight = scale * (byte - kZero), one int scale for each 16 columns
//   offset(o, f)                           an offset of the chunk, o counted from the chunk's start
//   end_block<kZero>(f), end_scaled_block(f)   the block's float scale; the next block begins
// and is held to integer_block.h, value for value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/internal/unroll.h"

namespace ebb::kernels {
namespace {

template <class Lanes>
struct Unpack {
  using Ints = typename Lanes::Ints;
  using Floats = typename Lanes::Floats;

  /// The low (kHigh 0) or high nibbles of all bytes.
  template <int kHigh>
  EBB_INLINE static Ints nibbles(const Ints& words) {
    return Lanes::bit_and(Lanes::template shift_right<4 * kHigh>(words), Lanes::broadcast(0x0f0f0f0f));
  }

  /// Bits of each byte moved so that bit kBit stands at bit 4; other bits of the byte are undefined.
  template <int kBit>
  EBB_INLINE static Ints bit_to_4(const Ints& words) {
    if constexpr (kBit < 4) {
      return Lanes::template shift_left<4 - kBit>(words);
    } else {
      return Lanes::template shift_right<kBit - 4>(words);
    }
  }

  template <class Sink>
  EBB_INLINE static void q8_0(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    for (std::size_t b = 0; b < block_count; ++b, rows += 34) {
      EBB_UNROLL for (std::size_t half = 0; half < 2; ++half) {
        Ints words[4];
        Lanes::load_words(rows + 2 + half * 16, stride, words);
        EBB_UNROLL for (std::size_t w = 0; w < 4; ++w) {
          const Ints from_zero = Lanes::bit_xor(words[w], Lanes::broadcast(static_cast<std::int32_t>(0x80808080u)));
          sink.template quads<128>(half * 4 + w, from_zero);
        }
      }
      sink.template end_block<128>(Lanes::half_to_floats(Lanes::gather_words(rows, stride)));
    }
  }

  /// Q4_0, Q4_1, Q5_0, Q5_1.
  template <bool kOffset, bool kFifth, class Sink>
  EBB_INLINE static void nibble_blocks(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    constexpr std::size_t kFifthAt = kOffset ? 4 : 2;
    constexpr std::size_t kNibblesAt = kFifthAt + (kFifth ? 4 : 0);
    constexpr int kZero = kOffset ? 0 : kFifth ? 16 : 8;
    for (std::size_t b = 0; b < block_count; ++b, rows += kNibblesAt + 16) {
      const Ints head = Lanes::gather_words(rows, stride);  // d, and m in the upper half
      const Ints fifth = kFifth ? Lanes::gather_words(rows + kFifthAt, stride) : Lanes::zero();
      Ints words[4];
      Lanes::load_words(rows + kNibblesAt, stride, words);
      const auto quad = [&]<int kQuad>() EBB_INLINE_LAMBDA {
        Ints bytes = nibbles<kQuad / 4>(words[kQuad % 4]);
        if constexpr (kFifth) bytes = Lanes::template with_fifth_bits<4 * kQuad>(bytes, fifth);
        sink.template quads<kZero>(kQuad, bytes);
      };
      quad.template operator()<0>();
      quad.template operator()<1>();
      quad.template operator()<2>();
      quad.template operator()<3>();
      quad.template operator()<4>();
      quad.template operator()<5>();
      quad.template operator()<6>();
      quad.template operator()<7>();
      if constexpr (kOffset) sink.offset(b, Lanes::half_to_floats(Lanes::template shift_right<16>(head)));
      sink.template end_block<kZero>(Lanes::half_to_floats(head));
    }
  }

  /// Byte kByte of each lane as a float.
  template <int kByte>
  EBB_INLINE static Floats byte_to_floats(const Ints& words) {
    return Lanes::to_floats(Lanes::bit_and(Lanes::template shift_right<8 * kByte>(words), Lanes::broadcast(0xff)));
  }

  struct KScales {
    Ints scales[2];  // four bytes a lane each
    Ints minima[2];
    Floats d;
    Floats minus_dmin;
  };

  /// Blocks 2 kPair and 2 kPair + 1 of the 256 values, from 32 packed bytes: the low nibbles, then the high ones.
  template <bool kFifth, int kPair, class Sink>
  EBB_INLINE static void k_nibbles_pair(const std::byte* at, std::size_t stride, const Ints* fifth, const KScales& k,
                                        std::size_t first_offset, Sink& sink) {
    Ints words[8];
    Lanes::load_words(at + 32 * kPair, stride, words);
    Lanes::load_words(at + 32 * kPair + 16, stride, words + 4);
    const auto block = [&]<int kHigh>() EBB_INLINE_LAMBDA {
      constexpr int kBlock = kPair * 2 + kHigh;
      EBB_UNROLL for (std::size_t w = 0; w < 8; ++w) {
        Ints bytes = nibbles<kHigh>(words[w]);
        if constexpr (kFifth) bytes = Lanes::masked_or(bit_to_4<kBlock>(fifth[w]), Lanes::broadcast(0x10101010), bytes);
        sink.template quads<0>(w, bytes);
      }
      sink.offset(first_offset + kBlock, Lanes::mul(k.minus_dmin, byte_to_floats<kBlock % 4>(k.minima[kBlock / 4])));
      sink.template end_block<0>(Lanes::mul(k.d, byte_to_floats<kBlock % 4>(k.scales[kBlock / 4])));
    };
    block.template operator()<0>();
    block.template operator()<1>();
  }

  /// Q4_K, Q5_K.
  template <bool kFifth, class Sink>
  EBB_INLINE static void k_nibbles(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    constexpr std::size_t kNibblesAt = kFifth ? 48 : 16;
    for (std::size_t b = 0; b < block_count; ++b, rows += kNibblesAt + 128) {
      Ints head[4];  // d and dmin, then the twelve bytes of 6-bit scales and minima
      Lanes::load_words(rows, stride, head);
      const Ints low6 = Lanes::broadcast(0x3f3f3f3f);
      const Ints low4 = Lanes::broadcast(0x0f0f0f0f);
      const Ints top2 = Lanes::broadcast(0x30303030);
      const KScales k = {
          {Lanes::bit_and(head[1], low6),
           Lanes::masked_or(Lanes::template shift_right<2>(head[1]), top2, Lanes::bit_and(head[3], low4))},
          {Lanes::bit_and(head[2], low6),
           Lanes::masked_or(Lanes::template shift_right<2>(head[2]), top2,
                            Lanes::bit_and(Lanes::template shift_right<4>(head[3]), low4))},
          Lanes::half_to_floats(head[0]),
          Lanes::mul(Lanes::half_to_floats(Lanes::template shift_right<16>(head[0])), Lanes::broadcast(-1.0F))};
      Ints fifth[8];
      if constexpr (kFifth) {
        Lanes::load_words(rows + 16, stride, fifth);
        Lanes::load_words(rows + 32, stride, fifth + 4);
      }
      k_nibbles_pair<kFifth, 0>(rows + kNibblesAt, stride, fifth, k, b * 8, sink);
      k_nibbles_pair<kFifth, 1>(rows + kNibblesAt, stride, fifth, k, b * 8, sink);
      k_nibbles_pair<kFifth, 2>(rows + kNibblesAt, stride, fifth, k, b * 8, sink);
      k_nibbles_pair<kFifth, 3>(rows + kNibblesAt, stride, fifth, k, b * 8, sink);
    }
  }

  /// Block kJ = 0 .. 3 of one half of a Q6_K block: `low` holds its eight words of nibbles, `high` those of 2-bit parts.
  template <int kJ, class Sink>
  EBB_INLINE static void q6_k_block(const Ints* low, const Ints* high, const Ints& scale_words, const Floats& d, Sink& sink) {
    constexpr int kByte = 2 * (kJ % 2);
    const Ints scale[2] = {
        Lanes::template shift_right_signed<24>(Lanes::template shift_left<24 - 8 * kByte>(scale_words)),
        Lanes::template shift_right_signed<24>(Lanes::template shift_left<16 - 8 * kByte>(scale_words))};
    EBB_UNROLL for (std::size_t w = 0; w < 8; ++w) {
      const Ints two_bits = bit_to_4<2 * kJ>(high[w]);
      const Ints bytes = Lanes::masked_or(two_bits, Lanes::broadcast(0x30303030), nibbles<kJ / 2>(low[w]));
      sink.template scaled_quads<32>(w, bytes, scale[w / 4]);
    }
    sink.end_scaled_block(d);
  }

  template <class Sink>
  EBB_INLINE static void q6_k(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    for (std::size_t b = 0; b < block_count; ++b, rows += 210) {
      const Floats d = Lanes::half_to_floats(Lanes::template shift_right<16>(Lanes::gather_words(rows + 206, stride)));
      Ints scale_words[4];
      Lanes::load_words(rows + 192, stride, scale_words);
      for (std::size_t half = 0; half < 2; ++half) {
        Ints low[16];
        EBB_UNROLL for (std::size_t q = 0; q < 4; ++q) Lanes::load_words(rows + 64 * half + 16 * q, stride, low + 4 * q);
        Ints high[8];
        EBB_UNROLL for (std::size_t q = 0; q < 2; ++q) Lanes::load_words(rows + 128 + 32 * half + 16 * q, stride, high + 4 * q);
        q6_k_block<0>(low, high, scale_words[2 * half], d, sink);
        q6_k_block<1>(low + 8, high, scale_words[2 * half], d, sink);
        q6_k_block<2>(low, high, scale_words[2 * half + 1], d, sink);
        q6_k_block<3>(low + 8, high, scale_words[2 * half + 1], d, sink);
      }
    }
  }

  /// `block_count` of the dtype's own blocks. False: the dtype has no function here, nothing was done.
  template <class Sink>
  static bool blocks(DType dtype, const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    switch (dtype) {
      case DType::Q8_0: q8_0(rows, stride, block_count, sink); return true;
      case DType::Q4_0: nibble_blocks<false, false>(rows, stride, block_count, sink); return true;
      case DType::Q4_1: nibble_blocks<true, false>(rows, stride, block_count, sink); return true;
      case DType::Q5_0: nibble_blocks<false, true>(rows, stride, block_count, sink); return true;
      case DType::Q5_1: nibble_blocks<true, true>(rows, stride, block_count, sink); return true;
      case DType::Q4_K: k_nibbles<false>(rows, stride, block_count, sink); return true;
      case DType::Q5_K: k_nibbles<true>(rows, stride, block_count, sink); return true;
      case DType::Q6_K: q6_k(rows, stride, block_count, sink); return true;
      default: return false;
    }
  }
};

}  // namespace
}  // namespace ebb::kernels
