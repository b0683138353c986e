// Packed blocks to float32 inside kernels, the same bits as kernels/dequantize.h gives: sixteen neighbours of a row at once,
// the most that share one scale in every format. A scale times a quant is exact in float32, so that the one rounding is
// that of adding the offset (kernels/cpu/internal/integer_block.h says why).
// Included by .cu files alone. A matrix begins at a multiple of sixteen bytes; blocks lie at multiples of what divides their size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ebb::kernels::cuda {

/// kBlockBytes and kBlockValues as dtype_info() has them.
template <DType kType>
struct Format;
#define EBB_FORMAT(kType, kValues, kBytes)         \
  template <>                                      \
  struct Format<DType::kType> {                    \
    static constexpr unsigned kBlockValues = kValues; \
    static constexpr unsigned kBlockBytes = kBytes;   \
  };
EBB_FORMAT(F32, 1, 4)
EBB_FORMAT(F16, 1, 2)
EBB_FORMAT(BF16, 1, 2)
EBB_FORMAT(Q4_0, 32, 18)
EBB_FORMAT(Q4_1, 32, 20)
EBB_FORMAT(Q5_0, 32, 22)
EBB_FORMAT(Q5_1, 32, 24)
EBB_FORMAT(Q8_0, 32, 34)
EBB_FORMAT(Q2_K, 256, 84)
EBB_FORMAT(Q3_K, 256, 110)
EBB_FORMAT(Q4_K, 256, 144)
EBB_FORMAT(Q5_K, 256, 176)
EBB_FORMAT(Q6_K, 256, 210)
EBB_FORMAT(IQ4_NL, 32, 18)
EBB_FORMAT(IQ4_XS, 256, 136)
#undef EBB_FORMAT

inline constexpr unsigned kNeighbours = 16;

__device__ inline float f16_value(unsigned bits) {
  float value = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}
__device__ inline float bf16_value(unsigned bits) { return __uint_as_float(bits << 16); }

__device__ inline unsigned half_word(const unsigned char* at) { return *reinterpret_cast<const std::uint16_t*>(at); }
__device__ inline float half_at(const unsigned char* at) { return f16_value(half_word(at)); }

/// Four bytes, as wide a read as the format's alignment allows.
template <DType kType>
__device__ inline std::uint32_t word_at(const unsigned char* at) {
  if constexpr (Format<kType>::kBlockBytes % 4 == 0) return *reinterpret_cast<const std::uint32_t*>(at);
  return half_word(at) | half_word(at + 2) << 16;
}

struct Sixteen {
  std::uint32_t words[4];
};

/// Sixteen bytes, likewise.
template <DType kType>
__device__ inline Sixteen sixteen_at(const unsigned char* at) {
  if constexpr (Format<kType>::kBlockBytes % 16 == 0) {
    const uint4 held = *reinterpret_cast<const uint4*>(at);
    return {{held.x, held.y, held.z, held.w}};
  }
  return {{word_at<kType>(at), word_at<kType>(at + 4), word_at<kType>(at + 8), word_at<kType>(at + 12)}};
}

/// Value i is scale * q[i] + offset.
struct Neighbours {
  float scale;
  float offset;
  int q[kNeighbours];

  template <typename Map>
  __device__ void set_bytes(unsigned word_idx, std::uint32_t word, Map map) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) q[4 * word_idx + i] = map((word >> (8 * i)) & 0xffu);
  }
};

__device__ inline int iq4_value(unsigned nibble) {
  const std::uint32_t low = (nibble & 4u) != 0 ? 0xf6eaddcfu : 0xbfad9881u;
  const std::uint32_t high = (nibble & 4u) != 0 ? 0x71594535u : 0x26190d01u;
  return static_cast<std::int8_t>(((nibble & 8u) != 0 ? high : low) >> (8 * (nibble & 3u)));
}

/// The 6-bit scale and minimum of sub-block k of Q4_K and Q5_K, from the twelve bytes that hold eight of each.
__device__ inline void k_scales(const uint4& head, unsigned k, unsigned& scale, unsigned& minimum) {
  const unsigned at = 8 * (k % 4);
  const unsigned first = (head.y >> at) & 0xffu;
  const unsigned second = (head.z >> at) & 0xffu;
  const unsigned third = (head.w >> at) & 0xffu;
  scale = k < 4 ? first & 63u : (third & 15u) | (first >> 6) << 4;
  minimum = k < 4 ? second & 63u : (third >> 4) | (second >> 6) << 4;
}

