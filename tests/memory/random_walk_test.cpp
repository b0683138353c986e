// Random histories on a fake card: open, grow, shrink, close, trim, late fences, failing calls, others taking memory.
// After every step the invariants of memory.md 8.2 hold; at the end nothing is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;
using device::kStreamCount;

constexpr std::size_t kPage = 4 * kKiB;
constexpr std::size_t kCardPages = 96;
constexpr std::size_t kMostPages = 40;
constexpr int kStepsPerSeed = 6000;

struct Open {
  Region region;
  OwnerId owner = 0;
  std::byte stamp{};  // the first byte of each of its pages
};

/// A page that was given up while a stream might still read it.
struct LateReader {
  const std::byte* address = nullptr;
  std::byte stamp{};
  std::array<std::uint64_t, kStreamCount> fences{};
};

class RandomWalk : public testing::TestWithParam<std::uint32_t> {
 protected:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); }

  void open() {
    if (regions.size() >= 6) return;
    const auto tag = static_cast<Tag>(pick(9));
    Result<Region> region = Region::reserve(pool, tag, next_owner, kMostPages * kPage);
    if (region) regions.push_back(Open{std::move(*region), next_owner, static_cast<std::byte>(next_owner % 251 + 1)});
    ++next_owner;
  }

  void watch(const Open& open, std::size_t first_page) {
    const device::FakeStatus status = card->status();
    for (std::size_t page_idx = first_page; page_idx < open.region.committed_bytes() / kPage; ++page_idx) {
      LateReader reader{open.region.data() + page_idx * kPage, open.stamp, status.fences_made};
      for (std::uint64_t& fence : reader.fences) ++fence;  // the one the pool is about to make
      late_readers.push_back(reader);
    }
  }

  void resize() {
    if (regions.empty()) return;
    Open& open = regions[pick(regions.size())];
    const std::size_t before = open.region.committed_bytes() / kPage;
    const std::size_t wanted = pick(kMostPages + 1);
    if (wanted < before) watch(open, wanted);
    const Status outcome = open.region.resize(wanted * kPage);
    const std::size_t after = open.region.committed_bytes() / kPage;
    ASSERT_EQ(after, outcome ? wanted : before);
    if (outcome) {
      std::erase_if(late_readers, [&](const LateReader& reader) {
        return reader.address >= open.region.data() && reader.address < open.region.data() + after * kPage;
      });
    } else {
      ASSERT_EQ(outcome.error().code, ErrorCode::OutOfMemory);
      ASSERT_EQ(outcome.error().memory->wanted_bytes, (wanted - before) * kPage);
      ++refusals;
    }
    for (std::size_t page_idx = 0; page_idx < std::min(before, after); ++page_idx)
      ASSERT_EQ(open.region.data()[page_idx * kPage], open.stamp);
    for (std::size_t page_idx = before; page_idx < after; ++page_idx) open.region.data()[page_idx * kPage] = open.stamp;
  }

  void close() {
    if (regions.empty()) return;
    const std::size_t region_idx = pick(regions.size());
    watch(regions[region_idx], 0);
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(region_idx));
  }

  void disturb() {
    device::FakeSettings settings;
    if (pick(2) == 0) {
      const auto call = static_cast<FakeCall>(pick(static_cast<std::size_t>(FakeCall::Copy)));
      settings.fail.emplace(device::FailRule{call, pick(12) + 1, pick(3) + 1});
    } else {
      settings.others_bytes = pick(kCardPages / 2) * kPage;
    }
    card->apply(settings);
  }

  void step() {
    switch (pick(12)) {
      case 0:
        open();
        break;
      case 1:
        close();
        break;
      case 2:
        disturb();
        break;
      case 3:
        card->hold_fences(true);
        break;
      case 4:
        pick(4) == 0 ? card->hold_fences(false) : card->complete_fences(device::Stream::Copy, pick(4));
        break;
      case 5:
        card->complete_fences(device::Stream::Compute, pick(4));
        break;
      case 6:
        pool.trim(pick(5));
        break;
      case 7:
        pool.collect();
        break;
      case 8:
        if (pick(8) == 0) static_cast<void>(pool.drain());
        break;
      default:
        resize();
        break;
    }
  }

  void check() {
    pool.check_invariants();
    const device::FakeStatus status = card->status();
    std::erase_if(late_readers, [&](const LateReader& reader) {
      for (std::size_t stream_idx = 0; stream_idx < kStreamCount; ++stream_idx) {
        if (status.fences_done[stream_idx] < reader.fences[stream_idx]) return false;
      }
      return true;
    });
    for (const LateReader& reader : late_readers)
      ASSERT_EQ(*reader.address, reader.stamp);  // faults if unmapped too early

    const PoolStats stats = pool.stats();
    ASSERT_EQ(status.live_handles, stats.created_pages - stats.released_pages);
    ASSERT_EQ(status.live_mappings, stats.mapped_pages + stats.retired_pages);
    const LedgerSnapshot snapshot = ledger.snapshot();
    std::size_t owned_bytes = 0;
    for (const LedgerSnapshot::Entry& entry : snapshot.entries) owned_bytes += entry.bytes;
    ASSERT_EQ(owned_bytes + snapshot.devices[pool.ledger_device()].pooled_bytes, status.ours_bytes);
    for (const Open& open : regions) ASSERT_GE(snapshot.owner_bytes(open.owner), open.region.committed_bytes());
  }

  std::mt19937 random{GetParam()};
  std::unique_ptr<device::FakeDevice> card = device::FakeDevice::open(kCardPages * kPage, kPage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 5}};
  std::vector<Open> regions;
  std::deque<LateReader> late_readers;
  OwnerId next_owner = 1;
  int refusals = 0;
};

TEST_P(RandomWalk, KeepsItsBooksAtEveryStepAndEndsWithNothing) {
  std::cout << "seed " << GetParam() << "\n";
  for (int step_idx = 0; step_idx < kStepsPerSeed; ++step_idx) {
    SCOPED_TRACE(step_idx);
    step();
    if (HasFatalFailure()) return;
    check();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refusals, kStepsPerSeed / 100);  // else the walk would not test refusals
  device::FakeSettings calm;
  calm.fail.emplace(std::nullopt);
  card->apply(calm);
  regions.clear();
  ASSERT_TRUE(pool.drain());
  pool.trim();
  EXPECT_TRUE(ledger.snapshot().entries.empty());
  EXPECT_EQ(card->status().ours_bytes, 0u);
  EXPECT_EQ(card->status().live_handles, 0u);
  EXPECT_EQ(card->status().live_mappings, 0u);
  pool.check_invariants();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWalk, testing::Values(1u, 2u, 3u, 20261130u));

}  // namespace
}  // namespace ebb::memory
