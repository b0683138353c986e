// What the books cost: ledger and pool per growth, shrink and unchanged resize, and for the reset of a long chat.
// `books` runs on a device whose calls do nothing, so that only our own work is timed; `fake` on the fake card, whose
// calls are system calls. No page is touched. The numbers stand in bench/results/memory-books-2-cores.csv.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/device.h"
#include "device/fake/fake_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace {

using namespace ebb;

constexpr std::size_t kPage = 2 * kMiB;
constexpr std::size_t kCardBytes = 24 * kGiB;
// Gemma 3 12B at 8,192 tokens, bf16: 32 tokens a page; one range of global layers, five of windowed ones (1,024 tokens).
constexpr std::size_t kGlobalPages = 256;
constexpr std::size_t kLocalPages = 32;
constexpr std::size_t kLocalRanges = 5;

/// Every call works and does nothing: what is left is the caller's own time.
class IdleDevice final : public device::Device {
 public:
  device::Kind kind() const override { return device::Kind::Fake; }
  const std::string& name() const override { return name_; }
  std::size_t page_bytes() const override { return kPage; }
  Result<device::AddressRange> reserve(std::size_t bytes) override {
    auto* const data = reinterpret_cast<std::byte*>(next_address_);  // never read or written
    next_address_ += bytes;
    return device::AddressRange{data, bytes};
  }
  Status free_addresses(device::AddressRange) override { return {}; }
  Result<device::Handle> create(std::size_t) override { return device::Handle{++last_handle_}; }
  Status release(device::Handle) override { return {}; }
  Status map(std::byte*, std::span<const device::Handle>) override { return {}; }
  Status set_access(std::byte*, std::size_t, device::Access) override { return {}; }
  Status unmap(std::byte*, std::size_t) override { return {}; }
  Result<device::MemInfo> mem_info() override { return device::MemInfo{kCardBytes, kCardBytes, 0, 0}; }
  Result<device::Fence> fence(device::Stream stream) override { return device::Fence{stream, 0}; }
  Result<bool> done(device::Fence) override { return true; }
  Status wait(device::Fence) override { return {}; }
  Status copy(device::Stream, void*, const void*, std::size_t) override { return {}; }
  Status fill_zero(std::byte*, std::size_t) override { return {}; }
  Status begin_step(device::Step) override { return {}; }

 private:
  const std::string name_ = "idle";
  std::uintptr_t next_address_ = kPage;
  std::uint64_t last_handle_ = 0;
};

struct Pool {
  explicit Pool(std::unique_ptr<device::Device> own_device) : device(std::move(own_device)) {
    pool.set_limit(kCardBytes);
  }
  memory::Region reserve(std::size_t page_count) {
    return memory::Region::reserve(pool, memory::Tag::KvGlobal, 1, page_count * kPage).value();
  }

  std::unique_ptr<device::Device> device;
  memory::Ledger ledger;
  memory::PagePool pool{*device, ledger};
};

std::unique_ptr<device::Device> books() { return std::make_unique<IdleDevice>(); }
std::unique_ptr<device::Device> fake() { return device::FakeDevice::open(kCardBytes, kPage).value(); }

void grow_and_shrink_a_page(benchmark::State& state, std::unique_ptr<device::Device> (*open)()) {
  Pool pool(open());
  memory::Region region = pool.reserve(kGlobalPages);
  benchmark::DoNotOptimize(region.resize(100 * kPage).has_value());
  for (auto _ : state) {
    benchmark::DoNotOptimize(region.resize(101 * kPage).has_value());
    benchmark::DoNotOptimize(region.resize(100 * kPage).has_value());
  }
}
BENCHMARK_CAPTURE(grow_and_shrink_a_page, books, books);
BENCHMARK_CAPTURE(grow_and_shrink_a_page, fake, fake);

void resize_unchanged(benchmark::State& state) {
  Pool pool(books());
  memory::Region region = pool.reserve(kGlobalPages);
  benchmark::DoNotOptimize(region.resize(100 * kPage).has_value());
  std::size_t spare_bytes = 0;
  for (auto _ : state) {
    spare_bytes ^= 1;
    benchmark::DoNotOptimize(region.resize(100 * kPage - spare_bytes).has_value());
  }
}
BENCHMARK(resize_unchanged);

enum class Timed : std::uint8_t { Fill, Reset };

void chat_of_8k(benchmark::State& state, std::unique_ptr<device::Device> (*open)(), Timed timed) {
  Pool pool(open());
  std::vector<memory::Region> regions;
  regions.push_back(pool.reserve(kGlobalPages));
  for (std::size_t i = 0; i < kLocalRanges; ++i) regions.push_back(pool.reserve(kLocalPages));
  const auto resize_all = [&](bool is_full) {
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const std::size_t page_count = i == 0 ? kGlobalPages : kLocalPages;
      benchmark::DoNotOptimize(regions[i].resize(is_full ? page_count * kPage : 0).has_value());
    }
  };
  for (auto _ : state) {
    if (timed == Timed::Reset) state.PauseTiming();
    resize_all(true);
    if (timed == Timed::Reset) state.ResumeTiming();
    if (timed == Timed::Fill) state.PauseTiming();
    resize_all(false);
    if (timed == Timed::Fill) state.ResumeTiming();
  }
}
BENCHMARK_CAPTURE(chat_of_8k, books_fill, books, Timed::Fill)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(chat_of_8k, books_reset, books, Timed::Reset)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(chat_of_8k, fake_fill, fake, Timed::Fill)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(chat_of_8k, fake_reset, fake, Timed::Reset)->Unit(benchmark::kMicrosecond);

}  // namespace
