// What the tests of the kernels on a card share: one card, its code, and memory on it that each case cuts its arrays from.
// A case is skipped, with the reason, where this build has no GPU code or the machine no card.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels {

inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

class CudaCase : public testing::Test {
 protected:
  static constexpr std::size_t kArenaBytes = std::size_t{64} << 20;

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
  }

  /// On the card, `skew` values behind a boundary of 256 bytes.
  template <typename T>
  T* upload(const std::vector<T>& values, std::size_t skew = 0) {
    T* const address = reinterpret_cast<T*>(arena + used) + skew;
    used += ((values.size() + skew) * sizeof(T) + 255) / 256 * 256;
    EXPECT_LE(used, kArenaBytes);
    EXPECT_TRUE(card->copy(device::Stream::Compute, address, values.data(), values.size() * sizeof(T)));
    return address;
  }

  /// Waits for all that was queued.
  std::vector<float> download(const float* address, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(card->copy(device::Stream::Compute, values.data(), address, count * sizeof(float)));
    EXPECT_TRUE(card->wait(card->fence(device::Stream::Compute).value()));
    return values;
  }

  std::unique_ptr<device::CudaDevice> card;
  std::unique_ptr<cuda::LoadedCode> code;
  std::byte* arena = nullptr;
  std::size_t used = 0;
};

}  // namespace ebb::kernels
