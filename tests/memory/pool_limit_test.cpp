// B5 at the level of one pool: the limit is hard at every moment, late releases included; and whole backings.
// Cases of the class covered here: growth to, at and past the limit; free and retired pages used before a refusal; a
// limit lowered below what is held; a driver that takes memory back late; a pool that shares its ledger device.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;

constexpr std::size_t kPage = 4 * kKiB;

class PoolLimit : public testing::Test {
 protected:
  Region reserve(Tag tag, OwnerId owner, Backing backing = Backing::Pages) {
    return Region::reserve(pool, tag, owner, 64 * kPage, backing).value();
  }
  void release_late(int ms) {
    device::FakeSettings settings;
    settings.release_ms = std::chrono::milliseconds(ms);
    card->apply(settings);
  }

  std::unique_ptr<device::FakeDevice> card = device::FakeDevice::open(64 * kPage, kPage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 4}};
};

TEST_F(PoolLimit, RefusesTheFirstPagePastTheLimitBeforeAnyIsCreated) {
  pool.set_limit(10 * kPage + 17);  // pages are whole: the 17 bytes are of no use
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(6 * kPage));
  const auto created = card->status().calls_of(FakeCall::Create);
  const Status refused = kv.resize(11 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(refused.error().memory->wanted_bytes, 5 * kPage);
  EXPECT_EQ(refused.error().memory->free_bytes, 4 * kPage + 17);
  EXPECT_EQ(refused.error().memory->tag, "kv_global");
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), created);
  EXPECT_EQ(kv.committed_bytes(), 6 * kPage);
  EXPECT_TRUE(kv.resize(10 * kPage));
  EXPECT_EQ(card->status().ours_peak_bytes, 10 * kPage);
  pool.check_invariants();
}

TEST_F(PoolLimit, UsesFreeAndRetiredPagesBeforeItRefuses) {
  pool.set_limit(20 * kPage);
  card->hold_fences(true);
  Region first = reserve(Tag::KvGlobal, 1);
  Region second = reserve(Tag::KvGlobal, 2);
  ASSERT_TRUE(first.resize(20 * kPage));
  ASSERT_TRUE(first.resize(0));
  ASSERT_FALSE(second.resize(20 * kPage));  // retired, but a stream may read them
  card->complete_fences(device::Stream::Compute, 1);
  card->complete_fences(device::Stream::Copy, 1);
  ASSERT_TRUE(second.resize(20 * kPage));
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), 20u);
  EXPECT_EQ(card->status().calls_of(FakeCall::Release), 0u);
  EXPECT_EQ(card->status().ours_peak_bytes, 20 * kPage);
  pool.check_invariants();
}

TEST_F(PoolLimit, ALowerLimitGivesFreePagesBackAndLetsTheRestStay) {
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(14 * kPage));
  ASSERT_TRUE(kv.resize(10 * kPage));
  EXPECT_EQ(pool.stats().free_pages, 4u);
  pool.set_limit(12 * kPage);
  EXPECT_EQ(pool.stats().free_pages, 2u);
  pool.set_limit(3 * kPage);
  EXPECT_EQ(pool.stats().free_pages, 0u);
  EXPECT_EQ(kv.committed_bytes(), 10 * kPage);
  EXPECT_FALSE(kv.resize(11 * kPage));
  pool.set_limit(std::nullopt);
  EXPECT_TRUE(kv.resize(11 * kPage));
  pool.check_invariants();
}

TEST_F(PoolLimit, CountsWhatTheDriverHasNotTakenBackYet) {
  pool.set_limit(10 * kPage);
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(10 * kPage));
  release_late(10'000'000);  // never, for this test
  ASSERT_TRUE(kv.resize(0));
  EXPECT_EQ(pool.trim(2), 2 * kPage);  // two are left free; eight are on their way
  const Status refused = kv.resize(3 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().memory->free_bytes, 0u);
  EXPECT_EQ(refused.error().memory->reclaimable_bytes, 10 * kPage);
  EXPECT_TRUE(kv.resize(2 * kPage));
  EXPECT_FALSE(pool.confirm(std::chrono::milliseconds(3)).value());
  EXPECT_EQ(card->status().ours_peak_bytes, 10 * kPage);
  pool.check_invariants();
}

// M10, at the level of one pool: the answer comes when the driver confirms.
TEST_F(PoolLimit, ConfirmReturnsWhenTheDriverCountsNoMoreThanThePool) {
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(10 * kPage));
  release_late(30);
  ASSERT_TRUE(kv.resize(0));
  pool.trim();
  EXPECT_TRUE(pool.confirm(std::chrono::seconds(60)).value());
  EXPECT_EQ(card->status().ours_bytes, 0u);
  pool.set_limit(10 * kPage);
  EXPECT_TRUE(kv.resize(10 * kPage));
}

TEST_F(PoolLimit, ALostDeviceConfirmsNothing) {
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(10 * kPage));
  ASSERT_TRUE(kv.resize(0));
  device::FakeSettings settings;
  settings.fail.emplace(device::FailRule{FakeCall::Lost, 1, 1});
  card->apply(settings);
  EXPECT_FALSE(kv.resize(8 * kPage));
  EXPECT_EQ(pool.confirm(std::chrono::milliseconds(0)).error().code, ErrorCode::DeviceLost);
}

