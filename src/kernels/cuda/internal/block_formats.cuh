// The file's packed blocks as a lane of a warp reads them. Work goes by groups of 1,024 columns of a row: a lane has a piece of 32
// values of it, eight times four, and names for each four where in the group they lie. A piece of a block format is two runs of
// 16 columns, chosen so that no byte of the quantised values is loaded by two lanes; scales hold for a run.
// weight = scale * (n - kBias) + offset with n a byte. Layouts: GGUF; held to kernels/dequantize.h by the tests.
// Blocks of 2-byte alignment are read in aligned words, so a read may pass the end of a matrix, within its last 4 bytes.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

namespace ebb::kernels::cuda {

using Word = std::uint32_t;

__device__ inline float half_to_float(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }
__device__ inline unsigned load_u8(const unsigned char* p) { return __ldg(p); }
__device__ inline unsigned load_u16(const unsigned char* p) { return __ldg(reinterpret_cast<const unsigned short*>(p)); }
__device__ inline Word load_u32(const unsigned char* p) { return __ldg(reinterpret_cast<const unsigned*>(p)); }
__device__ inline uint4 load_u128(const unsigned char* p) { return __ldg(reinterpret_cast<const uint4*>(p)); }

/// kWords words from an address of 2-byte alignment.
template <int kWords>
struct Words {
  Word held[kWords + 1];
  unsigned shift;

  /// Reads up to 2 bytes before p, and none after its last word's aligned end.
  __device__ void load(const unsigned char* p) {
    const auto skew = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) & 2);
    shift = 8 * skew;
#pragma unroll
    for (int i = 0; i < kWords; ++i) held[i] = load_u32(p - skew + 4 * i);
    held[kWords] = skew == 0 ? 0 : load_u32(p - skew + 4 * kWords);
  }
  __device__ Word operator[](int i) const { return __funnelshift_r(held[i], held[i + 1], shift); }
};

/// kWords words from an address of 4-byte alignment.
template <int kWords>
struct AlignedWords {
  Word held[kWords];

  __device__ void load(const unsigned char* p) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) held[i] = load_u32(p + 4 * i);
  }
  __device__ Word operator[](int i) const { return held[i]; }
};

/// The four low (high = 0) or high nibbles.
__device__ inline Word nibbles(Word word, int high) { return (high == 0 ? word : word >> 4) & 0x0f0f0f0fu; }

/// Bits first .. first + 3 to bit 4 of a byte each.
__device__ inline Word spread_bits(Word bits, int first) {
  const Word four = (bits >> first) & 15u;
  return ((four * 0x00204081u) & 0x01010101u) << 4;
}

/// Blocks of 32: a lane has one.
struct OfThirtyTwo {
  static constexpr unsigned kBlockValues = 32;
  __device__ static unsigned block_in_group(unsigned lane) { return lane; }
  __device__ static unsigned first_run(unsigned lane) { return 2 * lane; }
  static constexpr unsigned kSecondRun = 1;
};

/// {d, [m], [fifth bits], nibbles[16]}.
template <bool kHasMinimum, bool kHasFifth>
struct Nibbles32 : OfThirtyTwo {
  static constexpr unsigned kBlockBytes = 18 + (kHasMinimum ? 2 : 0) + (kHasFifth ? 4 : 0);
  static constexpr int kBias = kHasMinimum ? 0 : kHasFifth ? 16 : 8;
  static constexpr bool kHasOffset = kHasMinimum;
  static constexpr int kMagicByte = 2;
  static constexpr bool kFolds = true;
  static constexpr int kHead = kHasMinimum ? 4 : 2;

  Words<4> packed;
  unsigned fifth;
  float d;
  float m;

