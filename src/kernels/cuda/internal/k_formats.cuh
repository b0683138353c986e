// The K formats as a lane reads them (internal/block_formats.cuh): eight lanes share a block of 256.
#pragma once

#include "kernels/cuda/internal/block_formats.cuh"

namespace ebb::kernels::cuda {

/// {d, dmin, scales[12], [fifth bits[32]], nibbles[128]}: a lane has 16 bytes of nibbles, which are a run of sub-block 2j (low) and
/// one of 2j + 1 (high), j = lane % 8 / 2.
template <bool kHasFifth>
struct Q45K : OfTwoHundredFiftySix {
  static constexpr unsigned kBlockBytes = kHasFifth ? 176 : 144;
  static constexpr int kBias = 0;
  static constexpr bool kHasOffset = true;
  static constexpr int kMagicByte = 2;
  static constexpr bool kFolds = true;
  __device__ static unsigned first_run(unsigned lane) { return lane / 8 * 16 + lane % 8 / 2 * 4 + lane % 2; }
  static constexpr unsigned kSecondRun = 2;

  uint4 packed;
  uint4 fifth;
  unsigned first_bit;
  float s[2];
  float m[2];

  __device__ void load(const unsigned char* block, unsigned lane) {
    const unsigned j = lane % 8 / 2;
    const uint4 head = load_u128(block);
    const float d = half_to_float(head.x & 0xffffu);
    const float dmin = half_to_float(head.x >> 16);
    // Six-bit pairs of sub-blocks 2j and 2j + 1: whole bytes below 4, else low four bits in one word and high two in another.
    const unsigned at = 16 * (j % 2);
    const unsigned scales = head.y >> at;
    const unsigned minima = head.z >> at;
    const unsigned rest = head.w >> at;
    const unsigned six = j < 2 ? scales & 0x3f3fu : (rest & 0x0f0fu) | ((scales >> 2) & 0x3030u);
    const unsigned six_m = j < 2 ? minima & 0x3f3fu : ((rest >> 4) & 0x0f0fu) | ((minima >> 2) & 0x3030u);
    s[0] = d * static_cast<float>(six & 63u);
    s[1] = d * static_cast<float>(six >> 8);
    m[0] = -(dmin * static_cast<float>(six_m & 63u));
    m[1] = -(dmin * static_cast<float>(six_m >> 8));
    first_bit = 2 * j;
    packed = load_u128(block + (kHasFifth ? 48 : 16) + 16 * (lane % 8));
    if (kHasFifth) fifth = load_u128(block + 16 + 16 * (lane % 2));
  }
  __device__ Word bytes(int four) const {
    const Word low = nibbles((&packed.x)[four % 4], four / 4);
    if (!kHasFifth) return low;
    return low | (((&fifth.x)[four % 4] >> (first_bit + four / 4)) & 0x01010101u) << 4;
  }
  __device__ float scale(int run) const { return s[run]; }
  __device__ float offset(int run) const { return m[run]; }
};

/// {low nibbles[128], high pairs of bits[64], scales[16], d}: lane % 8 = 4 half + 2 odd quarter + run.
struct Q6K : OfTwoHundredFiftySix {
  static constexpr unsigned kBlockBytes = 210;
  static constexpr int kBias = 32;
  static constexpr bool kHasOffset = false;
  static constexpr int kMagicByte = 2;
  static constexpr bool kFolds = true;
  __device__ static unsigned first_run(unsigned lane) { return lane / 8 * 16 + lane % 8 / 4 * 8 + lane % 4; }
  static constexpr unsigned kSecondRun = 4;

  Words<4> low;
  Words<4> high;
  unsigned first_bit;
  float s[2];

