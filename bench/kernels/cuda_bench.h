// What the benchmarks of the kernels on a card share: a card with its code and memory full of random numbers, and medians of
// the card's own times.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::bench {

inline constexpr std::size_t kArenaBytes = 4 * kGiB;
inline constexpr int kRounds = 50;

struct Card {
  std::unique_ptr<device::CudaDevice> device;
  std::unique_ptr<kernels::cuda::LoadedCode> code;
  std::byte* arena = nullptr;
};

inline Result<Card> open_card() {
  Card card;
  EBB_TRY_ASSIGN(const device::cuda::Driver* driver, device::cuda::open_driver());
  EBB_TRY_ASSIGN(card.device, device::CudaDevice::open(*driver, 0));
  EBB_TRY_ASSIGN(card.code, kernels::cuda::LoadedCode::load(*card.device));
  EBB_TRY_ASSIGN(const device::AddressRange range, card.device->reserve(kArenaBytes));
  EBB_TRY_ASSIGN(const device::Handle memory, card.device->create(kArenaBytes));
  EBB_TRY(card.device->map(range.data, std::span(&memory, 1)));
  EBB_TRY(card.device->set_access(range.data, range.bytes, device::Access::ReadWrite));
  card.arena = range.data;
  // Random numbers, since a card may be faster on zeros: one block of them, laid over all of it.
  std::vector<float> noise(64 * kMiB / sizeof(float));
  std::uint32_t state = 1;
  for (float& value : noise) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1.0f;
  for (std::size_t at = 0; at < kArenaBytes; at += 64 * kMiB)
    EBB_TRY(card.device->copy(device::Stream::Compute, card.arena + at, noise.data(), 64 * kMiB));
  EBB_TRY_ASSIGN(const device::Fence fence, card.device->fence(device::Stream::Compute));
  EBB_TRY(card.device->wait(fence));
  return card;
}

inline Card* card(benchmark::State& state) {
  static Result<Card> opened = open_card();
  if (opened) return &*opened;
  state.SkipWithError(opened.error().message.c_str());
  return nullptr;
}

/// Median microseconds on the card of what `launch` queues.
template <typename Launch>
double median_us(device::CudaDevice& device, Launch launch) {
  const device::cuda::Driver& driver = device.driver();
  const device::cuda::StreamRef stream = device.stream(device::Stream::Compute);
  device::cuda::Event begin = nullptr;
  device::cuda::Event end = nullptr;
  driver.event_create(&begin, device::cuda::kEventWithTiming);
  driver.event_create(&end, device::cuda::kEventWithTiming);
  std::vector<float> times;
  for (int round = 0; round < kRounds + 3; ++round) {
    driver.event_record(begin, stream);
    if (!launch()) return 0;
    driver.event_record(end, stream);
    driver.event_synchronize(end);
    float milliseconds = 0;
    driver.event_elapsed(&milliseconds, begin, end);
    if (round >= 3) times.push_back(milliseconds);
  }
  driver.event_destroy(begin);
  driver.event_destroy(end);
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return static_cast<double>(times[kRounds / 2]) * 1000;
}

}  // namespace ebb::bench
