// Packed rows to panels: sixteen rows at once, transposed while still packed, then spread by shifts and masks.
// Each function visits the 32-value blocks of its rows in order and hands a sink
//   pairs(p, ints)   pair p = 0 .. 15 of the current block, in pair order
//   offset(o, f)     an offset of the chunk, o counted from the chunk's start
//   end_block(f)     the block's scale; the next block begins
// and is held to integer_block.h, value for value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/internal/unroll.h"

namespace ebb::kernels {
namespace {

/// Bytes 0 and 2 of each lane (kShift 0), or 1 and 3 (kShift 8), one nibble of them: kShift + 4 takes the high nibbles.
template <class Lanes, int kShift>
typename Lanes::Ints nibbles(const typename Lanes::Ints& words) {
  return Lanes::bit_and(Lanes::template shift_right<kShift>(words), Lanes::broadcast(0x000f000f));
}

/// a with bit kBit moved to bit 4 of both halves, other bits undefined.
template <class Lanes, int kBit>
typename Lanes::Ints bit_to_4(const typename Lanes::Ints& a) {
  if constexpr (kBit < 4) {
    return Lanes::template shift_left<4 - kBit>(a);
  } else {
    return Lanes::template shift_right<kBit - 4>(a);
  }
}

template <class Lanes>
struct Unpack {
  using Ints = typename Lanes::Ints;
  using Floats = typename Lanes::Floats;

  template <class Sink>
  static void q8_0(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    for (std::size_t b = 0; b < block_count; ++b, rows += 34) {
      EBB_UNROLL for (std::size_t half = 0; half < 2; ++half) {
        Ints words[4];
        Lanes::load_words(rows + 2 + half * 16, stride, words);
        EBB_UNROLL for (std::size_t d = 0; d < 4; ++d) {
          const std::size_t p = half * 8 + d * 2;
          sink.pairs(p, Lanes::template shift_right_signed16<8>(Lanes::template shift_left16<8>(words[d])));
          sink.pairs(p + 1, Lanes::template shift_right_signed16<8>(words[d]));
        }
      }
      sink.end_block(Lanes::half_to_floats(Lanes::gather_words(rows, stride)));
    }
  }

  /// Q4_0, Q4_1, Q5_0, Q5_1.
  template <bool kOffset, bool kFifth, class Sink>
  static void nibble_blocks(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    constexpr std::size_t kFifthAt = kOffset ? 4 : 2;
    constexpr std::size_t kNibblesAt = kFifthAt + (kFifth ? 4 : 0);
    for (std::size_t b = 0; b < block_count; ++b, rows += kNibblesAt + 16) {
      const Ints head = Lanes::gather_words(rows, stride);  // d, then m or the fifth bits' low half
      Ints words[4];
      Lanes::load_words(rows + kNibblesAt, stride, words);
      Ints fifth_low = Lanes::zero();   // bit i of both halves serves pair (i, i + 2): the upper half is two bits ahead
      Ints fifth_high = Lanes::zero();  // the same for columns 16 + i
      if constexpr (kFifth) {
        const Ints bits = Lanes::gather_words(rows + kFifthAt, stride);
        const Ints low = Lanes::broadcast(0xffff);
        const Ints high = Lanes::broadcast(static_cast<std::int32_t>(0xffff0000u));
        fifth_low = Lanes::masked_or(Lanes::template shift_left<14>(bits), high, Lanes::bit_and(bits, low));
        fifth_high = Lanes::masked_or(Lanes::template shift_right<2>(bits), high, Lanes::template shift_right<16>(bits));
      }
      const auto finish = [](const Ints& nibble, const Ints& fifth) {
        Ints value = nibble;
        if constexpr (kFifth) value = Lanes::masked_or(fifth, Lanes::broadcast(0x00100010), value);
        if constexpr (!kOffset) value = Lanes::sub16(value, Lanes::broadcast(kFifth ? 0x00100010 : 0x00080008));
        return value;
      };
      const auto word = [&]<int kWord>() {
        constexpr std::size_t p = kWord * 2;
        sink.pairs(p, finish(nibbles<Lanes, 0>(words[kWord]), bit_to_4<Lanes, kWord * 4>(fifth_low)));
        sink.pairs(p + 1, finish(nibbles<Lanes, 8>(words[kWord]), bit_to_4<Lanes, kWord * 4 + 1>(fifth_low)));
        sink.pairs(p + 8, finish(nibbles<Lanes, 4>(words[kWord]), bit_to_4<Lanes, kWord * 4>(fifth_high)));
        sink.pairs(p + 9, finish(nibbles<Lanes, 12>(words[kWord]), bit_to_4<Lanes, kWord * 4 + 1>(fifth_high)));
      };
      word.template operator()<0>();
      word.template operator()<1>();
      word.template operator()<2>();
      word.template operator()<3>();
      if constexpr (kOffset) sink.offset(b, Lanes::half_to_floats(Lanes::template shift_right<16>(head)));
      sink.end_block(Lanes::half_to_floats(head));
    }
  }

