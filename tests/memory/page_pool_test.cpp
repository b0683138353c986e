// The pool on a fake card: refusals, late fences, failing calls; the card's own counters are believed.
#include "memory/page_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;
using device::FakeStatus;
using device::Stream;

constexpr std::size_t kPage = 4 * kKiB;

class PagePoolOnFake : public testing::Test {
 protected:
  Region reserve(Tag tag, OwnerId owner, std::size_t page_count) {
    return Region::reserve(pool, tag, owner, page_count * kPage).value();
  }

  void fail(FakeCall call, std::uint64_t nth, std::uint64_t count = 1) {
    device::FakeSettings settings;
    settings.fail.emplace(device::FailRule{call, nth, count});
    card->apply(settings);
  }

  /// M19, M20: the kinds sum to the card's mapped bytes, and with the pooled ones to what the card says is ours.
  void expect_ledger_equals_card() {
    pool.check_invariants();
    const FakeStatus status = card->status();
    const LedgerSnapshot snapshot = ledger.snapshot();
    const LedgerSnapshot::Device& sums = snapshot.devices[pool.ledger_device()];
    EXPECT_EQ(sums.owned_bytes, status.live_mappings * kPage);
    EXPECT_EQ(sums.owned_bytes + sums.pooled_bytes, status.ours_bytes);
  }

  std::unique_ptr<device::FakeDevice> card = device::FakeDevice::open(32 * kPage, kPage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 4}};
};

TEST_F(PagePoolOnFake, KeepsFewFreePagesAndReleasesTheRest) {
  Region region = reserve(Tag::Scratch, kEngineOwner, 32);
  ASSERT_TRUE(region.resize(20 * kPage));
  ASSERT_TRUE(region.resize(0));
  EXPECT_EQ(pool.stats().free_pages, 4u);
  EXPECT_EQ(card->status().ours_bytes, 4 * kPage);
  expect_ledger_equals_card();
  const std::uint64_t created = card->status().calls_of(FakeCall::Create);
  ASSERT_TRUE(region.resize(3 * kPage));
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), created);
  ASSERT_TRUE(region.resize(0));
  EXPECT_EQ(pool.trim(1), 3 * kPage);
  EXPECT_EQ(pool.trim(), kPage);
  EXPECT_EQ(card->status().ours_bytes, 0u);
  expect_ledger_equals_card();
}