TEST_F(PoolLimit, APoolOnALedgerDeviceOfOthersSharesItsLimit) {
  const auto host = device::HostDevice::open(kPage).value();
  PagePool host_pool(*host, ledger, PoolOptions{.keep_free_pages = 0, .ledger_device = kHostMemory});
  EXPECT_EQ(host_pool.ledger_device(), kHostMemory);
  const HostLease cache = HostLease::take(ledger, Tag::Cache, 1, 2 * kPage).value();
  host_pool.set_limit(5 * kPage);
  Region parked = Region::reserve(host_pool, Tag::Parked, 1, 8 * kPage).value();
  EXPECT_FALSE(parked.resize(4 * kPage));
  EXPECT_TRUE(parked.resize(3 * kPage));
  EXPECT_FALSE(HostLease::take(ledger, Tag::Cache, 1, 1));
  host_pool.check_invariants();
}

// M20: one instant.
TEST_F(PoolLimit, ASnapshotsFiguresAreOfOneInstant) {
  pool.set_limit(30 * kPage);
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(10 * kPage));
  ASSERT_TRUE(kv.resize(8 * kPage));
  PagePool* const pools[] = {&pool};
  const PagePool::Snapshot snapshot = PagePool::snapshot(pools);
  const PagePool::Snapshot::Pool& seen = snapshot.pools.front();
  const LedgerSnapshot::Device& sums = snapshot.ledger.devices[pool.ledger_device()];
  EXPECT_EQ(seen.driver.ours_bytes, sums.owned_bytes + sums.pooled_bytes);
  EXPECT_EQ(seen.driver.ours_bytes, (seen.stats.mapped_pages + seen.stats.free_pages) * kPage);
  EXPECT_EQ(sums.limit_bytes, 30 * kPage);
}

TEST_F(PoolLimit, CountsCallsAndMemoryThatWasNeededAgainSoon) {
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(10 * kPage));
  EXPECT_EQ(pool.stats().recreated_soon_count, 0u);
  ASSERT_TRUE(kv.resize(0));
  EXPECT_EQ(pool.stats().create_count, 10u);
  EXPECT_EQ(pool.stats().map_count, 10u);
  EXPECT_EQ(pool.stats().unmap_count, 10u);
  EXPECT_EQ(pool.stats().release_count, 6u);
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  ASSERT_TRUE(weights.resize(5 * kPage));
  EXPECT_EQ(pool.stats().create_count, 11u);
  EXPECT_EQ(pool.stats().created_pages, 15u);
}

TEST_F(PoolLimit, AWholeBackingIsOneHandleAndNeverPooled) {
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  std::byte* const address = weights.data();
  for (const std::size_t pages : {std::size_t{9}, std::size_t{3}}) {
    ASSERT_TRUE(weights.resize(pages * kPage - 5));
    EXPECT_EQ(weights.data(), address);
    EXPECT_EQ(weights.committed_bytes(), pages * kPage);
    address[pages * kPage - 1] = std::byte{7};
    EXPECT_EQ(card->status().live_handles, 1u);
    EXPECT_EQ(card->status().ours_bytes, pages * kPage);
    EXPECT_EQ(ledger.snapshot().owner_bytes(kEngineOwner), pages * kPage);
    EXPECT_EQ(pool.stats().mapped_pages, pages);
    pool.check_invariants();
    ASSERT_TRUE(weights.resize(0));
    EXPECT_EQ(card->status().ours_bytes, 0u);
    pool.check_invariants();
  }
}

TEST_F(PoolLimit, AWholeBackingMakesRoomByGivingFreePagesBack) {
  Region kv = reserve(Tag::KvGlobal, 1);
  ASSERT_TRUE(kv.resize(4 * kPage));
  ASSERT_TRUE(kv.resize(0));
  pool.set_limit(10 * kPage);
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  EXPECT_FALSE(weights.resize(11 * kPage));
  EXPECT_EQ(weights.committed_bytes(), 0u);
  EXPECT_TRUE(weights.resize(10 * kPage));
  EXPECT_EQ(card->status().ours_peak_bytes, 10 * kPage);
  pool.check_invariants();
}

TEST_F(PoolLimit, AFailedWholeBackingLeavesNothingBehind) {
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  for (const FakeCall call : {FakeCall::Create, FakeCall::Map, FakeCall::Access}) {
    device::FakeSettings settings;
    settings.fail.emplace(device::FailRule{call, 1, 1});
    card->apply(settings);
    const Status outcome = weights.resize(7 * kPage);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().memory->wanted_bytes, 7 * kPage);
    EXPECT_EQ(card->status().ours_bytes, 0u);
    EXPECT_EQ(weights.committed_bytes(), 0u);
    pool.check_invariants();
  }
}

TEST_F(PoolLimit, AWholeBackingStillReadWaitsBeforeItTakesAnotherSize) {
  card->hold_fences(true);
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  ASSERT_TRUE(weights.resize(5 * kPage));
  weights.data()[0] = std::byte{5};
  ASSERT_TRUE(weights.resize(0));
  EXPECT_EQ(pool.stats().retired_pages, 5u);
  ASSERT_TRUE(weights.resize(5 * kPage));  // the same again, without a call
  EXPECT_EQ(weights.data()[0], std::byte{5});
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), 1u);
  ASSERT_TRUE(weights.resize(0));
  ASSERT_TRUE(weights.resize(6 * kPage));
  EXPECT_EQ(card->status().live_handles, 1u);
  pool.check_invariants();
}

using PoolLimitDeathTest = PoolLimit;

TEST_F(PoolLimitDeathTest, AWholeBackingDoesNotChangeItsSizeInPlace) {
  Region weights = reserve(Tag::Weights, kEngineOwner, Backing::Whole);
  ASSERT_TRUE(weights.resize(5 * kPage));
  EXPECT_DEATH(static_cast<void>(weights.resize(6 * kPage)), "a whole backing of");
}

}  // namespace
}  // namespace ebb::memory
