// kv_store and copied rows on a card, byte for byte. Skipped where this build has no GPU code or the machine no card.
// Cases (S4): every pair of types, head sizes of part of a warp, of one block, of an odd number of blocks and the
// largest; room for all rows and a ring of fewer; values at every edge of a rounding; addresses in vectors and not.
#include "kernels/cuda/kv_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cuda_kv_testing.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {
namespace {

using CudaKvRows = CudaKv;

/// Values that meet every rounding: ordinary ones, ties, halves that overflow or are subnormal, blocks of zeros of both
/// signs, of tiny values (scale 0), of extremes of either sign that tie in magnitude, of values that overflow a scale.
std::vector<float> values_to_store(std::size_t count) {
  std::vector<float> values = random_floats(count, 7, 3.0f);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t block = i / kKvBlock % 12;
    float& value = values[i];
    if (block == 1) value = static_cast<float>(i % 64) / 64 + 0x1p-12f * static_cast<float>(i % 3);
    if (block == 2) value *= 1e6f;
    if (block == 3) value *= 1e-6f;
    if (block == 4) value = i % 2 == 0 ? 0.0f : -0.0f;
    if (block == 5) value *= 1e-12f;
    if (block == 6) value = std::fmod(value, 2.0f) + (i % 7 == 3 ? 5.0f : 0.0f) - (i % 11 == 5 ? 10.0f : 0.0f);
    if (block == 7) value = i % 2 == 0 ? 4.0f : -4.0f;
    if (block == 8) value = i % 2 == 0 ? -4.0f : 4.0f;
    if (block == 9) value *= 1e30f;
    if (block == 10) value = -0.0f;
    if (block == 11) value *= 1e-38f;
  }
  return values;
}

TEST_F(CudaKvRows, StoredBytesAreThoseOfTheCpuForEveryType) {
  constexpr std::size_t kHeads = 3;
  constexpr std::size_t kRows = 80;
  constexpr std::size_t kFirstPos = 1000;
  ThreadPool threads(1);
  for (const std::size_t head_dim : {8ul, 32ul, 72ul, 96ul, 256ul}) {
    for (const KvType k_type : kKvTypes) {
      for (const KvType v_type : kKvTypes) {
        if (!kv_supported({k_type, v_type}, head_dim)) continue;
        for (const std::size_t slots : {100ul, 64ul}) {  // room for all, and a ring of fewer than come
          used = 0;
          const std::size_t stride = kHeads * head_dim + 5;
          const std::vector<float> k = values_to_store(kRows * stride);
          std::vector<float> v = k;
          std::reverse(v.begin(), v.end());
          KvMemory expected({k_type, v_type}, slots, 16, kHeads, head_dim);
          kv_store(threads, k.data(), v.data(), stride, kFirstPos, kRows, kHeads, head_dim, expected.view());
          const CardRows to = take_rows({k_type, v_type}, slots, 16, kHeads, head_dim, 2 * kKvBlock);
          const std::vector<std::byte> before(to.bytes, std::byte{0xfe});  // as KvMemory begins
          for (std::byte* address : {to.view.k, to.view.v})
            ASSERT_TRUE(card->copy(kStream, address, before.data(), to.bytes));
          ASSERT_TRUE(rows->store(kStream, upload(k), upload(v), stride, kFirstPos, kRows, kHeads, head_dim, to.view));
          const auto same = [&](const std::byte* on_card, const std::byte* on_host) {
            return std::memcmp(download(on_card, to.bytes).data(), on_host, to.bytes) == 0;
          };
          ASSERT_TRUE(same(to.view.k, expected.view().k)) << head_dim << " type " << static_cast<int>(k_type);
          ASSERT_TRUE(same(to.view.v, expected.view().v)) << head_dim << " type " << static_cast<int>(v_type);
        }
      }
    }
  }
}