TEST_F(PagePoolOnFake, OutOfMemorySaysExactlyWhatIsMissing) {
  device::FakeSettings settings;
  settings.others_bytes = 20 * kPage;
  card->apply(settings);
  Region weights = reserve(Tag::Weights, kEngineOwner, 32);
  Region scratch = reserve(Tag::Scratch, kEngineOwner, 32);
  ASSERT_TRUE(weights.resize(5 * kPage));
  ASSERT_TRUE(scratch.resize(2 * kPage));
  ASSERT_TRUE(scratch.resize(0));  // two pages free in the pool
  Region kv = reserve(Tag::KvGlobal, 1, 32);
  ASSERT_TRUE(kv.resize(kPage));

  const Status refused = kv.resize(10 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(refused.error().memory);
  EXPECT_EQ(refused.error().memory->wanted_bytes, 9 * kPage);
  EXPECT_EQ(refused.error().memory->free_bytes,
            (32 - 20 - 5 - 2) * kPage);  // a page of the two went to kv, the other is pooled
  EXPECT_EQ(refused.error().memory->reclaimable_bytes, kPage);
  EXPECT_EQ(refused.error().memory->tag, "kv_global");
  EXPECT_NE(refused.error().message.find("36.0 KiB more of kv_global on fake"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(kv.committed_bytes(), kPage);
  expect_ledger_equals_card();
  EXPECT_TRUE(kv.resize(7 * kPage));  // exactly the rest
}

// B6: fail the nth call of every kind, for every n, during one growth.
TEST_F(PagePoolOnFake, AFailedGrowthLeavesAllAsBefore) {
  Region other = reserve(Tag::Weights, kEngineOwner, 8);
  ASSERT_TRUE(other.resize(3 * kPage));
  ASSERT_TRUE(other.resize(kPage));  // two free pages
  Region region = reserve(Tag::KvLocal, 1, 16);
  ASSERT_TRUE(region.resize(1));
  region.data()[0] = std::byte{77};
  int failures = 0;
  for (const FakeCall call : {FakeCall::Create, FakeCall::Map, FakeCall::Access}) {
    for (std::uint64_t nth = 1; nth <= 16; ++nth) {
      const FakeStatus before = card->status();
      const PoolStats stats_before = pool.stats();
      fail(call, nth);
      const Status outcome = region.resize(8 * kPage);
      if (outcome) {
        ASSERT_TRUE(region.resize(kPage));
        pool.trim(stats_before.free_pages);
        break;
      }
      ++failures;
      EXPECT_EQ(outcome.error().memory->tag, "kv_local");
      EXPECT_EQ(card->status().ours_bytes, before.ours_bytes);
      EXPECT_EQ(card->status().live_mappings, before.live_mappings);
      EXPECT_EQ(pool.stats().free_pages, stats_before.free_pages);
      EXPECT_EQ(region.committed_bytes(), kPage);
      EXPECT_EQ(region.data()[0], std::byte{77});
      expect_ledger_equals_card();
    }
  }
  EXPECT_GE(failures, 10);  // 6 or 7 creates, 7 maps, 1 access
}

TEST_F(PagePoolOnFake, AFailedUnwindingKeepsThePagesCountedUntilItWorks) {
  Region region = reserve(Tag::KvLocal, 1, 16);
  card->hold_fences(true);
  ASSERT_TRUE(region.resize(6 * kPage));
  ASSERT_TRUE(region.resize(0));
  ASSERT_TRUE(region.resize(2 * kPage));
  ASSERT_TRUE(region.resize(0));  // two records: [2,6) and [0,2)
  card->hold_fences(false);
  fail(FakeCall::Unmap, 1, 100);
  EXPECT_EQ(pool.collect(), 6 * kPage);
  EXPECT_EQ(pool.drain().error().code, ErrorCode::Io);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 6 * kPage);
  expect_ledger_equals_card();
  fail(FakeCall::Release, 1, 1);
  EXPECT_EQ(pool.collect(), 0u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 0u);
  expect_ledger_equals_card();
  pool.trim();
  EXPECT_EQ(card->status().ours_bytes, 0u);
}

// M4: reclaim waits for the last stream that used a block, though the host gave it up.
TEST_F(PagePoolOnFake, PagesGivenUpStayMappedUntilEveryStreamHasPassed) {
  card->hold_fences(true);
  Region region = reserve(Tag::KvGlobal, 1, 16);
  ASSERT_TRUE(region.resize(8 * kPage));
  std::byte* const late_reader = region.data() + 5 * kPage;
  *late_reader = std::byte{5};
  ASSERT_TRUE(region.resize(2 * kPage));
  EXPECT_EQ(pool.stats().retired_pages, 6u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 8 * kPage);
  card->complete_fences(Stream::Compute, 1);
  EXPECT_EQ(pool.collect(), 6 * kPage);
  EXPECT_EQ(*late_reader, std::byte{5});
  card->complete_fences(Stream::Copy, 1);
  EXPECT_EQ(pool.collect(), 0u);
  EXPECT_EQ(card->status().live_mappings, 2u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 2 * kPage);
  expect_ledger_equals_card();
}

// M4: asked for 1.00, 1.01, 1.02... x base, 5,000 times, in a pool that sees both ways of asking: a region that grows on, and
// one that is given back between two wishes.
TEST(PagePoolPeak, ScratchIsTheLargestNeedAndNotTheSumOfHistory) {
  const auto card = device::FakeDevice::open(512 * kPage, kPage).value();
  Ledger ledger;
  PagePool pool(*card, ledger);
  constexpr std::size_t kBaseBytes = 8 * kPage;
  for (const bool is_given_back : {false, true}) {
    Region region = Region::reserve(pool, Tag::Scratch, kEngineOwner, 512 * kPage).value();
    device::FakeSettings settings;
    settings.reset_peak = true;
    card->apply(settings);
    std::size_t largest_bytes = 0;
    for (std::size_t i = 0; i < 5000; ++i) {
      largest_bytes = kBaseBytes + kBaseBytes * i / 100;
      ASSERT_TRUE(region.resize(largest_bytes));
      if (is_given_back) {
        ASSERT_TRUE(region.resize(0));
      }
    }
    EXPECT_LE(card->status().ours_peak_bytes * 4, largest_bytes * 5);
    pool.check_invariants();
  }
}

TEST_F(PagePoolOnFake, GrowingAgainBeforeTheFenceTakesTheSamePagesBackWithoutACall) {
  card->hold_fences(true);
  Region region = reserve(Tag::Scratch, kEngineOwner, 16);
  ASSERT_TRUE(region.resize(8 * kPage));
  region.data()[6 * kPage] = std::byte{6};
  ASSERT_TRUE(region.resize(3 * kPage));
  const FakeStatus before = card->status();
  ASSERT_TRUE(region.resize(7 * kPage));
  EXPECT_EQ(region.data()[6 * kPage], std::byte{6});
  EXPECT_EQ(card->status().calls, before.calls);
  EXPECT_EQ(pool.stats().retired_pages, 1u);
  card->hold_fences(false);
  EXPECT_EQ(pool.collect(), 0u);
  EXPECT_EQ(card->status().live_mappings, 7u);
  expect_ledger_equals_card();
}

TEST_F(PagePoolOnFake, FillsAHoleBetweenPagesThatStillWait) {
  card->hold_fences(true);
  Region region = reserve(Tag::Scratch, kEngineOwner, 16);
  ASSERT_TRUE(region.resize(8 * kPage));
  ASSERT_TRUE(region.resize(6 * kPage));  // [6,8), fence 1
  card->complete_fences(Stream::Compute, 1);
  card->complete_fences(Stream::Copy, 1);
  ASSERT_TRUE(region.resize(2 * kPage));  // [2,6), fence 2; unmaps [6,8)
  ASSERT_TRUE(region.resize(8 * kPage));
  for (std::size_t i = 0; i < 8; ++i) region.data()[i * kPage] = static_cast<std::byte>(i);
  expect_ledger_equals_card();
  EXPECT_EQ(card->status().live_mappings, 8u);
}

TEST_F(PagePoolOnFake, AClosedRegionKeepsItsAddressesUntilItsPagesAreUnmapped) {
  card->hold_fences(true);
  std::byte* late_reader = nullptr;
  {
    Region region = reserve(Tag::KvGlobal, 9, 16);
    ASSERT_TRUE(region.resize(4 * kPage));
    late_reader = region.data() + 3 * kPage;
    *late_reader = std::byte{3};
  }
  EXPECT_EQ(*late_reader, std::byte{3});
  EXPECT_EQ(ledger.snapshot().owner_bytes(9), 4 * kPage);
  expect_ledger_equals_card();
  ASSERT_TRUE(pool.drain());
  EXPECT_EQ(ledger.snapshot().owner_bytes(9), 0u);
  EXPECT_EQ(card->status().live_mappings, 0u);
  expect_ledger_equals_card();
}

TEST_F(PagePoolOnFake, GrowthUsesPagesThatHaveJustPassedTheirFences) {
  card->hold_fences(true);
  Region first = reserve(Tag::KvGlobal, 1, 32);
  ASSERT_TRUE(first.resize(30 * kPage));
  ASSERT_TRUE(first.resize(0));
  Region second = reserve(Tag::KvGlobal, 2, 32);
  const Status refused = second.resize(10 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().memory->free_bytes, 2 * kPage);
  EXPECT_EQ(refused.error().memory->reclaimable_bytes, 30 * kPage);
  card->complete_fences(Stream::Compute, 1);
  card->complete_fences(Stream::Copy, 1);
  EXPECT_TRUE(second.resize(10 * kPage));
  expect_ledger_equals_card();
}

TEST_F(PagePoolOnFake, ALostDeviceEndsWithEmptyBooks) {
  Region region = reserve(Tag::KvGlobal, 1, 16);
  ASSERT_TRUE(region.resize(4 * kPage));
  fail(FakeCall::Lost, 1);
  const Status lost = region.resize(8 * kPage);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(region.committed_bytes(), 4 * kPage);
  EXPECT_EQ(Region::reserve(pool, Tag::Other, 1, kPage).error().code, ErrorCode::DeviceLost);
  region = Region();
  pool.trim();
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 0u);
  EXPECT_EQ(ledger.snapshot().devices[pool.ledger_device()].pooled_bytes, 0u);
  pool.check_invariants();
}

TEST_F(PagePoolOnFake, RegionsOfSeveralThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (std::size_t thread_idx = 1; thread_idx <= 3; ++thread_idx) {
    threads.emplace_back([this, thread_idx] {
      Region region = reserve(Tag::KvGlobal, thread_idx, 16);
      for (std::size_t i = 0; i < 300; ++i) {
        const std::size_t page_count = (i * 7 + thread_idx) % 10;
        ASSERT_TRUE(region.resize(page_count * kPage));
        for (std::size_t page_idx = 0; page_idx < page_count; ++page_idx)
          region.data()[page_idx * kPage] = static_cast<std::byte>(thread_idx);
        EXPECT_LE(pool.stats().mapped_pages, 32u);
        for (std::size_t page_idx = 0; page_idx < page_count; ++page_idx)
          ASSERT_EQ(region.data()[page_idx * kPage], static_cast<std::byte>(thread_idx));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_ledger_equals_card();
  EXPECT_EQ(card->status().live_mappings, 0u);
}

}  // namespace
}  // namespace ebb::memory
