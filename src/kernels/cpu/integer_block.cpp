#include "kernels/cpu/internal/integer_block.h"

#include <array>

#include "base/check.h"
#include "base/half.h"

namespace ebb::kernels {
namespace {

constexpr std::array<std::int16_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

int byte_at(const std::byte* p, std::size_t idx) { return std::to_integer<int>(p[idx]); }
int signed_byte_at(const std::byte* p, std::size_t idx) { return static_cast<std::int8_t>(p[idx]); }
unsigned word_at(const std::byte* p, std::size_t idx) {
  return static_cast<unsigned>(byte_at(p, idx) | byte_at(p, idx + 1) << 8);
}
float half_at(const std::byte* p, std::size_t idx) { return f16_to_float(static_cast<std::uint16_t>(word_at(p, idx))); }
std::int16_t narrow(int value) { return static_cast<std::int16_t>(value); }

/// 32 nibbles in 16 bytes: the first half in the low nibbles, the second in the high ones.
int nibble_of_32(const std::byte* qs, std::size_t i) { return i < 16 ? byte_at(qs, i) & 15 : byte_at(qs, i - 16) >> 4; }

/// Q4_0, Q4_1, Q5_0, Q5_1: {d, [m], [fifth bits u32], nibbles[16]}.
void decode_nibbles(const std::byte* block, bool has_offset, bool has_fifth_bit, IntegerBlock& out) {
  const std::size_t fifth_at = has_offset ? 4 : 2;
  const unsigned fifth = has_fifth_bit ? word_at(block, fifth_at) | word_at(block, fifth_at + 2) << 16 : 0;
  const std::byte* qs = block + fifth_at + (has_fifth_bit ? 4 : 0);
  const int zero = has_offset ? 0 : has_fifth_bit ? 16 : 8;
  for (std::size_t i = 0; i < 32; ++i) {
    out.q[i] = narrow(nibble_of_32(qs, i) + static_cast<int>((fifth >> i) & 1u) * 16 - zero);
  }
  out.scale[0] = half_at(block, 0);
  if (has_offset) out.offset[0] = half_at(block, 2);
}

void decode_q8_0(const std::byte* block, IntegerBlock& out) {
  for (std::size_t i = 0; i < 32; ++i) out.q[i] = narrow(signed_byte_at(block, 2 + i));
  out.scale[0] = half_at(block, 0);
}

void decode_iq4_nl(const std::byte* block, IntegerBlock& out) {
  for (std::size_t i = 0; i < 32; ++i) out.q[i] = kIq4Values[static_cast<std::size_t>(nibble_of_32(block + 2, i))];
  out.scale[0] = half_at(block, 0);
}

void decode_iq4_xs(const std::byte* block, IntegerBlock& out) {
  const float d = half_at(block, 0);
  const unsigned high = word_at(block, 2);
  for (std::size_t k = 0; k < 8; ++k) {
    const int low4 = (byte_at(block, 4 + k / 2) >> (4 * (k % 2))) & 15;
    const int scale = low4 | static_cast<int>((high >> (2 * k)) & 3u) << 4;
    out.scale[k] = d * static_cast<float>(scale - 32);
    for (std::size_t i = 0; i < 32; ++i) {
      out.q[32 * k + i] = kIq4Values[static_cast<std::size_t>(nibble_of_32(block + 8 + 16 * k, i))];
    }
  }
}

/// Q4_K, Q5_K: {d, dmin, scales[12], [fifth bits [32]], nibbles[128]}; eight 6-bit scales and minima in 12 bytes.
void decode_q4_k(const std::byte* block, bool has_fifth_bit, IntegerBlock& out) {
  const float d = half_at(block, 0);
  const float dmin = half_at(block, 2);
  const std::byte* scales = block + 4;
  const std::byte* qh = block + 16;
  const std::byte* qs = block + (has_fifth_bit ? 48 : 16);
  for (std::size_t k = 0; k < 8; ++k) {
    const int scale = k < 4 ? byte_at(scales, k) & 63 : (byte_at(scales, k + 4) & 15) | (byte_at(scales, k - 4) >> 6) << 4;
    const int minimum = k < 4 ? byte_at(scales, k + 4) & 63 : byte_at(scales, k + 4) >> 4 | (byte_at(scales, k) >> 6) << 4;
    out.scale[k] = d * static_cast<float>(scale);
    out.offset[k] = -(dmin * static_cast<float>(minimum));
    for (std::size_t i = 0; i < 32; ++i) {
      const int packed = byte_at(qs, 32 * (k / 2) + i);
      const int nibble = k % 2 == 0 ? packed & 15 : packed >> 4;
      out.q[32 * k + i] = narrow(nibble + (has_fifth_bit ? ((byte_at(qh, i) >> k) & 1) * 16 : 0));
    }
  }
}

void decode_q6_k(const std::byte* block, IntegerBlock& out) {
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128;
    const std::size_t j = i % 128 / 32;
    const std::size_t l = i % 32;
    const int packed = byte_at(block, 64 * half + l + 32 * (j & 1));
    const int low4 = j < 2 ? packed & 15 : packed >> 4;
    const int high2 = (byte_at(block, 128 + 32 * half + l) >> (2 * j)) & 3;
    out.q[i] = narrow(((low4 | high2 << 4) - 32) * signed_byte_at(block, 192 + i / 16));
  }
  for (float& scale : out.scale) scale = half_at(block, 208);
}

void decode_q2_k(const std::byte* block, IntegerBlock& out) {
  for (std::size_t i = 0; i < 256; ++i) {
    const int q = (byte_at(block, 16 + 32 * (i / 128) + i % 32) >> (2 * (i % 128 / 32))) & 3;
    out.q[i] = narrow(q * (byte_at(block, i / 16) & 15));
  }
  for (float& scale : out.scale) scale = half_at(block, 80);
  const float dmin = half_at(block, 82);
  for (std::size_t k = 0; k < 16; ++k) out.offset[k] = -(dmin * static_cast<float>(byte_at(block, k) >> 4));
}

void decode_q3_k(const std::byte* block, IntegerBlock& out) {
  const std::byte* scales = block + 96;
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128;
    const std::size_t j = i % 128 / 32;
    const std::size_t l = i % 32;
    const std::size_t k = i / 16;
    const int low2 = (byte_at(block, 32 + 32 * half + l) >> (2 * j)) & 3;
    const bool keeps = ((byte_at(block, l) >> (4 * half + j)) & 1) != 0;
    const int low4 = k < 8 ? byte_at(scales, k) & 15 : byte_at(scales, k - 8) >> 4;
    const int high2 = (byte_at(scales, 8 + k % 4) >> (2 * (k / 4))) & 3;
    out.q[i] = narrow((low2 - (keeps ? 0 : 4)) * ((low4 | high2 << 4) - 32));
  }
  for (float& scale : out.scale) scale = half_at(block, 108);
}

}  // namespace