  __device__ void load(const unsigned char* block, unsigned /*lane*/) {
    d = half_to_float(load_u16(block));
    m = kHasMinimum ? half_to_float(load_u16(block + 2)) : 0.0f;
    fifth = kHasFifth ? load_u16(block + kHead) | load_u16(block + kHead + 2) << 16 : 0;
    packed.load(block + kHead + (kHasFifth ? 4 : 0));
  }
  __device__ Word bytes(int four) const {
    const Word low = nibbles(packed[four % 4], four / 4);
    return kHasFifth ? low | spread_bits(fifth, 4 * four) : low;
  }
  __device__ float scale(int /*run*/) const { return d; }
  __device__ float offset(int /*run*/) const { return m; }
};

struct Q80 : OfThirtyTwo {
  static constexpr unsigned kBlockBytes = 34;
  static constexpr int kBias = 128;
  static constexpr bool kHasOffset = false;
  static constexpr int kMagicByte = 1;
  static constexpr bool kFolds = true;

  Words<8> packed;
  float d;

  __device__ void load(const unsigned char* block, unsigned /*lane*/) {
    d = half_to_float(load_u16(block));
    packed.load(block + 2);
  }
  __device__ Word bytes(int four) const { return packed[four] ^ 0x80808080u; }
  __device__ float scale(int /*run*/) const { return d; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

/// The values of IQ4 plus 128, four of them from four nibbles.
__device__ inline Word iq4_values(Word sixteen_bits) {
  // -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, each + 128
  const Word at = sixteen_bits & 0x7777u;
  const Word low = __byte_perm(0x3f2d1801u, 0x766a5d4fu, at);
  const Word high = __byte_perm(0xa6998d81u, 0xf1d9c5b5u, at);
  return __byte_perm(low, high, 0x3210u + ((sixteen_bits & 0x8888u) >> 1));
}

/// Of a word's eight nibbles the four low or high ones, looked up.
__device__ inline Word iq4_bytes(Word word, int high) {
  return __byte_perm(iq4_values(word), iq4_values(word >> 16), high == 0 ? 0x6420u : 0x7531u);
}

struct Iq4Nl : OfThirtyTwo {
  static constexpr unsigned kBlockBytes = 18;
  static constexpr int kBias = 128;
  static constexpr bool kHasOffset = false;
  static constexpr int kMagicByte = 1;
  static constexpr bool kFolds = true;

  Words<4> packed;
  float d;

  __device__ void load(const unsigned char* block, unsigned /*lane*/) {
    d = half_to_float(load_u16(block));
    packed.load(block + 2);
  }
  __device__ Word bytes(int four) const { return iq4_bytes(packed[four % 4], four / 4); }
  __device__ float scale(int /*run*/) const { return d; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

/// Blocks of 256: eight lanes share one.
struct OfTwoHundredFiftySix {
  static constexpr unsigned kBlockValues = 256;
  __device__ static unsigned block_in_group(unsigned lane) { return lane / 8; }
};

/// {d, high scale bits, low scale bits[4], nibbles[128]}.
struct Iq4Xs : OfTwoHundredFiftySix {
  static constexpr unsigned kBlockBytes = 136;
  static constexpr int kBias = 128;
  static constexpr bool kHasOffset = false;
  static constexpr int kMagicByte = 1;
  static constexpr bool kFolds = false;  // 11 bits of d, 5 of the scale, 9 of the bias: one too many
  __device__ static unsigned first_run(unsigned lane) { return 2 * lane; }
  static constexpr unsigned kSecondRun = 1;

  AlignedWords<4> packed;
  float s;

  __device__ void load(const unsigned char* block, unsigned lane) {
    const unsigned k = lane % 8;
    const Word head = load_u32(block);
    const unsigned low = (load_u8(block + 4 + k / 2) >> (4 * (k % 2))) & 15u;
    const unsigned high = (head >> (16 + 2 * k)) & 3u;
    s = half_to_float(head & 0xffffu) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    packed.load(block + 8 + 16 * k);
  }
  __device__ Word bytes(int four) const { return iq4_bytes(packed[four % 4], four / 4); }
  __device__ float scale(int /*run*/) const { return s; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

}  // namespace ebb::kernels::cuda
