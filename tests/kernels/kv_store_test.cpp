#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/attention.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

float read(const std::byte* at, KvType type) {
  if (type == KvType::F32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return type == KvType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

float rounded(float value, KvType type) {
  if (type == KvType::F32) return value;
  if (type == KvType::BF16) return bf16_to_float(float_to_bf16(value));
  const float half = f16_to_float(float_to_f16(value));
  return std::isinf(half) ? std::copysign(65504.0f, value) : half;
}

TEST(KvStore, RoundsAndPlacesRowsOfAnyTypeAndHeadSize) {
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kRows = 23;
  constexpr std::size_t kFirstPos = 17;
  ThreadPool threads(2);
  for (std::size_t head_dim : {8ul, 16ul, 72ul, 256ul}) {
    const std::size_t stride = kHeads * head_dim + 8;
    std::vector<float> k = random_floats(kRows * stride, 1);
    std::vector<float> v = random_floats(kRows * stride, 2, 3e4f);  // some beyond the largest half
    k[3] = 1e6f;
    k[4] = -std::numeric_limits<float>::infinity();
    k[5] = 6.1e-6f;  // a subnormal half
    for (KvType type : {KvType::F32, KvType::F16, KvType::BF16}) {
      for_each_simd_level([&] {
        KvMemory memory({type, type}, 64, 16, kHeads, head_dim);
        kv_store(threads, k.data(), v.data(), stride, kFirstPos, kRows, kHeads, head_dim, memory.view());
        for (std::size_t r = 0; r < kRows; ++r) {
          for (std::size_t h = 0; h < kHeads; ++h) {
            const std::size_t at = memory.view().offset_k(h, kFirstPos + r, head_dim);
            for (std::size_t e = 0; e < head_dim; ++e) {
              const std::size_t from = r * stride + h * head_dim + e;
              const std::size_t byte = at + e * kv_row_bytes(type, 1);
              ASSERT_EQ(read(memory.view().k + byte, type), rounded(k[from], type)) << r << ' ' << h << ' ' << e;
              ASSERT_EQ(read(memory.view().v + byte, type), rounded(v[from], type));
            }
          }
        }
      });
    }
  }
}

TEST(KvStore, NanStaysNan) {
  const std::vector<float> x(16, std::numeric_limits<float>::quiet_NaN());
  ThreadPool threads(1);
  for (KvType type : {KvType::F16, KvType::BF16}) {
    for_each_simd_level([&] {
      KvMemory memory({type, type}, 1, 1, 1, 16);
      kv_store(threads, x.data(), x.data(), 16, 0, 1, 1, 16, memory.view());
      EXPECT_TRUE(std::isnan(read(memory.view().k, type)));
    });
  }
}

TEST(KvStore, KeepsTheLastRowsWhenThereAreMoreThanSlots) {
  constexpr std::size_t kSlots = 5;
  constexpr std::size_t kRows = 12;
  std::vector<float> x(kRows * 8);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t e = 0; e < 8; ++e) x[r * 8 + e] = static_cast<float>(r);
  ThreadPool threads(1);
  KvMemory memory({KvType::F32, KvType::F32}, kSlots, 5, 1, 8);
  kv_store(threads, x.data(), x.data(), 8, 100, kRows, 1, 8, memory.view());
  for (std::size_t r = kRows - kSlots; r < kRows; ++r)
    EXPECT_EQ(read(memory.view().k + memory.view().offset_k(0, 100 + r, 8), KvType::F32), static_cast<float>(r));
}

}  // namespace
}  // namespace ebb::kernels
