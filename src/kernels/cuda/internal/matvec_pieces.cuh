// A lane's 32 weights of a group of 1,024 columns, as float32: what the product of internal/matvec_body.cuh is written over.
//   load(row, group, lane, cols, is_aligned)   brings them into registers, zeros past the end of the row
//   quad_at(lane, four)                        which four columns of the group the weights of four() meet
//   four(four)                                 weights of it, without the offset
//   offset(run)                                of the fours 4 run .. 4 run + 3, where kHasOffset
#pragma once

#include "kernels/cuda/internal/k_formats.cuh"

namespace ebb::kernels::cuda {

inline constexpr unsigned kGroupColumns = 1024;
inline constexpr unsigned kGroupQuads = kGroupColumns / 4;

/// A block format. A byte n becomes a float by standing in the mantissa of a power of two: 2^7 + n, or 2^15 + n where n needs eight
/// bits. Where (2^k + bias) * scale fits 24 bits, one fused multiply-add takes it away again, exactly.
template <class Format>
struct BlockPiece : Format {
  using Format::kBias;
  using Format::kFolds;
  using Format::kMagicByte;

  __device__ void load(const unsigned char* row, unsigned group, unsigned lane, unsigned cols, bool /*is_aligned*/) {
    const unsigned block = group * (kGroupColumns / Format::kBlockValues) + Format::block_in_group(lane);
    if (block * Format::kBlockValues < cols) Format::load(row + std::size_t{block} * Format::kBlockBytes, lane);
  }
  __device__ static bool is_inside(unsigned group, unsigned lane, unsigned cols) {
    return group * kGroupColumns + Format::block_in_group(lane) * Format::kBlockValues < cols;
  }
  __device__ static unsigned quad_at(unsigned lane, int four) {
    return 4 * (Format::first_run(lane) + (four / 4) * Format::kSecondRun) + four % 4;
  }
  __device__ float4 four(int four) const {
    constexpr float kCentre = (kMagicByte == 2 ? 128.0f : 32768.0f) + kBias;
    const Word bytes = Format::bytes(four);
    const float scale = Format::scale(four / 4);
    const float away = -kCentre * scale;
    const auto weight = [&](unsigned i) {
      const unsigned selector = kMagicByte == 2 ? 0x7044u + (i << 8) : 0x7404u + (i << 4);
      const float raised = __uint_as_float(__byte_perm(bytes, kMagicByte == 2 ? 0x43000000u : 0x47000000u, selector));
      return kFolds ? fmaf(raised, scale, away) : __fmul_rn(__fsub_rn(raised, kCentre), scale);
    };
    return float4{weight(0), weight(1), weight(2), weight(3)};
  }
};

/// F16 and BF16: sixteen bytes at a time, eight columns a lane.
template <bool kIsBf16>
struct HalfPiece {
  static constexpr bool kHasOffset = false;
  uint4 held[4];

  __device__ void load(const unsigned char* row, unsigned group, unsigned lane, unsigned cols, bool is_aligned) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned c = group * kGroupColumns + i * 256 + lane * 8;
      const unsigned char* const at = row + std::size_t{c} * 2;
      held[i] = uint4{0, 0, 0, 0};
      if (is_aligned && c + 8 <= cols) {
        held[i] = load_u128(at);
      } else if (c < cols) {
        const auto word = [&](unsigned first) {
          const Word low = c + first < cols ? load_u16(at + 2 * first) : 0;
          const Word high = c + first + 1 < cols ? load_u16(at + 2 * first + 2) : 0;
          return low | high << 16;
        };
        held[i] = uint4{word(0), word(2), word(4), word(6)};
      }
    }
  }
  __device__ static bool is_inside(unsigned group, unsigned lane, unsigned cols) {
    return group * kGroupColumns + lane * 8 < cols;
  }
  __device__ static unsigned quad_at(unsigned lane, int four) { return four / 2 * 64 + lane * 2 + four % 2; }
  __device__ float4 four(int four) const {
    const uint4 eight = held[four / 2];
    const Word low = four % 2 == 0 ? eight.x : eight.z;
    const Word high = four % 2 == 0 ? eight.y : eight.w;
    return float4{value(low & 0xffffu), value(low >> 16), value(high & 0xffffu), value(high >> 16)};
  }
  __device__ static float value(Word bits) { return kIsBf16 ? __uint_as_float(bits << 16) : half_to_float(bits); }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

struct FloatPiece {
  static constexpr bool kHasOffset = false;
  float4 held[8];

  __device__ void load(const unsigned char* row, unsigned group, unsigned lane, unsigned cols, bool is_aligned) {
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned c = group * kGroupColumns + i * 128 + lane * 4;
      const auto* const at = reinterpret_cast<const float*>(row) + c;
      const auto value = [&](unsigned k) { return c + k < cols ? __ldg(at + k) : 0.0f; };
      held[i] = is_aligned && c + 4 <= cols ? __ldg(reinterpret_cast<const float4*>(at))
                                            : float4{value(0), value(1), value(2), value(3)};
    }
  }
  __device__ static bool is_inside(unsigned group, unsigned lane, unsigned cols) {
    return group * kGroupColumns + lane * 4 < cols;
  }
  __device__ static unsigned quad_at(unsigned lane, int four) { return four * 32 + lane; }
  __device__ float4 four(int four) const { return held[four]; }
  __device__ float offset(int /*run*/) const { return 0.0f; }
};

}  // namespace ebb::kernels::cuda
