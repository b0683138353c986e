// RMSNorm on a card beside its floor: the bytes it must move (each number read once and written once) over what a copy on the
// same card moves in the same run. Times are the card's own (events). Needs a card and GPU code; says so elsewhere.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/cuda/rms_norm.h"

namespace {

using namespace ebb;

constexpr std::size_t kArenaBytes = 4 * kGiB;
constexpr int kRounds = 50;

struct Card {
  std::unique_ptr<device::CudaDevice> device;
  std::unique_ptr<kernels::cuda::LoadedCode> code;
  std::byte* arena = nullptr;
};

Result<Card> open_card() {
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

Card* card(benchmark::State& state) {
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

/// range(2): 0 the norm alone, 1 with the residual before it, which moves twice the bytes.
void cuda_rms_norm(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cols = static_cast<std::size_t>(state.range(1));
  const bool with_residual = state.range(2) != 0;
  const std::size_t bytes = rows * cols * sizeof(float);
  const auto array = [&](std::size_t idx) { return reinterpret_cast<float*>(opened->arena + idx * (kArenaBytes / 4)); };
  const float* const w = array(1) - kMiB / sizeof(float);
  if (bytes > kArenaBytes / 4 - kMiB) return state.SkipWithError("the arrays overlap");
  auto norm = kernels::cuda::RmsNorm::find(*opened->code);
  if (!norm) return state.SkipWithError(norm.error().message.c_str());
  for (auto _ : state) {
    const double norm_us = median_us(*opened->device, [&] {
      return (with_residual
                  ? norm->run_residual(device::Stream::Compute, array(0), array(1), w, w, 1e-6f, rows, cols, array(2))
                  : norm->run(device::Stream::Compute, array(0), w, 1e-6f, rows, cols, array(2)))
          .has_value();
    });
    const double copy_us = median_us(*opened->device, [&] {
      for (std::size_t i = 0; i <= static_cast<std::size_t>(with_residual); ++i) {
        if (!opened->device->copy(device::Stream::Compute, array(2 + i), array(i), bytes)) return false;
      }
      return true;
    });
    state.SetIterationTime(norm_us * 1e-6);
    state.counters["norm_us"] = norm_us;
    state.counters["copy_us"] = copy_us;
    state.counters["GB_per_s"] = (with_residual ? 4.0 : 2.0) * static_cast<double>(bytes) / norm_us / 1000;
    state.counters["percent_of_copy"] = copy_us / norm_us * 100;
  }
}
BENCHMARK(cuda_rms_norm)
    ->ArgNames({"rows", "cols", "residual"})
    ->ArgsProduct({{1, 64, 2048, 32768}, {640, 1152, 2560, 3840, 5376}, {0, 1}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
