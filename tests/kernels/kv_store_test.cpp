#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

TEST(KvSupport, EveryPairOfTypesHasAKernelAtEveryHeadSizeOfGemma) {  // S4
  for (std::size_t head_dim : {64ul, 96ul, 128ul, 160ul, 192ul, 256ul}) {
    for (KvType k : kKvTypes)
      for (KvType v : kKvTypes) EXPECT_TRUE(kv_supported({k, v}, head_dim)) << head_dim;
  }
}

TEST(KvSupport, RefusesRowsThatAreNoWholeBlocksAndHeadsTooLarge) {
  EXPECT_TRUE(kv_supported({KvType::F16, KvType::BF16}, 72));
  for (KvType type : {KvType::Q8_0, KvType::Q4_0}) {
    EXPECT_FALSE(kv_supported({type, KvType::F16}, 72));
    EXPECT_FALSE(kv_supported({KvType::F16, type}, 80));
  }
  for (KvType type : kKvTypes) {
    EXPECT_FALSE(kv_supported({type, type}, 0));
    EXPECT_FALSE(kv_supported({type, type}, 288));
  }
  EXPECT_FALSE(kv_supported({KvType::F32, KvType::F32}, 12));
}

TEST(KvRowBytes, AreThoseOfTheBlockFormats) {
  EXPECT_EQ(kv_row_bytes(KvType::F32, 256), 1024u);
  EXPECT_EQ(kv_row_bytes(KvType::F16, 72), 144u);
  EXPECT_EQ(kv_row_bytes(KvType::BF16, 256), 512u);
  EXPECT_EQ(kv_row_bytes(KvType::Q8_0, 256), 272u);
  EXPECT_EQ(kv_row_bytes(KvType::Q4_0, 96), 54u);
}

/// Stores the rows at every SIMD level and holds each value against the plain rounding.
void expect_stored_as_plain(KvTypes types, std::size_t head_dim, const std::vector<float>& k, const std::vector<float>& v,
                            std::size_t stride) {
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kFirstPos = 17;
  const std::size_t rows = k.size() / stride;
  ThreadPool threads(2);
  for_each_simd_level([&] {
    const KvMemory memory(types, 64, 16, kHeads, head_dim);
    const KvView& view = memory.view();
    kv_store(threads, k.data(), v.data(), stride, kFirstPos, rows, kHeads, head_dim, view);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t h = 0; h < kHeads; ++h) {
        const auto head_of = [&](const std::vector<float>& x) {
          const float* from = &x[r * stride + h * head_dim];
          return std::vector<float>(from, from + head_dim);
        };
        const std::vector<float> want_k = as_stored(head_of(k), types.k);
        const std::vector<float> want_v = as_stored(head_of(v), types.v);
        const std::byte* row_k = view.k + view.offset_k(h, kFirstPos + r, head_dim);
        const std::byte* row_v = view.v + view.offset_v(h, kFirstPos + r, head_dim);
        for (std::size_t e = 0; e < head_dim; ++e) {
          ASSERT_EQ(read_stored(row_k, types.k, e), want_k[e]) << r << ' ' << h << ' ' << e;
          ASSERT_EQ(read_stored(row_v, types.v, e), want_v[e]) << r << ' ' << h << ' ' << e;
        }
      }
    }
  });
}

TEST(KvStore, RoundsAndPlacesRowsOfAnyPairOfTypesAndHeadSize) {
  for (std::size_t head_dim : {8ul, 16ul, 64ul, 72ul, 96ul, 256ul}) {
    const std::size_t stride = 2 * head_dim + 8;
    std::vector<float> k = random_floats(23 * stride, 1);
    const std::vector<float> v = random_floats(23 * stride, 2, 3e4f);  // some beyond the largest half
    k[3] = 1e6f;
    k[5] = 6.1e-6f;  // a subnormal half
    for (KvType k_type : kKvTypes) {
      for (KvType v_type : kKvTypes)
        if (kv_supported({k_type, v_type}, head_dim)) expect_stored_as_plain({k_type, v_type}, head_dim, k, v, stride);
    }
  }
}

TEST(KvStore, InfinityIsTheLargestFiniteHalf) {
  const std::vector<float> x(2 * 16, -std::numeric_limits<float>::infinity());
  expect_stored_as_plain({KvType::F16, KvType::F16}, 16, x, x, 32);
}

