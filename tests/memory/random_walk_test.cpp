// Random histories on a fake card, and shorter ones on a real one where there is one: open, grow, trim, share, make private, park and return, close, limits up and down, late
// fences, late releases, failing calls of every kind, others taking memory. After every step the invariants of
// memory.md 8.2 hold; at the end nothing is left. On a real card nothing fails on demand; the limit makes the refusals there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;
using device::kStreamCount;

constexpr std::size_t kFakePage = 4 * kKiB;
constexpr std::size_t kCardPages = 96;
constexpr std::size_t kMostPages = 24;
constexpr std::size_t kHostPages = 40;
constexpr int kFakeSteps = 26000;
constexpr int kCardSteps = 3000;
constexpr std::size_t kDriverSlackBytes = 16 * kMiB;  // what the driver itself may keep or give back meanwhile

struct Open {
  Region region;
  OwnerId owner = 0;
  bool is_whole = false;
  std::byte own_stamp{};
  std::vector<std::byte> stamps;  // the first byte of each of its pages
  std::set<std::byte> known;      // all it ever saw: nothing else may appear in its new pages
  Region parked;
};

/// A page that was given up while a stream might still read it.
struct LateReader {
  const std::byte* address = nullptr;
  std::byte stamp{};
  std::array<std::uint64_t, kStreamCount> fences{};
};

enum class Card { Fake, Cuda };
struct Walk {
  Card card = Card::Fake;
  std::uint32_t seed = 0;
};

class RandomWalk : public testing::TestWithParam<Walk> {
 protected:
  RandomWalk() { host_pool.set_limit(kHostPages * page); }

  void SetUp() override {
    if (!skip_reason.empty()) GTEST_SKIP() << skip_reason;
    if (fake == nullptr) pool.set_limit(limit_bytes = kCardPages * page);  // or the walk would never meet an end
  }

  /// The device of the walk; a fake one stands in where there is no card, and the walk is skipped.
  std::unique_ptr<device::Device> open_card() {
    if (GetParam().card == Card::Cuda) {
      const auto driver = device::cuda::open_driver();
      if (driver) return device::CudaDevice::open(**driver, 0).value();
      skip_reason = driver.error().message;
    }
    auto opened = device::FakeDevice::open(kCardPages * kFakePage, kFakePage).value();
    fake = opened.get();
    return opened;
  }

  [[nodiscard]] int step_count() const { return fake != nullptr ? kFakeSteps : kCardSteps; }

  Status copy_now(void* target, const void* source, std::size_t bytes) {
    EBB_TRY(card->copy(device::Stream::Copy, target, source, bytes));
    EBB_TRY_ASSIGN(const device::Fence fence, card->fence(device::Stream::Copy));
    return fake != nullptr ? Status() : card->wait(fence);  // a fake copies at once, and may hold its fences
  }

  std::byte read(const std::byte* address) {
    if (fake != nullptr) return *address;  // faults if it was unmapped too early
    std::byte value{};
    EXPECT_TRUE(copy_now(&value, address, 1));
    return value;
  }