  /// Byte kByte of each lane as a float.
  template <int kByte>
  static Floats byte_to_floats(const Ints& words) {
    return Lanes::to_floats(Lanes::bit_and(Lanes::template shift_right<8 * kByte>(words), Lanes::broadcast(0xff)));
  }

  /// Two blocks of 32 from 32 packed bytes: the low nibbles, then the high ones. kPair = 0 .. 3 of the 256.
  template <bool kFifth, int kPair, class Sink>
  static void k_nibbles_pair(const std::byte* nibbles_at, std::size_t stride, const Ints* fifth, const Ints& scales,
                             const Ints& minima, const Floats& d, const Floats& minus_dmin, std::size_t first_offset,
                             Sink& sink) {
    Ints words[8];
    Lanes::load_words(nibbles_at, stride, words);
    Lanes::load_words(nibbles_at + 16, stride, words + 4);
    const auto block = [&]<int kHigh>() {
      constexpr int kBlock = kPair * 2 + kHigh;
      EBB_UNROLL for (std::size_t w = 0; w < 8; ++w) {
        Ints even = nibbles<Lanes, 4 * kHigh>(words[w]);
        Ints odd = nibbles<Lanes, 8 + 4 * kHigh>(words[w]);
        if constexpr (kFifth) {
          even = Lanes::masked_or(bit_to_4<Lanes, kBlock>(fifth[w]), Lanes::broadcast(0x00100010), even);
          odd = Lanes::masked_or(bit_to_4<Lanes, kBlock + 8>(fifth[w]), Lanes::broadcast(0x00100010), odd);
        }
        sink.pairs(w * 2, even);
        sink.pairs(w * 2 + 1, odd);
      }
      constexpr int kByte = kBlock % 4;
      sink.offset(first_offset + kBlock, Lanes::mul(minus_dmin, byte_to_floats<kByte>(minima)));
      sink.end_block(Lanes::mul(d, byte_to_floats<kByte>(scales)));
    };
    block.template operator()<0>();
    block.template operator()<1>();
  }

