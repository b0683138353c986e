// Rows of keys and values read by lanes: eight columns a lane, of every type, as they lie in memory and as numbers. For
// kernels of this folder alone; a warp reads a row together.
#pragma once

#include "kernels/cuda/kv_place.h"

namespace ebb::kernels::cuda {
namespace {

constexpr int kColumns = 8;  // of a lane

/// Eight columns of a row as they lie in memory, and as numbers times a scale.
template <unsigned kKind>
struct Columns {
  static constexpr bool kHasScale = false;
  uint4 bits = {0, 0, 0, 0};
  __device__ void load(const char* row, unsigned chunk) { bits = __ldg(reinterpret_cast<const uint4*>(row) + chunk); }
  __device__ void numbers(float (&x)[kColumns]) const {
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kKind == kKindBf16) {
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
      } else {
        asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
            : "=f"(x[2 * i]), "=f"(x[2 * i + 1])
            : "r"(words[i]));
      }
    }
  }
  __device__ float scale() const { return 1; }
};

template <>
struct Columns<kKindF32> {
  static constexpr bool kHasScale = false;
  float4 low = {0, 0, 0, 0};
  float4 high = {0, 0, 0, 0};
  __device__ void load(const char* row, unsigned chunk) {
    low = __ldg(reinterpret_cast<const float4*>(row) + 2 * chunk);
    high = __ldg(reinterpret_cast<const float4*>(row) + 2 * chunk + 1);
  }
  __device__ void numbers(float (&x)[kColumns]) const {
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  }
  __device__ float scale() const { return 1; }
};

/// Q8_0 and Q4_0: a half as scale, then bytes. Blocks begin at even addresses. Where rows are whole words of 4 bytes
/// and have an even number of blocks, a lane reads the three words that cover its eight bytes and shifts them into
/// place, and none passes the row: the last block begins at 2 mod 4, so its bytes at 0.
template <bool kInWords>
struct BlockBytes {
  static constexpr bool kHasScale = true;
  unsigned low = 0;
  unsigned high = 0;
  unsigned short scale_bits = 0;
  __device__ void load_bytes(const char* row, unsigned block_at, unsigned bytes_at) {
    scale_bits = __ldg(reinterpret_cast<const unsigned short*>(row + block_at));
    if constexpr (kInWords) {
      const unsigned skew = 4 - (bytes_at & 2u);  // 4: the first word is not needed
      const auto* const words = reinterpret_cast<const unsigned*>(row + (bytes_at - skew));
      const unsigned second = __ldg(words + 1);
      low = __funnelshift_rc(__ldg(words), second, skew * 8);
      high = __funnelshift_rc(second, __ldg(words + 2), skew * 8);
    } else {
      const auto* const halves = reinterpret_cast<const unsigned short*>(row + bytes_at);
      low = __ldg(halves) | static_cast<unsigned>(__ldg(halves + 1)) << 16;
      high = __ldg(halves + 2) | static_cast<unsigned>(__ldg(halves + 3)) << 16;
    }
  }
  __device__ float scale() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(scale_bits));
    return value;
  }
  /// Bytes as floats less `bias`: a byte under the exponent of 2^23 is 2^23 and the byte.
  __device__ static void bytes_to_floats(unsigned bytes, float bias, float* x) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7440u + i)) - (8388608.0f + bias);
  }
};

template <bool kInWords>
struct ColumnsOfQ8 : BlockBytes<kInWords> {
  __device__ void load(const char* row, unsigned chunk) {
    this->load_bytes(row, chunk / 4 * 34, chunk / 4 * 34 + 2 + chunk % 4 * 8);
  }
  __device__ void numbers(float (&x)[kColumns]) const {
    this->bytes_to_floats(this->low ^ 0x80808080u, 128, x);
    this->bytes_to_floats(this->high ^ 0x80808080u, 128, x + 4);
  }
};

template <bool kInWords>
struct ColumnsOfQ4 : BlockBytes<kInWords> {
  unsigned nibble = 0;
  __device__ void load(const char* row, unsigned chunk) {
    this->load_bytes(row, chunk / 4 * 18, chunk / 4 * 18 + 2 + chunk % 2 * 8);
    nibble = chunk % 4 / 2 * 4;
  }
  __device__ void numbers(float (&x)[kColumns]) const {
    this->bytes_to_floats((this->low >> nibble) & 0x0f0f0f0fu, 8, x);
    this->bytes_to_floats((this->high >> nibble) & 0x0f0f0f0fu, 8, x + 4);
  }
};

template <>
struct Columns<kKindQ8> : ColumnsOfQ8<true> {};
template <>
struct Columns<kKindQ4> : ColumnsOfQ4<true> {};
template <>
struct Columns<kKindQ8InHalves> : ColumnsOfQ8<false> {};
template <>
struct Columns<kKindQ4InHalves> : ColumnsOfQ4<false> {};

}  // namespace
}  // namespace ebb::kernels::cuda