// Blocks at the ends of what the formats hold. (class) Cases: all zero; one value alone, of either sign; equal
// magnitudes of both signs, either first (Q4_0 takes the first as its extreme); values halfway between two steps; the
// largest float32 (the scale saturates); a scale that is a subnormal half; one that becomes zero; float32 subnormals.
TEST(KvStore, BlocksOfExtremeValuesAreThePlainOnes) {
  constexpr std::size_t kDim = 32;
  const std::vector<std::vector<float>> starts = {
      {},
      {5.0f},
      {0.0f, -5.0f},
      {1.0f, -1.0f},
      {-1.0f, 1.0f},
      {127.0f, 0.5f, 1.5f, -0.5f, -2.5f, 126.5f},
      {-8.0f, 0.5f, 1.5f, -0.5f, -1.5f, 7.49f, 7.5f},
      {std::numeric_limits<float>::max(), -1.0f, -std::numeric_limits<float>::max()},
      {1e-4f, -3e-5f},
      {1e-6f, 5e-7f},
      {1e-8f, -1e-8f},
      {std::numeric_limits<float>::denorm_min(), 1e-40f},
  };
  std::vector<float> x(starts.size() * 2 * kDim);
  for (std::size_t r = 0; r < starts.size(); ++r)
    std::copy(starts[r].begin(), starts[r].end(), x.begin() + static_cast<std::ptrdiff_t>(r * 2 * kDim));
  for (KvType type : {KvType::Q8_0, KvType::Q4_0}) {
    expect_stored_as_plain({type, type}, kDim, x, x, 2 * kDim);
    for (std::size_t r = 0; r < starts.size(); ++r) {
      if (starts[r].size() == 3) continue;  // too large for the scale
      const std::vector<float> block(&x[r * 2 * kDim], &x[r * 2 * kDim] + kDim);
      const std::vector<float> stored = as_stored(block, type);
      for (std::size_t e = 0; e < kDim; ++e)
        EXPECT_NEAR(static_cast<double>(stored[e]), static_cast<double>(block[e]), block_error(block.data(), type)) << r;
    }
  }
}

TEST(KvStore, BlocksAreWithinTheErrorOfTheirFormat) {
  ThreadPool threads(1);
  for (float size : {1e-3f, 1.0f, 1e4f}) {
    const std::vector<float> x = random_floats(64 * 256, 3, size);
    for (KvType type : {KvType::Q8_0, KvType::Q4_0}) {
      const KvMemory memory({type, type}, 64, 16, 1, 256);
      kv_store(threads, x.data(), x.data(), 256, 0, 64, 1, 256, memory.view());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::byte* row = memory.view().k + memory.view().offset_k(0, i / 256, 256);
        ASSERT_NEAR(static_cast<double>(read_stored(row, type, i % 256)), static_cast<double>(x[i]),
                    block_error(&x[i / kKvBlock * kKvBlock], type));
      }
    }
  }
}

// T6: a block with a value that is not finite is not a number as a whole, and its neighbours are what they were.
TEST(KvStore, NanStaysNan) {
  ThreadPool threads(1);
  for (KvType type : kKvTypes) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      if (!in_blocks(type) && std::isinf(bad)) continue;
      for (std::size_t where : {32ul, 50ul, 63ul}) {
        std::vector<float> x(96, 1.0f);
        x[where] = bad;
        for_each_simd_level([&] {
          const KvMemory memory({type, type}, 1, 1, 1, 96);
          kv_store(threads, x.data(), x.data(), 96, 0, 1, 1, 96, memory.view());
          EXPECT_TRUE(std::isnan(read_stored(memory.view().k, type, where)));
          EXPECT_EQ(read_stored(memory.view().k, type, 31), as_stored(std::vector<float>(32, 1.0f), type)[0]);
          EXPECT_EQ(read_stored(memory.view().k, type, 64), as_stored(std::vector<float>(32, 1.0f), type)[0]);
        });
      }
    }
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
  for (std::size_t r = kRows - kSlots; r < kRows; ++r) {
    const std::byte* row = memory.view().k + memory.view().offset_k(0, 100 + r, 8);
    EXPECT_EQ(read_stored(row, KvType::F32, 0), static_cast<float>(r));
  }
}

}  // namespace
}  // namespace ebb::kernels