  __device__ void load(const unsigned char* block, unsigned lane) {
    const unsigned piece = lane % 8;
    const unsigned scale_at = 192 + piece / 4 * 8 + piece % 4;
    const float d = half_to_float(load_u16(block + 208));
    s[0] = d * static_cast<float>(static_cast<signed char>(load_u8(block + scale_at)));
    s[1] = d * static_cast<float>(static_cast<signed char>(load_u8(block + scale_at + 4)));
    first_bit = piece % 4 / 2 * 2;
    low.load(block + 16 * piece);
    high.load(block + 128 + piece / 4 * 32 + 16 * (piece % 2));
  }
  __device__ Word bytes(int four) const {
    const Word top = (high[four % 4] >> (first_bit + four / 4 * 4)) & 0x03030303u;
    return nibbles(low[four % 4], four / 4) | top << 4;
  }
  __device__ float scale(int run) const { return s[run]; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

/// Where a piece of Q2_K and Q3_K lies: lane % 8 = 4 half + 2 pair of quarters + run; quarters 2 pair and 2 pair + 1.
struct OfQuarters : OfTwoHundredFiftySix {
  __device__ static unsigned first_run(unsigned lane) { return lane / 8 * 16 + lane % 8 / 2 * 4 + lane % 2; }
  static constexpr unsigned kSecondRun = 2;
};

/// {scales and minima[16], pairs of bits[64], d, dmin}.
struct Q2K : OfQuarters {
  static constexpr unsigned kBlockBytes = 84;
  static constexpr int kBias = 0;
  static constexpr bool kHasOffset = true;
  static constexpr int kMagicByte = 2;
  static constexpr bool kFolds = true;

  AlignedWords<4> packed;
  unsigned first_bit;
  float s[2];
  float m[2];

  __device__ void load(const unsigned char* block, unsigned lane) {
    const unsigned piece = lane % 8;
    const Word factors = load_u32(block + 80);
    const unsigned run = piece / 2 * 4 + piece % 2;
    first_bit = piece % 4 / 2 * 4;
    packed.load(block + 16 + piece / 4 * 32 + 16 * (piece % 2));
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned both = load_u8(block + run + 2 * i);
      s[i] = half_to_float(factors & 0xffffu) * static_cast<float>(both & 15u);
      m[i] = -(half_to_float(factors >> 16) * static_cast<float>(both >> 4));
    }
  }
  __device__ Word bytes(int four) const { return (packed[four % 4] >> (first_bit + four / 4 * 2)) & 0x03030303u; }
  __device__ float scale(int run) const { return s[run]; }
  __device__ float offset(int run) const { return m[run]; }
};

/// {third bits[32], pairs of bits[64], scales[12], d}.
struct Q3K : OfQuarters {
  static constexpr unsigned kBlockBytes = 110;
  static constexpr int kBias = 4;
  static constexpr bool kHasOffset = false;
  static constexpr int kMagicByte = 2;
  static constexpr bool kFolds = true;

  Words<4> low;
  Words<4> third;
  unsigned quarter;  // of the block's eight
  float s[2];

  __device__ void load(const unsigned char* block, unsigned lane) {
    const unsigned piece = lane % 8;
    const float d = half_to_float(load_u16(block + 108));
    quarter = piece / 2 * 2;
    low.load(block + 32 + piece / 4 * 32 + 16 * (piece % 2));
    third.load(block + 16 * (piece % 2));
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned run = piece / 2 * 4 + piece % 2 + 2 * i;
      const unsigned low4 = (load_u8(block + 96 + run % 8) >> (run / 8 * 4)) & 15u;
      const unsigned high2 = (load_u8(block + 104 + run % 4) >> (run / 4 * 2)) & 3u;
      s[i] = d * static_cast<float>(static_cast<int>(low4 | high2 << 4) - 32);
    }
  }
  __device__ Word bytes(int four) const {
    const unsigned at = quarter + four / 4;
    return ((low[four % 4] >> (at % 4 * 2)) & 0x03030303u) | ((third[four % 4] >> at) & 0x01010101u) << 2;
  }
  __device__ float scale(int run) const { return s[run]; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

}  // namespace ebb::kernels::cuda