  void stamp(std::byte* address, std::byte value) {
    if (fake != nullptr) {
      *address = value;
    } else {
      EXPECT_TRUE(copy_now(address, &value, 1));
    }
  }

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); }
  Open* pick_open() { return regions.empty() ? nullptr : &regions[pick(regions.size())]; }
  std::size_t pages_of(const Open& open) const { return open.region.committed_bytes() / page; }
  static bool is_parked(const Open& open) { return open.parked.committed_bytes() != 0; }

  void open() {
    if (regions.size() >= 6) return;
    const bool is_whole = pick(5) == 0;
    Result<Region> region = Region::reserve(pool, static_cast<Tag>(pick(9)), next_owner, kMostPages * page,
                                            is_whole ? Backing::Whole : Backing::Pages);
    if (region) {
      const auto stamp = static_cast<std::byte>(next_owner % 251 + 1);
      regions.push_back(Open{std::move(*region), next_owner, is_whole, stamp, {}, {stamp, std::byte{0}}, Region()});
    }
    ++next_owner;
  }

  void watch(const Open& open, std::size_t first_page) {
    if (fake == nullptr) return;
    const device::FakeStatus status = fake->status();
    for (std::size_t page_idx = first_page; page_idx < pages_of(open); ++page_idx) {
      LateReader reader{open.region.data() + page_idx * page, open.stamps[page_idx], status.fences_made};
      for (std::uint64_t& fence : reader.fences) ++fence;  // the one the pool is about to make
      late_readers.push_back(reader);
    }
  }

  void forget_readers(const Open& open) {
    std::erase_if(late_readers, [&](const LateReader& reader) {
      return reader.address >= open.region.data() &&
             reader.address < open.region.data() + open.region.committed_bytes();
    });
  }

  void expect_refusal(const Error& error) {
    ASSERT_TRUE(error.code == ErrorCode::OutOfMemory || error.code == ErrorCode::Io) << error.message;
    ++refusals;
  }

  /// Resizes to a size the region may take, and stamps what is new.
  void resize_to(Open& open, std::size_t wanted) {
    const std::size_t before = pages_of(open);
    if (wanted < before) watch(open, wanted);
    const Status outcome = open.region.resize(wanted * page);
    const std::size_t after = pages_of(open);
    ASSERT_EQ(after, outcome ? wanted : before);
    open.stamps.resize(after, open.own_stamp);
    if (!outcome) {
      expect_refusal(outcome.error());
      if (outcome.error().code == ErrorCode::OutOfMemory) {
        ASSERT_GE(outcome.error().memory->wanted_bytes, (wanted - before) * page);
      }
      return;
    }
    forget_readers(open);
    for (std::size_t page_idx = before; page_idx < after; ++page_idx) {
      ASSERT_TRUE(open.known.contains(read(open.region.data() + page_idx * page)));  // nobody else's bytes
      stamp(open.region.data() + page_idx * page, open.own_stamp);
    }
  }

  void resize() {
    Open* open = pick_open();
    if (open == nullptr || is_parked(*open)) return;
    std::size_t wanted = pick(kMostPages + 1);
    if (open->is_whole && pages_of(*open) != 0) wanted = 0;
    resize_to(*open, wanted);
  }

  void share() {
    Open* source = pick_open();
    Open* target = pick_open();
    if (source == target || source == nullptr || source->is_whole || target->is_whole || is_parked(*target)) return;
    if (pages_of(*target) != 0) return resize_to(*target, 0);
    const std::size_t page_count = pick(pages_of(*source) + 1);
    const Status outcome = target->region.share_front(source->region, page_count * page);
    ASSERT_EQ(pages_of(*target), outcome ? page_count : 0);
    if (!outcome) return expect_refusal(outcome.error());
    ++shares;
    forget_readers(*target);
    target->stamps.assign(source->stamps.begin(), source->stamps.begin() + static_cast<std::ptrdiff_t>(page_count));
    target->known.insert(target->stamps.begin(), target->stamps.end());
  }

  /// Makes a tail private and writes to it.
  void write() {
    Open* open = pick_open();
    if (open == nullptr || pages_of(*open) == 0) return;
    const std::size_t first_page = pick(pages_of(*open));
    const Status outcome = open->region.make_private(first_page * page);
    ASSERT_LE(pages_of(*open), open->stamps.size());
    if (!outcome) {
      expect_refusal(outcome.error());
      ASSERT_GE(pages_of(*open), std::min(first_page, open->stamps.size()));
      open->stamps.resize(pages_of(*open));
      return;
    }
    ASSERT_EQ(pages_of(*open), open->stamps.size());
    for (std::size_t page_idx = first_page; page_idx < open->stamps.size(); ++page_idx)
      stamp(open->region.data() + page_idx * page, open->stamps[page_idx] = open->own_stamp);
  }

  void park() {
    Open* open = pick_open();
    if (open == nullptr || is_parked(*open) || pages_of(*open) == 0) return;
    const std::size_t bytes = open->region.committed_bytes();
    Region copy = Region::reserve(host_pool, Tag::Parked, open->owner, bytes).value();
    if (const Status outcome = copy.resize(bytes); !outcome) return expect_refusal(outcome.error());
    const Status copied = copy_now(copy.data(), open->region.data(), bytes);
    if (!copied) return expect_refusal(copied.error());
    open->parked = std::move(copy);
    const std::vector<std::byte> stamps = open->stamps;
    resize_to(*open, 0);
    open->stamps = stamps;
    ++parks;
  }

  void bring_back() {
    Open* open = pick_open();
    if (open == nullptr || !is_parked(*open)) return;
    const std::size_t bytes = open->parked.committed_bytes();
    const Status outcome = open->region.resize(bytes);
    if (!outcome) return expect_refusal(outcome.error());
    forget_readers(*open);
    const Status copied = copy_now(open->region.data(), open->parked.data(), bytes);
    if (copied) {
      open->parked = Region();
      return;
    }
    expect_refusal(copied.error());
    ASSERT_TRUE(open->region.resize(0));
  }

  void close() {
    if (regions.empty()) return;
    const std::size_t region_idx = pick(regions.size());
    watch(regions[region_idx], 0);
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(region_idx));
  }

  void disturb() {
    if (fake == nullptr) return;
    device::FakeSettings settings;
    switch (pick(4)) {
      case 0:
        settings.others_bytes = pick(kCardPages / 2) * page;
        break;
      case 1:
        settings.release_ms = std::chrono::milliseconds(pick(3) == 0 ? 1 : 0);
        break;
      default:
        settings.fail.emplace(device::FailRule{static_cast<FakeCall>(pick(7)), pick(12) + 1, pick(3) + 1});
        break;
    }
    fake->apply(settings);
  }

  void hold_or_let_go(bool held) {
    if (fake != nullptr) fake->hold_fences(held);
  }

  void complete(device::Stream stream, std::uint64_t count) {
    if (fake != nullptr) fake->complete_fences(stream, count);
  }

  void change_limit() {
    limit_bytes = std::nullopt;
    if (fake == nullptr || pick(3) != 0) limit_bytes = (pick(kCardPages) + 1) * page;
    pool.set_limit(limit_bytes);
  }

  void step() {
    switch (pick(18)) {
      case 0:
        return open();
      case 1:
        return close();
      case 2:
        return disturb();
      case 3:
        return hold_or_let_go(true);
      case 4:
        return pick(4) == 0 ? hold_or_let_go(false) : complete(device::Stream::Copy, pick(4));
      case 5:
        return complete(device::Stream::Compute, pick(4));
      case 6:
        static_cast<void>(pool.trim(pick(5)));
        return;
      case 7:
        static_cast<void>(pool.collect());
        return;
      case 8:
        if (pick(8) == 0) static_cast<void>(pool.drain());
        return;
      case 9:
      case 10:
        return share();
      case 11:
        return write();
      case 12:
        return park();
      case 13:
        return bring_back();
      case 14:
        if (pick(4) == 0) change_limit();
        return;
      default:
        return resize();
    }
  }

  void check() {
    pool.check_invariants();
    host_pool.check_invariants();
    if (fake != nullptr) check_late_readers();
    for (const Open& open : regions) {
      for (std::size_t page_idx = 0; page_idx < open.stamps.size(); ++page_idx) {
        const std::size_t offset = page_idx * page;
        ASSERT_EQ(is_parked(open) ? open.parked.data()[offset] : read(open.region.data() + offset), open.stamps[page_idx]);
      }
    }

    const LedgerSnapshot snapshot = ledger.snapshot();
    const LedgerSnapshot::Device& sums = snapshot.devices[pool.ledger_device()];
    const PoolStats stats = pool.stats();
    ASSERT_EQ(sums.owned_bytes + sums.pooled_bytes, (stats.created_pages - stats.released_pages) * page);
    const std::size_t ours_bytes = card->mem_info().value().ours_bytes;
    ASSERT_GE(ours_bytes, sums.owned_bytes + sums.pooled_bytes);  // more: releases on their way
    if (limit_bytes) {
      ASSERT_LE(ours_bytes, std::max(*limit_bytes, ours_before));
    }
    ours_before = ours_bytes;
    ASSERT_LE(snapshot.devices[kHostMemory].owned_bytes, kHostPages * page);
  }

  void check_late_readers() {
    const device::FakeStatus status = fake->status();
    std::erase_if(late_readers, [&](const LateReader& reader) {
      for (std::size_t stream_idx = 0; stream_idx < kStreamCount; ++stream_idx) {
        if (status.fences_done[stream_idx] < reader.fences[stream_idx]) return false;
      }
      return true;
    });
    for (const LateReader& reader : late_readers) ASSERT_EQ(read(reader.address), reader.stamp);
    const PoolStats stats = pool.stats();
    ASSERT_EQ(status.live_handles, stats.create_count - stats.release_count);
    ASSERT_EQ(status.live_mappings, stats.map_count - stats.unmap_count);
  }

  std::mt19937 random{GetParam().seed};
  std::string skip_reason;
  device::FakeDevice* fake = nullptr;  // the card, where it is a fake one
  std::unique_ptr<device::Device> card = open_card();
  const std::size_t page = card->page_bytes();
  std::unique_ptr<device::HostDevice> host = device::HostDevice::open(kFakePage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 5}};
  PagePool host_pool{*host, ledger, PoolOptions{.keep_free_pages = 2, .ledger_device = kHostMemory}};
  std::vector<Open> regions;
  std::deque<LateReader> late_readers;
  std::optional<std::size_t> limit_bytes;
  std::size_t ours_before = 0;
  OwnerId next_owner = 1;
  int refusals = 0;
  int shares = 0;
  int parks = 0;
};