/// Values i .. i + 15 of a block of 32.
template <DType kType>
__device__ inline void decode_32(const unsigned char* block, unsigned i, Neighbours& out) {
  constexpr bool kHasOffset = kType == DType::Q4_1 || kType == DType::Q5_1;
  constexpr bool kHasFifth = kType == DType::Q5_0 || kType == DType::Q5_1;
  constexpr int kZero = kHasOffset ? 0 : kHasFifth ? 16 : 8;
  constexpr unsigned kFifthAt = kHasOffset ? 4 : 2;
  constexpr unsigned kQuantsAt = kFifthAt + (kHasFifth ? 4 : 0);
  out.scale = half_at(block);
  out.offset = kHasOffset ? half_at(block + 2) : 0.0f;
  const std::uint32_t fifth = kHasFifth ? word_at<kType>(block + kFifthAt) >> i : 0;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if constexpr (kType == DType::Q8_0) {
      out.set_bytes(k, word_at<kType>(block + 2 + i + 4 * k), [](unsigned byte) -> int { return static_cast<std::int8_t>(byte); });
    } else {
      const std::uint32_t nibbles = (word_at<kType>(block + kQuantsAt + 4 * k) >> (i / 4)) & 0x0f0f0f0fu;
      if constexpr (kType == DType::IQ4_NL) {
        out.set_bytes(k, nibbles, iq4_value);
      } else {
        out.set_bytes(k, nibbles, [](unsigned nibble) { return static_cast<int>(nibble) - kZero; });
#pragma unroll
        for (unsigned n = 4 * k; kHasFifth && n < 4 * k + 4; ++n) out.q[n] += static_cast<int>((fifth >> n) & 1u) * 16;
      }
    }
  }
}

/// Values i .. i + 15 of a block of 256.
template <DType kType>
__device__ inline void decode_256(const unsigned char* block, unsigned i, Neighbours& out) {
  const unsigned half = i / 128;
  const unsigned part = i % 128 / 32;  // of a half
  const unsigned in_part = i % 32;
  const unsigned k = i / 32;
  const unsigned char* words = block;  // four of them, shifted and masked
  unsigned shift = 0;
  out.offset = 0.0f;
  if constexpr (kType == DType::Q4_K || kType == DType::Q5_K) {
    unsigned scale = 0;
    unsigned minimum = 0;
    const uint4 head = *reinterpret_cast<const uint4*>(block);
    k_scales(head, k, scale, minimum);
    out.scale = f16_value(head.x & 0xffffu) * static_cast<float>(scale);
    out.offset = -(f16_value(head.x >> 16) * static_cast<float>(minimum));
    words = block + (kType == DType::Q5_K ? 48 : 16) + 32 * (k / 2) + in_part;
    shift = 4 * (k % 2);
  } else if constexpr (kType == DType::Q6_K) {
    out.scale = half_at(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192 + i / 16]));
    words = block + 64 * half + in_part + 32 * (part % 2);
    shift = 4 * (part / 2);
  } else if constexpr (kType == DType::Q2_K) {
    const unsigned scale = block[i / 16];
    out.scale = half_at(block + 80) * static_cast<float>(scale & 15u);
    out.offset = -(half_at(block + 82) * static_cast<float>(scale >> 4));
    words = block + 16 + 32 * half + in_part;
    shift = 2 * part;
  } else if constexpr (kType == DType::Q3_K) {
    const unsigned idx = i / 16;
    const unsigned low = (block[96 + idx % 8] >> (4 * (idx / 8))) & 15u;
    const unsigned high = (block[104 + idx % 4] >> (2 * (idx / 4))) & 3u;
    out.scale = half_at(block + 108) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    words = block + 32 + 32 * half + in_part;
    shift = 2 * part;
  } else {
    static_assert(kType == DType::IQ4_XS);
    const unsigned low = (block[4 + k / 2] >> (4 * (k % 2))) & 15u;
    const unsigned high = (half_word(block + 2) >> (2 * k)) & 3u;
    out.scale = half_at(block) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    words = block + 8 + 16 * k;
    shift = in_part / 4;
  }
  const Sixteen held = sixteen_at<kType>(words);
