// Block formats held to known values: block bytes b[p] = (73 p + 19) mod 256, d = 0.0625, m or dmin = 0.5. Made once
// with the formats' own routine; all values are exact in float32.
#include "kernels/dequantize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/half.h"

namespace ebb::kernels {
namespace {

struct Vector {
  DType dtype;
  std::size_t d_at;
  int second_at;  // of m or dmin; -1 where the type has none
  float sum;
  std::vector<std::pair<std::size_t, float>> values;
};

std::vector<Vector> vectors() {
  return {
      {DType::Q4_0, 0, -1, -0.4375F, {{0, -0.1875F}, {1, 0.375F}, {15, 0.25F}, {16, 0.125F}, {31, 0.375F}}},
      {DType::Q4_1, 0, 2, 30.6875F, {{0, 0.9375F}, {1, 0.5F}, {15, 1.375F}, {16, 0.6875F}, {31, 0.9375F}}},
      {DType::Q5_0, 0, -1, -1.1875F, {{0, 0.5625F}, {1, -0.875F}, {15, 0.0F}, {16, 0.75F}, {31, 0.0625F}}},
      {DType::Q5_1, 0, 2, 42.9375F, {{0, 2.1875F}, {1, 1.75F}, {15, 1.625F}, {16, 1.8125F}, {31, 1.125F}}},
      {DType::Q8_0, 0, -1, 17.0F, {{0, -5.6875F}, {1, -1.125F}, {15, -1.25F}, {16, 3.3125F}, {31, 7.75F}}},
      {DType::IQ4_NL, 0, -1, -3.9375F, {{0, -2.1875F}, {1, 5.5625F}, {15, 3.3125F}, {16, 1.5625F}, {31, 5.5625F}}},
      {DType::Q2_K, 80, 82, -713.0F,
       {{0, 0.0625F}, {1, -0.5F}, {15, -0.125F}, {16, -0.25F}, {31, -1.0F}, {32, -5.0F}, {63, -5.25F}, {64, -0.625F},
        {127, -0.375F}, {128, -0.4375F}, {255, -1.25F}}},
      {DType::Q3_K, 108, -1, 38.0F,
       {{0, 3.5625F}, {1, -4.75F}, {15, -2.375F}, {16, -3.75F}, {31, 2.5F}, {32, 0.0F}, {63, 1.75F}, {64, -0.4375F},
        {127, 0.0F}, {128, 4.3125F}, {255, 0.0F}}},
      {DType::Q4_K, 0, 2, -1664.5F,
       {{0, -3.1875F}, {1, 27.75F}, {15, 20.875F}, {16, -3.1875F}, {31, 20.875F}, {32, -18.0F}, {63, -18.0F},
        {64, -20.8125F}, {127, -16.875F}, {128, -8.6875F}, {255, 5.625F}}},
      {DType::Q5_K, 0, 2, 1699.5F,
       {{0, 51.8125F}, {1, 27.75F}, {15, 20.875F}, {16, 51.8125F}, {31, 20.875F}, {32, -18.0F}, {63, -18.0F},
        {64, -20.8125F}, {127, 3.375F}, {128, -8.6875F}, {255, 6.875F}}},
      {DType::Q6_K, 208, -1, 768.75F,
       {{0, -53.4375F}, {1, 56.25F}, {15, -28.125F}, {16, 33.25F}, {31, 17.5F}, {32, -183.0625F}, {63, -51.25F},
        {64, 8.4375F}, {127, 46.0F}, {128, 32.0625F}, {255, 6.5F}}},
      {DType::IQ4_XS, 0, -1, -1390.0F,
       {{0, -21.375F}, {1, 27.5625F}, {15, 46.6875F}, {16, 19.6875F}, {31, -14.0625F}, {32, -30.875F}, {63, 52.8125F},
        {64, 0.0F}, {127, -17.5F}, {128, 21.375F}, {255, 13.8125F}}},
  };
}

void put_half(std::vector<std::byte>& bytes, std::size_t at, float value) {
  const std::uint16_t bits = float_to_f16(value);
  std::memcpy(bytes.data() + at, &bits, sizeof(bits));
}

TEST(Dequantize, MatchesTheFormatsOwnRoutine) {
  for (const Vector& vector : vectors()) {
    const DTypeInfo& info = dtype_info(vector.dtype);
    SCOPED_TRACE(info.name);
    std::vector<std::byte> bytes(info.block_bytes);
    for (std::size_t p = 0; p < bytes.size(); ++p) bytes[p] = static_cast<std::byte>((73 * p + 19) % 256);
    put_half(bytes, vector.d_at, 0.0625F);
    if (vector.second_at >= 0) put_half(bytes, static_cast<std::size_t>(vector.second_at), 0.5F);
    std::vector<float> out(info.block_values);
    dequantize_row({bytes.data(), vector.dtype, 1, info.block_values}, 0, out);
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0.0F), vector.sum);
    for (const auto& [idx, value] : vector.values) EXPECT_EQ(out[idx], value) << "value " << idx;
  }
}

TEST(Dequantize, ReadsTheRowAskedFor) {
  std::vector<std::byte> bytes(4 * dtype_info(DType::Q8_0).block_bytes);  // two rows of two blocks
  for (std::size_t block_idx = 0; block_idx < 4; ++block_idx) {
    put_half(bytes, block_idx * 34, 0.5F);
    bytes[block_idx * 34 + 2] = static_cast<std::byte>(block_idx + 1);
  }
  std::vector<float> out(64);
  dequantize_row({bytes.data(), DType::Q8_0, 2, 64}, 1, out);
  EXPECT_EQ(out[0], 1.5F);
  EXPECT_EQ(out[32], 2.0F);
}

TEST(Dequantize, PlainFloatsKeepTheirValue) {
  const std::vector<float> values = {0.0F, -1.5F, 65504.0F, 0x1p-24F};
  std::vector<std::uint16_t> halves;
  std::vector<std::uint16_t> brains;
  for (const float value : values) {
    halves.push_back(float_to_f16(value));
    brains.push_back(float_to_bf16(value));
  }
  std::vector<float> out(values.size());
  dequantize_row({reinterpret_cast<const std::byte*>(values.data()), DType::F32, 1, 4}, 0, out);
  EXPECT_EQ(out, values);
  dequantize_row({reinterpret_cast<const std::byte*>(halves.data()), DType::F16, 1, 4}, 0, out);
  EXPECT_EQ(out, values);
  dequantize_row({reinterpret_cast<const std::byte*>(brains.data()), DType::BF16, 1, 4}, 0, out);
  EXPECT_EQ(out, (std::vector<float>{0.0F, -1.5F, 65536.0F, 0x1p-24F}));
}

TEST(EmbedRows, TakesOneScaledRowAToken) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> ids = {2, 0, 2};
  std::vector<float> out(6);
  embed_rows({reinterpret_cast<const std::byte*>(table.data()), DType::F32, 3, 2}, ids, 10.0F, out.data());
  EXPECT_EQ(out, (std::vector<float>{50, 60, 10, 20, 50, 60}));
}

}  // namespace
}  // namespace ebb::kernels