TEST_F(CudaKvRows, StoresNanAndInfinityAsNoNumber) {
  constexpr std::size_t kHeadDim = 64;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const KvType type : kKvTypes) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      used = 0;
      std::vector<float> x(kHeadDim, 1.0f);
      x[5] = broken;
      const CardRows to = take_rows({type, type}, 1, 1, 1, kHeadDim);
      ASSERT_TRUE(rows->store(kStream, upload(x), upload(x), kHeadDim, 0, 1, 1, kHeadDim, to.view));
      const std::vector<std::byte> stored = download(to.view.v, to.bytes);
      const float value = read_stored(stored.data(), type, 5);
      if (in_blocks(type) || std::isnan(broken)) {
        EXPECT_TRUE(std::isnan(value));
      } else if (type == KvType::F16) {
        EXPECT_EQ(value, std::copysign(65504.0f, broken));
      } else {
        EXPECT_EQ(value, broken);
      }
      EXPECT_EQ(read_stored(stored.data(), type, 40), as_stored(std::vector<float>(32, 1.0f), type)[0]);
    }
  }
}

// The rewind record: rows leave a ring, or the chunk itself, for their place in a record, on the card or in locked host
// memory.
TEST_F(CudaKvRows, CopiedRowsAreTheSameBytesAtAnyShift) {
  constexpr std::size_t kHeads = 2;
  constexpr std::size_t kSlots = 96;
  constexpr std::size_t kCount = 70;
  constexpr std::size_t kFirstPos = 530;  // wraps in the ring
  constexpr std::size_t kToPos = 41;
  constexpr std::size_t kHostBytes = std::size_t{1} << 20;
  std::byte* const host = static_cast<std::byte*>(std::aligned_alloc(4096, kHostBytes));
  ASSERT_TRUE(card->pin(host, kHostBytes));
  for (const std::size_t head_dim : {32ul, 72ul, 256ul}) {
    for (const KvTypes types : {KvTypes{KvType::F32, KvType::F16}, KvTypes{KvType::BF16, KvType::BF16},
                                KvTypes{KvType::Q8_0, KvType::Q4_0}, KvTypes{KvType::Q4_0, KvType::F16}}) {
      if (!kv_supported(types, head_dim)) continue;
      used = 0;
      const std::vector<float> k = random_floats(kSlots * kHeads * head_dim, 3);
      const std::vector<float> v = random_floats(kSlots * kHeads * head_dim, 4);
      const CardRows from = take_rows(types, kSlots, 32, kHeads, head_dim);
      ASSERT_TRUE(rows->store(kStream, upload(k), upload(v), kHeads * head_dim, kFirstPos - 10, kSlots, kHeads,
                              head_dim, from.view));
      const std::vector<std::byte> from_k = download(from.view.k, from.bytes);
      const std::vector<std::byte> from_v = download(from.view.v, from.bytes);
      const auto check = [&](const KvView& view, const std::byte* to_k, const std::byte* to_v) {
        for (std::size_t i = 0; i < kCount; ++i) {
          for (std::size_t head = 0; head < kHeads; ++head) {
            ASSERT_EQ(std::memcmp(to_k + view.offset_k(head, kToPos + i, head_dim),
                                  from_k.data() + from.view.offset_k(head, kFirstPos + i, head_dim),
                                  kv_row_bytes(types.k, head_dim)),
                      0);
            ASSERT_EQ(std::memcmp(to_v + view.offset_v(head, kToPos + i, head_dim),
                                  from_v.data() + from.view.offset_v(head, kFirstPos + i, head_dim),
                                  kv_row_bytes(types.v, head_dim)),
                      0);
          }
        }
      };
      const CardRows to = take_rows(types, 112, 16, kHeads, head_dim);
      ASSERT_TRUE(rows->copy(kStream, from.view, kFirstPos, kCount, kHeads, head_dim, to.view, kToPos));
      const std::vector<std::byte> to_k = download(to.view.k, to.bytes);
      const std::vector<std::byte> to_v = download(to.view.v, to.bytes);
      check(to.view, to_k.data(), to_v.data());
      const std::size_t untouched = to.view.offset_k(0, kToPos + kCount, head_dim);
      EXPECT_EQ(to_k[untouched], kPoisonByte);

      KvView in_host = to.view;
      in_host.k = host;
      in_host.v = host + kHostBytes / 2;
      ASSERT_LE(to.bytes, kHostBytes / 2);
      ASSERT_TRUE(rows->copy(kStream, from.view, kFirstPos, kCount, kHeads, head_dim, in_host, kToPos));
      ASSERT_TRUE(card->wait(card->fence(kStream).value()));
      check(in_host, in_host.k, in_host.v);
    }
  }
  ASSERT_TRUE(card->unpin(host));
  std::free(host);
}

}  // namespace
}  // namespace ebb::kernels