TEST_P(RandomWalk, KeepsItsBooksAtEveryStepAndEndsWithNothing) {
  std::cout << "seed " << GetParam().seed << " on " << card->name() << "\n";
  const device::MemInfo before = card->mem_info().value();
  for (int step_idx = 0; step_idx < step_count(); ++step_idx) {
    SCOPED_TRACE(step_idx);
    step();
    if (HasFatalFailure()) return;
    check();
    if (HasFatalFailure()) return;
  }
  // Else the walk would not test refusals, shared pages or parking.
  EXPECT_GT(refusals, step_count() / 100);
  EXPECT_GT(shares, step_count() / 200);
  EXPECT_GT(parks, step_count() / 200);
  if (fake != nullptr) {
    device::FakeSettings calm;
    calm.fail.emplace(std::nullopt);
    fake->apply(calm);
  }
  regions.clear();
  ASSERT_TRUE(pool.drain());
  pool.trim();
  host_pool.trim();
  EXPECT_TRUE(ledger.snapshot().entries.empty());
  EXPECT_TRUE(pool.confirm(std::chrono::seconds(60)).value());
  const device::MemInfo after = card->mem_info().value();
  EXPECT_EQ(after.ours_bytes, 0u);
  if (fake != nullptr) {
    EXPECT_EQ(fake->status().live_handles, 0u);
    EXPECT_EQ(fake->status().live_mappings, 0u);
  } else {
    EXPECT_LE(after.context_bytes, before.context_bytes + kDriverSlackBytes);
    EXPECT_GE(after.free_bytes + kDriverSlackBytes, before.free_bytes);
  }
  EXPECT_EQ(host->physical_bytes(), 0u);
  pool.check_invariants();
}

std::string walk_name(const testing::TestParamInfo<Walk>& walk) {
  return (walk.param.card == Card::Cuda ? "cuda_" : "fake_") + std::to_string(walk.param.seed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWalk,
                         testing::Values(Walk{Card::Fake, 1}, Walk{Card::Fake, 2}, Walk{Card::Fake, 3},
                                         Walk{Card::Fake, 20261130}, Walk{Card::Cuda, 1}, Walk{Card::Cuda, 20261201}),
                         walk_name);

}  // namespace
}  // namespace ebb::memory
