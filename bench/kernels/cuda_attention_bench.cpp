// Attention of one token (or of a chunk) on a card beside its floor: the bytes of keys and values that it must read,
// over the rate at which a copy on the same card in the same run moves bytes (read and written). Times are the card's
// own: 20 calls between two events, each on keys that the cache has not seen for 256 MiB. Needs a card and GPU code;
// says so elsewhere.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/loaded_code.h"

namespace {

using namespace ebb;
using kernels::KvType;
using kernels::KvView;

constexpr std::size_t kNoiseBytes = 288 * kMiB;
constexpr std::size_t kWorkspaceBytes = 256 * kMiB;
constexpr std::size_t kKeysBytes = 1024 * kMiB;
constexpr std::size_t kColdBytes = 256 * kMiB;
constexpr std::size_t kRunTokens = 32;
constexpr std::size_t kMaxRows = 512;
constexpr int kCalls = 20;
constexpr int kRounds = 15;
constexpr device::Stream kStream = device::Stream::Compute;

struct Layer {
  const char* name;
  std::size_t q_heads;
  std::size_t kv_heads;
  std::size_t head_dim;
};
constexpr Layer kLayers[] = {{"12B", 16, 8, 256}, {"270M", 4, 1, 256}, {"16 heads of 128, 8 of keys", 16, 8, 128}};
constexpr const char* kTypeNames[] = {"f32", "f16", "bf16", "q8_0", "q4_0"};

struct Card {
  std::unique_ptr<device::CudaDevice> device;
  std::unique_ptr<kernels::cuda::LoadedCode> code;
  std::byte* noise = nullptr;
  std::byte* workspace = nullptr;
  std::byte* keys = nullptr;
};

Result<Card> open_card() {
  Card card;
  EBB_TRY_ASSIGN(const device::cuda::Driver* driver, device::cuda::open_driver());
  EBB_TRY_ASSIGN(card.device, device::CudaDevice::open(*driver, 0));
  EBB_TRY_ASSIGN(card.code, kernels::cuda::LoadedCode::load(*card.device));
  constexpr std::size_t kBytes = kNoiseBytes + kWorkspaceBytes + 2 * kKeysBytes;
  EBB_TRY_ASSIGN(const device::AddressRange range, card.device->reserve(kBytes));
  EBB_TRY_ASSIGN(const device::Handle memory, card.device->create(kBytes));
  EBB_TRY(card.device->map(range.data, std::span(&memory, 1)));
  EBB_TRY(card.device->set_access(range.data, range.bytes, device::Access::ReadWrite));
  card.noise = range.data;
  card.workspace = card.noise + kNoiseBytes;
  card.keys = card.workspace + kWorkspaceBytes;
  std::vector<float> noise(32 * kMiB / sizeof(float));
  std::uint32_t state = 1;
  for (float& value : noise) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1.0f;
  for (std::size_t at = 0; at < kNoiseBytes; at += 32 * kMiB)
    EBB_TRY(card.device->copy(kStream, card.noise + at, noise.data(), 32 * kMiB));
  EBB_TRY_ASSIGN(const device::Fence fence, card.device->fence(kStream));
  EBB_TRY(card.device->wait(fence));
  return card;
}

Card* card(benchmark::State& state) {
  static Result<Card> opened = open_card();
  if (opened) return &*opened;
  state.SkipWithError(opened.error().message.c_str());
  return nullptr;
}

/// Median microseconds on the card of one of the calls that `launch(number)` queues.
template <typename Launch>
double median_us(device::CudaDevice& device, Launch launch) {
  const device::cuda::Driver& driver = device.driver();
  const device::cuda::StreamRef stream = device.stream(kStream);
  device::cuda::Event begin = nullptr;
  device::cuda::Event end = nullptr;
  driver.event_create(&begin, device::cuda::kEventWithTiming);
  driver.event_create(&end, device::cuda::kEventWithTiming);
  std::vector<float> times;
  std::size_t number = 0;
  for (int round = 0; round < kRounds + 2; ++round) {
    driver.event_record(begin, stream);
    for (int call = 0; call < kCalls; ++call) {
      if (!launch(number++)) return 0;
    }
    driver.event_record(end, stream);
    driver.event_synchronize(end);
    float milliseconds = 0;
    driver.event_elapsed(&milliseconds, begin, end);
    if (round >= 2) times.push_back(milliseconds);
  }
  driver.event_destroy(begin);
  driver.event_destroy(end);
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return static_cast<double>(times[kRounds / 2]) * 1000 / kCalls;
}

/// Microseconds in which a copy moves a byte, read or written.
double copy_us_per_byte(const Card& card) {
  static const double measured =
      median_us(*card.device,
                [&](std::size_t) {
                  return card.device->copy(kStream, card.keys, card.keys + kKeysBytes, kKeysBytes).has_value();
                }) /
      static_cast<double>(2 * kKeysBytes);
  return measured;
}

KvView view_at(std::byte* address, const Layer& layer, KvType type, std::size_t keys) {
  KvView view;
  view.types = {type, type};
  view.slots = keys;
  view.run_tokens = kRunTokens;
  view.k_head_stride_bytes = view.v_head_stride_bytes = kRunTokens * kernels::kv_row_bytes(type, layer.head_dim);
  view.run_stride_bytes = 2 * layer.kv_heads * view.k_head_stride_bytes;
  view.k = address;
  view.v = address + layer.kv_heads * view.k_head_stride_bytes;
  return view;
}

/// range: layer, keys, type, rows. The last of the keys are those of the rows; a ring of that many slots, no window.
void cuda_attention(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const Layer& layer = kLayers[state.range(0)];
  const auto keys = static_cast<std::size_t>(state.range(1));
  const auto type = static_cast<KvType>(state.range(2));
  const auto rows = static_cast<std::size_t>(state.range(3));
  state.SetLabel(std::string(layer.name) + " " + kTypeNames[state.range(2)]);
  const std::size_t bytes = 2 * keys * layer.kv_heads * kernels::kv_row_bytes(type, layer.head_dim);
  const std::size_t copies =
      std::max<std::size_t>(1, std::min<std::size_t>(kColdBytes / bytes + 1, 2 * kKeysBytes / bytes));
  auto attention = kernels::cuda::Attention::find(*opened->code);
  auto kv_rows = kernels::cuda::KvRows::find(*opened->code);
  if (!attention || !kv_rows) return state.SkipWithError("no kernels");
  const double us_per_byte = copy_us_per_byte(*opened);
  const auto* const noise = reinterpret_cast<const float*>(opened->noise);
  const std::size_t width = layer.kv_heads * layer.head_dim;
  for (std::size_t i = 0; i < copies; ++i) {
    if (!kv_rows->store(kStream, noise, noise + kMiB + 24, width, 0, keys, layer.kv_heads, layer.head_dim,
                        view_at(opened->keys + i * bytes, layer, type, keys)))
      return state.SkipWithError("kv_store failed");
  }
  const kernels::AttentionShape shape{.first_pos = keys - rows,
                                      .rows = rows,
                                      .q_heads = layer.q_heads,
                                      .kv_heads = layer.kv_heads,
                                      .head_dim = layer.head_dim,
                                      .window = 0,
                                      .scale = 0.0625f};
  const std::size_t out_bytes = kMaxRows * layer.q_heads * layer.head_dim * sizeof(float);
  for (auto _ : state) {
    const double us = median_us(*opened->device, [&](std::size_t number) {
      const KvView view = view_at(opened->keys + number % copies * bytes, layer, type, keys);
      return attention
          ->run(kStream, shape, noise, layer.q_heads * layer.head_dim, view, view,
                reinterpret_cast<float*>(opened->workspace), opened->workspace + out_bytes, kWorkspaceBytes - out_bytes)
          .has_value();
    });
    const double floor_us = static_cast<double>(bytes) * us_per_byte;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["floor_us"] = floor_us;
    state.counters["times_floor"] = us / floor_us;
    state.counters["GB_per_s"] = static_cast<double>(bytes) / us / 1000;
    state.counters["copy_GB_per_s"] = 1e-3 / us_per_byte;
    // Multiply-adds of scores and values: each row sees the keys up to its own.
    const double seen = static_cast<double>(rows) * (static_cast<double>(keys) - static_cast<double>(rows - 1) / 2);
    state.counters["TFLOPs"] = 4 * seen * static_cast<double>(layer.q_heads * layer.head_dim) / us * 1e-6;
  }
}
BENCHMARK(cuda_attention)
    ->ArgNames({"layer", "keys", "type", "rows"})
    ->ArgsProduct({{0, 1, 2}, {512, 1024, 8192, 32768}, {0, 1, 2, 3, 4}, {1}})
    ->ArgsProduct({{0, 1}, {1024, 8192}, {1, 3}, {512}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Storing one token's keys and values: range as above, without keys.
void cuda_kv_store(benchmark::State& state) {
  Card* const opened = card(state);
  if (opened == nullptr) return;
  const Layer& layer = kLayers[state.range(0)];
  const auto type = static_cast<KvType>(state.range(1));
  const auto rows = static_cast<std::size_t>(state.range(2));
  state.SetLabel(std::string(layer.name) + " " + kTypeNames[state.range(1)]);
  auto kv_rows = kernels::cuda::KvRows::find(*opened->code);
  if (!kv_rows) return state.SkipWithError("no kernels");
  const auto* const noise = reinterpret_cast<const float*>(opened->noise);
  const KvView view = view_at(opened->keys, layer, type, 32768);
  for (auto _ : state) {
    const double us = median_us(*opened->device, [&](std::size_t number) {
      return kv_rows
          ->store(kStream, noise, noise + kMiB, layer.kv_heads * layer.head_dim, number * rows, rows, layer.kv_heads,
                  layer.head_dim, view)
          .has_value();
    });
    const double moved = static_cast<double>(
        2 * rows * layer.kv_heads * (layer.head_dim * sizeof(float) + kernels::kv_row_bytes(type, layer.head_dim)));
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["floor_us"] = moved * copy_us_per_byte(*opened);
  }
}
BENCHMARK(cuda_kv_store)
    ->ArgNames({"layer", "type", "rows"})
    ->ArgsProduct({{0, 1}, {1, 3, 4}, {1, 512}})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
