// What a page size costs on the host backend: growing and shrinking a region, first touch, reading.
// The numbers stand in docs/decisions/0004-host-page-size.md.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <numeric>

#include "base/bytes.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace {

using namespace ebb;

constexpr std::size_t kOsPage = 4 * kKiB;
constexpr std::size_t kGrowBytes = 4 * kMiB;
constexpr std::size_t kReadBytes = 64 * kMiB;

struct Pool {
  explicit Pool(std::size_t page_bytes) : device(device::HostDevice::open(page_bytes).value()) {}
  memory::Region reserve(std::size_t bytes) {
    return memory::Region::reserve(pool, memory::Tag::Scratch, memory::kEngineOwner, bytes).value();
  }

  std::unique_ptr<device::HostDevice> device;
  memory::Ledger ledger;
  memory::PagePool pool{*device, ledger, memory::PoolOptions{.keep_free_pages = 0}};
};

void touch(std::byte* data, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += kOsPage) data[offset] = std::byte{1};
}

std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  return std::accumulate(words, words + bytes / sizeof(std::uint64_t), std::uint64_t{0});
}

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * bytes));
}

void grow_and_shrink(benchmark::State& state) {
  Pool pool(static_cast<std::size_t>(state.range(0)));
  memory::Region region = pool.reserve(kGrowBytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(region.resize(kGrowBytes).has_value());
    if (state.range(1) != 0) touch(region.data(), kGrowBytes);
    benchmark::DoNotOptimize(region.resize(0).has_value());
  }
  count_bytes(state, kGrowBytes);
}
BENCHMARK(grow_and_shrink)
    ->ArgNames({"page", "touched"})
    ->ArgsProduct({{4096, 16384, 65536, 262144, 2097152}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

void grow_page_by_page(benchmark::State& state) {
  const auto page_bytes = static_cast<std::size_t>(state.range(0));
  Pool pool(page_bytes);
  memory::Region region = pool.reserve(kGrowBytes);
  for (auto _ : state) {
    for (std::size_t bytes = page_bytes; bytes <= kGrowBytes; bytes += page_bytes)
      benchmark::DoNotOptimize(region.resize(bytes).has_value());
    benchmark::DoNotOptimize(region.resize(0).has_value());
  }
  count_bytes(state, kGrowBytes);
}
BENCHMARK(grow_page_by_page)
    ->ArgName("page")
    ->Arg(4096)
    ->Arg(16384)
    ->Arg(65536)
    ->Arg(262144)
    ->Arg(2097152)
    ->Unit(benchmark::kMicrosecond);

void anonymous_touched(benchmark::State& state) {
  for (auto _ : state) {
    void* data = ::mmap(nullptr, kGrowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(static_cast<std::byte*>(data), kGrowBytes);
    ::munmap(data, kGrowBytes);
  }
  count_bytes(state, kGrowBytes);
}
BENCHMARK(anonymous_touched)->Unit(benchmark::kMicrosecond);

void resize_unchanged(benchmark::State& state) {
  Pool pool(device::kHostPageBytes);
  memory::Region region = pool.reserve(kGrowBytes);
  benchmark::DoNotOptimize(region.resize(kGrowBytes).has_value());
  std::size_t bytes = kGrowBytes;
  for (auto _ : state)
    benchmark::DoNotOptimize(region.resize(--bytes > kGrowBytes - kKiB ? bytes : bytes = kGrowBytes).has_value());
}
BENCHMARK(resize_unchanged);

void read_region(benchmark::State& state) {
  Pool pool(device::kHostPageBytes);
  memory::Region region = pool.reserve(kReadBytes);
  benchmark::DoNotOptimize(region.resize(kReadBytes).has_value());
  touch(region.data(), kReadBytes);
  for (auto _ : state) benchmark::DoNotOptimize(read_all(region.data(), kReadBytes));
  count_bytes(state, kReadBytes);
}
BENCHMARK(read_region);

// Two regions that grew turn by turn: no two neighbouring pages of one lie side by side in the store.
void read_interleaved_region(benchmark::State& state) {
  Pool pool(device::kHostPageBytes);
  memory::Region region = pool.reserve(kReadBytes);
  memory::Region other = pool.reserve(kReadBytes);
  for (std::size_t bytes = device::kHostPageBytes; bytes <= kReadBytes; bytes += device::kHostPageBytes) {
    benchmark::DoNotOptimize(region.resize(bytes).has_value());
    benchmark::DoNotOptimize(other.resize(bytes).has_value());
  }
  touch(region.data(), kReadBytes);
  for (auto _ : state) benchmark::DoNotOptimize(read_all(region.data(), kReadBytes));
  count_bytes(state, kReadBytes);
}
BENCHMARK(read_interleaved_region);

void read_anonymous(benchmark::State& state) {
  void* data = ::mmap(nullptr, kReadBytes + 2 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (state.range(0) != 0) ::madvise(data, kReadBytes + 2 * kMiB, MADV_HUGEPAGE);
  touch(static_cast<std::byte*>(data), kReadBytes);
  for (auto _ : state) benchmark::DoNotOptimize(read_all(static_cast<std::byte*>(data), kReadBytes));
  count_bytes(state, kReadBytes);
  ::munmap(data, kReadBytes + 2 * kMiB);
}
BENCHMARK(read_anonymous)->ArgName("huge")->Arg(0)->Arg(1);

}  // namespace