#pragma unroll
  for (unsigned n = 0; n < 4; ++n) {
    const std::uint32_t word = held.words[n] >> shift;
    if constexpr (kType == DType::Q4_K) {
      out.set_bytes(n, word & 0x0f0f0f0fu, [](unsigned q) { return static_cast<int>(q); });
    } else if constexpr (kType == DType::Q5_K) {
      const std::uint32_t fifth = (sixteen_at<kType>(block + 16 + in_part).words[n] >> k) & 0x01010101u;
      out.set_bytes(n, (word & 0x0f0f0f0fu) | fifth << 4, [](unsigned q) { return static_cast<int>(q); });
    } else if constexpr (kType == DType::Q6_K) {
      const std::uint32_t high = (word_at<kType>(block + 128 + 32 * half + in_part + 4 * n) >> (2 * part)) & 0x03030303u;
      out.set_bytes(n, (word & 0x0f0f0f0fu) | high << 4, [](unsigned q) { return static_cast<int>(q) - 32; });
    } else if constexpr (kType == DType::Q2_K) {
      out.set_bytes(n, word & 0x03030303u, [](unsigned q) { return static_cast<int>(q); });
    } else if constexpr (kType == DType::Q3_K) {
      const std::uint32_t keeps = (word_at<kType>(block + in_part + 4 * n) >> (i / 32)) & 0x01010101u;
      out.set_bytes(n, (word & 0x03030303u) | keeps << 2, [](unsigned q) { return static_cast<int>(q) - 4; });
    } else {
      out.set_bytes(n, word & 0x0f0f0f0fu, iq4_value);
    }
  }
}

/// out[0 .. 16) = columns first .. first + 15 of a row, zeros past `cols`; first is a multiple of 16.
template <DType kType>
__device__ inline void dequantize_neighbours(const unsigned char* row, unsigned first, unsigned cols, float (&out)[kNeighbours]) {
  using F = Format<kType>;
  if constexpr (F::kBlockValues == 1) {
    if constexpr (F::kBlockBytes == 2) {
      const unsigned char* at = row + static_cast<std::size_t>(first) * 2;
      if (first + kNeighbours <= cols && reinterpret_cast<std::uintptr_t>(at) % 16 == 0) {
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
          const uint4 eight = reinterpret_cast<const uint4*>(at)[i];
          const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
          for (unsigned n = 0; n < 8; ++n) {
            const std::uint32_t bits = (words[n / 2] >> (16 * (n % 2))) & 0xffffu;
            out[8 * i + n] = kType == DType::F16 ? f16_value(bits) : bf16_value(bits);
          }
        }
        return;
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kNeighbours; ++i) {
      const unsigned char* at = row + static_cast<std::size_t>(first + i) * F::kBlockBytes;
      out[i] = 0.0f;
      if (first + i >= cols) continue;
      if constexpr (kType == DType::F32) out[i] = *reinterpret_cast<const float*>(at);
      if constexpr (kType == DType::F16) out[i] = half_at(at);
      if constexpr (kType == DType::BF16) out[i] = bf16_value(half_word(at));
    }
  } else {
    Neighbours packed;
    const unsigned char* block = row + static_cast<std::size_t>(first / F::kBlockValues) * F::kBlockBytes;
    if constexpr (F::kBlockValues == 32) decode_32<kType>(block, first % 32, packed);
    if constexpr (F::kBlockValues == 256) decode_256<kType>(block, first % 256, packed);
#pragma unroll
    for (unsigned i = 0; i < kNeighbours; ++i) out[i] = fmaf(packed.scale, static_cast<float>(packed.q[i]), packed.offset);
  }
}

template <DType kType>
__device__ inline std::size_t row_bytes_of(unsigned cols) {
  return static_cast<std::size_t>(cols / Format<kType>::kBlockValues) * Format<kType>::kBlockBytes;
}

}  // namespace ebb::kernels::cuda