std::size_t offset_values(DType dtype) {
  switch (dtype) {
    case DType::Q2_K: return 16;
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K: return 32;
    default: return 0;
  }
}

void decode_block(DType dtype, const std::byte* block, IntegerBlock& out) {
  switch (dtype) {
    case DType::Q4_0: return decode_nibbles(block, false, false, out);
    case DType::Q4_1: return decode_nibbles(block, true, false, out);
    case DType::Q5_0: return decode_nibbles(block, false, true, out);
    case DType::Q5_1: return decode_nibbles(block, true, true, out);
    case DType::Q8_0: return decode_q8_0(block, out);
    case DType::Q2_K: return decode_q2_k(block, out);
    case DType::Q3_K: return decode_q3_k(block, out);
    case DType::Q4_K: return decode_q4_k(block, false, out);
    case DType::Q5_K: return decode_q4_k(block, true, out);
    case DType::Q6_K: return decode_q6_k(block, out);
    case DType::IQ4_NL: return decode_iq4_nl(block, out);
    case DType::IQ4_XS: return decode_iq4_xs(block, out);
    case DType::F32:
    case DType::F16:
    case DType::BF16: break;
  }
  EBB_CHECK(false, "decode_block of {}", dtype_info(dtype).name);
}

}  // namespace ebb::kernels