  /// Q4_K, Q5_K.
  template <bool kFifth, class Sink>
  static void k_nibbles(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    constexpr std::size_t kNibblesAt = kFifth ? 48 : 16;
    for (std::size_t b = 0; b < block_count; ++b, rows += kNibblesAt + 128) {
      Ints head[4];  // d and dmin, then the twelve bytes of 6-bit scales and minima
      Lanes::load_words(rows, stride, head);
      const Floats d = Lanes::half_to_floats(head[0]);
      const Floats minus_dmin =
          Lanes::mul(Lanes::half_to_floats(Lanes::template shift_right<16>(head[0])), Lanes::broadcast(-1.0F));
      const Ints low6 = Lanes::broadcast(0x3f3f3f3f);
      const Ints low4 = Lanes::broadcast(0x0f0f0f0f);
      const Ints top2 = Lanes::broadcast(0x30303030);
      const Ints scales[2] = {Lanes::bit_and(head[1], low6),
                              Lanes::masked_or(Lanes::template shift_right<2>(head[1]), top2, Lanes::bit_and(head[3], low4))};
      const Ints minima[2] = {Lanes::bit_and(head[2], low6),
                              Lanes::masked_or(Lanes::template shift_right<2>(head[2]), top2,
                                               Lanes::bit_and(Lanes::template shift_right<4>(head[3]), low4))};
      Ints fifth[8];
      if constexpr (kFifth) {
        Lanes::load_words(rows + 16, stride, fifth);
        Lanes::load_words(rows + 32, stride, fifth + 4);
      }
      const std::byte* at = rows + kNibblesAt;
      k_nibbles_pair<kFifth, 0>(at, stride, fifth, scales[0], minima[0], d, minus_dmin, b * 8, sink);
      k_nibbles_pair<kFifth, 1>(at + 32, stride, fifth, scales[0], minima[0], d, minus_dmin, b * 8, sink);
      k_nibbles_pair<kFifth, 2>(at + 64, stride, fifth, scales[1], minima[1], d, minus_dmin, b * 8, sink);
      k_nibbles_pair<kFifth, 3>(at + 96, stride, fifth, scales[1], minima[1], d, minus_dmin, b * 8, sink);
    }
  }

  /// Byte kByte of each lane, sign-extended, in both int16 halves.
  template <int kByte>
  static Ints byte_to_pairs(const Ints& words) {
    const Ints value = Lanes::template shift_right_signed<24>(Lanes::template shift_left<24 - 8 * kByte>(words));
    return Lanes::masked_or(value, Lanes::broadcast(0xffff), Lanes::template shift_left<16>(value));
  }

  /// Block kJ = 0 .. 3 of one half of a Q6_K block: `low` holds its eight words of nibbles, `high` those of 2-bit parts.
  template <int kJ, class Sink>
  static void q6_k_block(const Ints* low, const Ints* high, const Ints& scale_words, const Floats& d, Sink& sink) {
    const Ints scale[2] = {byte_to_pairs<2 * (kJ % 2)>(scale_words), byte_to_pairs<2 * (kJ % 2) + 1>(scale_words)};
    const auto finish = [&](const Ints& nibble, const Ints& two_bits, std::size_t w) {
      const Ints value = Lanes::masked_or(two_bits, Lanes::broadcast(0x00300030), nibble);
      return Lanes::mul16(Lanes::sub16(value, Lanes::broadcast(0x00200020)), scale[w / 4]);
    };
    constexpr int kNibbleAt = kJ < 2 ? 0 : 4;
    EBB_UNROLL for (std::size_t w = 0; w < 8; ++w) {
      sink.pairs(w * 2, finish(nibbles<Lanes, kNibbleAt>(low[w]), bit_to_4<Lanes, 2 * kJ>(high[w]), w));
      sink.pairs(w * 2 + 1, finish(nibbles<Lanes, kNibbleAt + 8>(low[w]), bit_to_4<Lanes, 2 * kJ + 8>(high[w]), w));
    }
    sink.end_block(d);
  }

  template <class Sink>
  static void q6_k(const std::byte* rows, std::size_t stride, std::size_t block_count, Sink& sink) {
    for (std::size_t b = 0; b < block_count; ++b, rows += 210) {
      const Floats d = Lanes::half_to_floats(Lanes::template shift_right<16>(Lanes::gather_words(rows + 206, stride)));
      Ints scale_words[4];
      Lanes::load_words(rows + 192, stride, scale_words);
      EBB_UNROLL for (std::size_t half = 0; half < 2; ++half) {
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
