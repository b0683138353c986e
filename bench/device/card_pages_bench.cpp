// What an NVIDIA card's driver takes for each step of a page's life, through our device: percentiles over single calls, since
// the slow ones matter. Also what the pool makes of it: a chat of 12B's shape at 8,192 tokens taken and given back.
// Needs a driver and a card; says so and does nothing elsewhere. The counters of the table are the result (the CSV reporter
// cannot write rows of different counters); the numbers stand in bench/results/card-pages-h200.csv.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace {

using namespace ebb;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kChatPages = 416;  // Gemma 3 12B at 8,192 tokens, bf16

/// One card for the whole program: making a context takes far longer than any benchmark here.
device::CudaDevice* card(benchmark::State& state) {
  static const Result<std::unique_ptr<device::CudaDevice>> opened = []() -> Result<std::unique_ptr<device::CudaDevice>> {
    EBB_TRY_ASSIGN(const device::cuda::Driver* driver, device::cuda::open_driver());
    return device::CudaDevice::open(*driver, 0);
  }();
  if (opened) return opened->get();
  state.SkipWithError(opened.error().message.c_str());
  return nullptr;
}

/// Times of one kind of call.
class Times {
 public:
  template <typename Call>
  void time(benchmark::State& state, Call call) {
    const auto begin = Clock::now();
    const bool worked = call();
    microseconds_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    if (!worked) state.SkipWithError("a call failed");
  }

  void report(benchmark::State& state, const std::string& name) {
    if (microseconds_.empty()) return;
    std::sort(microseconds_.begin(), microseconds_.end());
    state.counters[name + "_p50_us"] = at(0.5);
    state.counters[name + "_p99_us"] = at(0.99);
  }

 private:
  [[nodiscard]] double at(double share) const {
    return microseconds_[static_cast<std::size_t>(share * static_cast<double>(microseconds_.size() - 1))];
  }

  std::vector<double> microseconds_;
};

void life_of_a_handle(benchmark::State& state) {
  device::CudaDevice* device = card(state);
  if (device == nullptr) return;
  const std::size_t bytes = static_cast<std::size_t>(state.range(0)) * kMiB;
  Times create, map, access, unmap, release;
  const device::AddressRange range = device->reserve(bytes).value();
  for (auto _ : state) {
    device::Handle handle;
    create.time(state, [&] {
      const Result<device::Handle> made = device->create(bytes);
      if (made) handle = *made;
      return made.has_value();
    });
    map.time(state, [&] { return device->map(range.data, std::span(&handle, 1)).has_value(); });
    access.time(state, [&] { return device->set_access(range.data, bytes, device::Access::ReadWrite).has_value(); });
    unmap.time(state, [&] { return device->unmap(range.data, bytes).has_value(); });
    release.time(state, [&] { return device->release(handle).has_value(); });
  }
  create.report(state, "create");
  map.report(state, "map");
  access.report(state, "access");
  unmap.report(state, "unmap");
  release.report(state, "release");
  state.SetItemsProcessed(state.iterations());
  benchmark::DoNotOptimize(device->free_addresses(range).has_value());
}
BENCHMARK(life_of_a_handle)->ArgName("MiB")->Arg(2)->Arg(32)->Arg(428)->Iterations(2000)->Unit(benchmark::kMicrosecond);

void chat_taken_and_given_back(benchmark::State& state) {
  device::CudaDevice* device = card(state);
  if (device == nullptr) return;
  memory::Ledger ledger;
  memory::PagePool pool(*device, ledger, memory::PoolOptions{.keep_free_pages = static_cast<std::size_t>(state.range(0))});
  const std::size_t bytes = kChatPages * device->page_bytes();
  memory::Region region = memory::Region::reserve(pool, memory::Tag::KvGlobal, memory::kEngineOwner, bytes).value();
  Times grow, give_back;
  for (auto _ : state) {
    grow.time(state, [&] { return region.resize(bytes).has_value(); });
    give_back.time(state, [&] { return region.resize(0).has_value() && pool.drain().has_value(); });
  }
  grow.report(state, "grow");
  give_back.report(state, "give_back");
}
BENCHMARK(chat_taken_and_given_back)->ArgName("kept")->Arg(0)->Arg(kChatPages)->Iterations(100)->Unit(benchmark::kMicrosecond);

