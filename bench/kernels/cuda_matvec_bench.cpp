// Products of a few rows with packed matrices on a card beside their floor: the bytes of the matrices over the bytes a second that
// a large copy on the same card reads and writes in the same run. Launches stand in a row on matrices at ever new addresses, so
// that none is found in the card's cache; times are the card's own (events), a launch's share. Needs a card and GPU code.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/cuda/matvec.h"

namespace {

using namespace ebb;

constexpr std::size_t kArenaBytes = 6 * kGiB;   // many times the cache
constexpr std::size_t kInputBytes = 16 * kMiB;  // x and y, at its end
constexpr int kRounds = 9;
constexpr int kLaunches = 20;

struct Card {
  std::unique_ptr<device::CudaDevice> device;
  std::unique_ptr<kernels::cuda::LoadedCode> code;
  std::byte* arena = nullptr;
  double copy_gb_per_s = 0;
};

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
  for (int round = 0; round < kRounds + 1; ++round) {
    driver.event_record(begin, stream);
    if (!launch()) return 0;
    driver.event_record(end, stream);
    driver.event_synchronize(end);
    float milliseconds = 0;
    driver.event_elapsed(&milliseconds, begin, end);
    if (round >= 1) times.push_back(milliseconds);
  }
  driver.event_destroy(begin);
  driver.event_destroy(end);
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return static_cast<double>(times[kRounds / 2]) * 1000;
}

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
  const double copy_us = median_us(*card.device, [&] {
    return card.device->copy(device::Stream::Compute, card.arena + 2 * kGiB, card.arena, 2 * kGiB).has_value();
  });
  card.copy_gb_per_s = 4.0 * static_cast<double>(kGiB) / copy_us / 1000;
  return card;
}

Card* card(benchmark::State& state) {
  static Result<Card> opened = open_card();
  if (opened) return &*opened;
  state.SkipWithError(opened.error().message.c_str());
  return nullptr;
}

struct Shape {
  const char* name;
  std::size_t cols;
  std::vector<std::size_t> rows;  // of the matrices of one launch
};

void cuda_matvec(benchmark::State& state, DType dtype, kernels::Arithmetic arithmetic, const Shape& shape) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const auto tokens = static_cast<std::size_t>(state.range(0));
  auto matvec = kernels::cuda::Matvec::find(*opened->code);
  if (!matvec) return state.SkipWithError(matvec.error().message.c_str());
  auto* const x = reinterpret_cast<float*>(opened->arena + kArenaBytes - kInputBytes);
  auto* const y = x + kMiB / sizeof(float);
  std::size_t bytes = 0;
  for (const std::size_t rows : shape.rows) bytes += round_up(rows * row_bytes(dtype, shape.cols), std::size_t{64});
  std::size_t used = 0;
  const auto launch = [&] {
    if (used + bytes > kArenaBytes - kInputBytes) used = 0;
    std::vector<kernels::MatmulProduct> products;
    std::size_t first = 0;
    for (const std::size_t rows : shape.rows) {
      products.push_back({{opened->arena + used, dtype, rows, shape.cols}, y + first, rows});
      used += round_up(products.back().w.bytes(), std::size_t{64});
      first += tokens * rows;
    }
    return matvec->run(device::Stream::Compute, arithmetic, x, tokens, shape.cols, products).has_value();
  };
  for (auto _ : state) {
    const double us = median_us(*opened->device,
                                [&] {
                                  for (int i = 0; i < kLaunches; ++i) {
                                    if (!launch()) return false;
                                  }
                                  return true;
                                }) /
                      kLaunches;
    const double floor_us = static_cast<double>(bytes) / opened->copy_gb_per_s / 1000;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["floor_us"] = floor_us;
    state.counters["GB_per_s"] = static_cast<double>(bytes) / us / 1000;
    state.counters["copy_GB_per_s"] = opened->copy_gb_per_s;
    state.counters["percent_of_floor"] = floor_us / us * 100;
  }
}

const int registered = [] {
  static const std::array<Shape, 7> kShapes = {{{"12B_qkv", 3840, {4096, 2048, 2048}},
                                                {"12B_o", 4096, {3840}},
                                                {"12B_gate_up", 3840, {15360, 15360}},
                                                {"12B_down", 15360, {3840}},
                                                {"12B_head", 3840, {262144}},
                                                {"270M_gate_up", 640, {2048, 2048}},
                                                {"270M_head", 640, {262144}}}};
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const Shape& shape : kShapes) {
      if (shape.cols % dtype_info(dtype).block_values != 0) continue;
      for (const kernels::Arithmetic arithmetic : {kernels::Arithmetic::Exact, kernels::Arithmetic::Quantized}) {
        const bool is_exact = arithmetic == kernels::Arithmetic::Exact;
        if (!is_exact && dtype_info(dtype).block_values == 1) continue;
        const std::string name = std::string("cuda_matvec/") + std::string(dtype_info(dtype).name) +
                                 (is_exact ? "/exact/" : "/quantized/") + shape.name;
        benchmark::RegisterBenchmark(name.c_str(), cuda_matvec, dtype, arithmetic, shape)
            ->ArgName("rows")
            ->Arg(1)
            ->Arg(2)
            ->Arg(4)
            ->Arg(8)
            ->Iterations(1)
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return 0;
}();

}  // namespace
