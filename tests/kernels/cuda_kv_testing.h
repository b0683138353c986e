// A card with memory that tests cut arrays and layers of keys and values from. Skips where this build has no GPU code
// or the machine no card.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/kv_testing.h"

namespace ebb::kernels {

inline constexpr std::size_t kArenaBytes = std::size_t{256} << 20;
inline constexpr std::size_t kArenaStep = 256;
inline constexpr std::byte kPoisonByte{0xff};  // NaN in every type

/// One layer's rows on the card, laid out as KvMemory does on the host.
struct CardRows {
  KvView view;
  std::size_t bytes = 0;  // of K, and of V
};

/// One card, and memory on it that each case cuts its arrays from.
class CudaKv : public testing::Test {
 protected:
  void SetUp() override {
    const auto driver = device::cuda::open_driver();
    if (!driver) GTEST_SKIP() << driver.error().message;
    card = device::CudaDevice::open(**driver, 0).value();
    auto loaded = cuda::LoadedCode::load(*card);
    if (!loaded) GTEST_SKIP() << loaded.error().message;
    code = std::move(*loaded);
    const device::AddressRange range = card->reserve(kArenaBytes).value();
    const device::Handle memory = card->create(kArenaBytes).value();
    ASSERT_TRUE(card->map(range.data, std::span(&memory, 1)));
    ASSERT_TRUE(card->set_access(range.data, range.bytes, device::Access::ReadWrite));
    arena = range.data;
    rows = std::make_unique<cuda::KvRows>(cuda::KvRows::find(*code).value());
  }

  /// Poisoned memory of the card.
  std::byte* take(std::size_t bytes) {
    std::byte* const address = arena + used;
    used += (bytes + kArenaStep - 1) / kArenaStep * kArenaStep;
    EXPECT_LE(used, kArenaBytes);
    const std::vector<std::byte> poison(bytes, kPoisonByte);
    EXPECT_TRUE(card->copy(kStream, address, poison.data(), bytes));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return address;
  }
  float* upload(const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    std::byte* const address = take(bytes);
    EXPECT_TRUE(card->copy(kStream, address, values.data(), bytes));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return reinterpret_cast<float*>(address);
  }
  template <typename Value>
  std::vector<Value> download(const Value* address, std::size_t count) {
    std::vector<Value> values(count);
    EXPECT_TRUE(card->copy(kStream, values.data(), address, count * sizeof(Value)));
    EXPECT_TRUE(card->wait(card->fence(kStream).value()));
    return values;
  }

  CardRows take_rows(KvTypes types, std::size_t slots, std::size_t run_tokens, std::size_t kv_heads,
                     std::size_t head_dim, std::size_t skew = 0) {
    CardRows taken;
    KvView& view = taken.view;
    view = KvMemory(types, slots, run_tokens, kv_heads, head_dim).view();
    taken.bytes = (slots + run_tokens - 1) / run_tokens * view.run_stride_bytes;
    view.k = take(taken.bytes + skew) + skew;
    view.v = take(taken.bytes + skew) + skew;
    return taken;
  }

  static constexpr device::Stream kStream = device::Stream::Compute;
  std::unique_ptr<device::CudaDevice> card;
  std::unique_ptr<cuda::LoadedCode> code;
  std::unique_ptr<cuda::KvRows> rows;
  std::byte* arena = nullptr;
  std::size_t used = 0;
};

}  // namespace ebb::kernels