void small_calls(benchmark::State& state) {
  device::CudaDevice* device = card(state);
  if (device == nullptr) return;
  const std::size_t bytes = device->page_bytes();
  const device::AddressRange range = device->reserve(bytes).value();
  const device::Handle page = device->create(bytes).value();
  if (!device->map(range.data, std::span(&page, 1)) || !device->set_access(range.data, bytes, device::Access::ReadWrite))
    return state.SkipWithError("no page");
  std::vector<std::byte> host(bytes);
  Times info, enter, fence, fill, copy_in, copy_out;
  const auto copy = [&](void* target, const void* source) {
    if (!device->copy(device::Stream::Copy, target, source, bytes)) return false;
    const auto made = device->fence(device::Stream::Copy);
    return made && device->wait(*made);
  };
  for (auto _ : state) {
    info.time(state, [&] { return device->mem_info().has_value(); });
    enter.time(state, [&] { return device->begin_step(device::Step::Decode).has_value(); });
    fence.time(state, [&] {
      const auto made = device->fence(device::Stream::Compute);
      return made && device->wait(*made);
    });
    fill.time(state, [&] { return device->fill_zero(range.data, bytes).has_value(); });
    copy_in.time(state, [&] { return copy(range.data, host.data()); });
    copy_out.time(state, [&] { return copy(host.data(), range.data); });
  }
  info.report(state, "mem_info");
  enter.report(state, "enter");
  fence.report(state, "fence");
  fill.report(state, "fill_2MiB");
  copy_in.report(state, "pageable_in_2MiB");
  copy_out.report(state, "pageable_out_2MiB");
  if (!device->unmap(range.data, bytes) || !device->release(page) || !device->free_addresses(range))
    state.SkipWithError("the page was not given back");
}
BENCHMARK(small_calls)->Iterations(2000)->Unit(benchmark::kMicrosecond);

/// 64 MiB between host pages, as the host pool has them, and the card; and what pinning them costs.
void copies(benchmark::State& state) {
  device::CudaDevice* device = card(state);
  if (device == nullptr) return;
  constexpr std::size_t kBytes = 64 * kMiB;
  const std::unique_ptr<device::HostDevice> host = device::HostDevice::open().value();
  memory::Ledger ledger;
  memory::PagePool pool(*device, ledger);
  memory::PagePool host_pool(*host, ledger, memory::PoolOptions{.ledger_device = memory::kHostMemory});
  memory::Region far = memory::Region::reserve(pool, memory::Tag::Staging, memory::kEngineOwner, kBytes).value();
  memory::Region near = memory::Region::reserve(host_pool, memory::Tag::Staging, memory::kEngineOwner, kBytes).value();
  if (!far.resize(kBytes) || !near.resize(kBytes)) return state.SkipWithError("no memory");
  std::memset(near.data(), 1, kBytes);
  const bool is_pinned = state.range(0) != 0;
  Times pin, unpin, in, out;
  const auto copy = [&](void* target, const void* source) {
    if (!device->copy(device::Stream::Copy, target, source, kBytes)) return false;
    const auto made = device->fence(device::Stream::Copy);
    return made && device->wait(*made);
  };
  for (auto _ : state) {
    if (is_pinned) pin.time(state, [&] { return device->pin(near.data(), kBytes).has_value(); });
    in.time(state, [&] { return copy(far.data(), near.data()); });
    out.time(state, [&] { return copy(near.data(), far.data()); });
    if (is_pinned) unpin.time(state, [&] { return device->unpin(near.data()).has_value(); });
  }
  pin.report(state, "pin");
  in.report(state, "in");
  out.report(state, "out");
  unpin.report(state, "unpin");
  const Result<device::MemInfo> info = device->mem_info();
  if (info) state.counters["context_MiB"] = static_cast<double>(info->context_bytes) / kMiB;
}
BENCHMARK(copies)->ArgName("pinned")->Arg(0)->Arg(1)->Iterations(100)->Unit(benchmark::kMicrosecond);

}  // namespace
