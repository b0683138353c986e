// B8 at the level of regions: a device that refuses large reservations still runs, with regions that move.
#include <gtest/gtest.h>

#include <memory>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;

constexpr std::size_t kPage = 4 * kKiB;

class AddressFallback : public testing::Test {
 protected:
  AddressFallback() { limit_addresses(40); }
  void limit_addresses(std::size_t page_count) {
    device::FakeSettings settings;
    settings.reserve_limit_bytes = page_count * kPage;
    card->apply(settings);
  }
  void fail(FakeCall call, std::uint64_t nth, std::uint64_t count) {
    device::FakeSettings settings;
    settings.fail.emplace(device::FailRule{call, nth, count});
    card->apply(settings);
  }
  Region reserve(OwnerId owner, Backing backing = Backing::Pages) {
    return Region::reserve(pool, Tag::KvGlobal, owner, 1000 * kPage, backing).value();
  }
  void fill(Region& region, std::size_t first_page, std::size_t end_page) {
    for (std::size_t i = first_page; i < end_page; ++i) region.data()[i * kPage] = static_cast<std::byte>(i + 1);
  }
  void expect_filled(const Region& region, std::size_t page_count) {
    for (std::size_t i = 0; i < page_count; ++i) ASSERT_EQ(region.data()[i * kPage], static_cast<std::byte>(i + 1));
  }

  std::unique_ptr<device::FakeDevice> card = device::FakeDevice::open(64 * kPage, kPage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 2}};
};

TEST_F(AddressFallback, ARefusedReservationBeginsSmallAndGrowsByMoving) {
  EXPECT_FALSE(pool.stats().address_fallback);
  Region region = reserve(1);
  EXPECT_TRUE(pool.stats().address_fallback);
  EXPECT_EQ(region.reserved_bytes(), 1000 * kPage);
  for (std::size_t count = 1; count <= 12; ++count) {
    ASSERT_TRUE(region.resize(count * kPage));
    fill(region, count - 1, count);
    expect_filled(region, count);
    pool.check_invariants();
    EXPECT_EQ(ledger.snapshot().owner_bytes(1), count * kPage);
    EXPECT_EQ(card->status().live_mappings, count);
  }
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), 12u);
}

TEST_F(AddressFallback, AMoveThatFailsLeavesTheRegionAsItWas) {
  Region region = reserve(1);
  ASSERT_TRUE(region.resize(4 * kPage));
  fill(region, 0, 4);
  for (const FakeCall call : {FakeCall::Reserve, FakeCall::Map, FakeCall::Access}) {
    fail(call, 1, 2);
    const Status refused = region.resize(9 * kPage);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
    EXPECT_EQ(region.committed_bytes(), 4 * kPage);
    expect_filled(region, 4);
    pool.check_invariants();
  }
  fail(FakeCall::Unmap, 1, 1);  // the old addresses stay a while
  ASSERT_TRUE(region.resize(9 * kPage));
  fill(region, 4, 9);
  expect_filled(region, 9);
  pool.check_invariants();
  pool.collect();
  EXPECT_EQ(card->status().live_mappings, 9u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 9 * kPage);
}

TEST_F(AddressFallback, AddressesThatAreGoneAreAnErrorThatNamesTheTag) {
  Region region = reserve(1);
  ASSERT_TRUE(region.resize(20 * kPage));
  const Status refused = region.resize(30 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().memory->tag, "kv_global");
  limit_addresses(0);
  EXPECT_EQ(Region::reserve(pool, Tag::KvLocal, 1, kPage).error().memory->tag, "kv_local");
  pool.check_invariants();
}

TEST_F(AddressFallback, WholeBackingsAndSharedPagesMoveToo) {
  Region weights = reserve(kEngineOwner, Backing::Whole);
  ASSERT_TRUE(weights.resize(6 * kPage));
  weights.data()[6 * kPage - 1] = std::byte{6};
  Region source = reserve(1);
  ASSERT_TRUE(source.resize(5 * kPage));
  fill(source, 0, 5);
  Region fork = reserve(2);
  ASSERT_TRUE(fork.share_front(source, 4 * kPage));
  expect_filled(fork, 4);
  ASSERT_TRUE(fork.resize(7 * kPage));
  expect_filled(fork, 4);
  expect_filled(source, 5);
  pool.check_invariants();
  source = Region();
  pool.check_invariants();
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 7 * kPage);
}

}  // namespace
}  // namespace ebb::memory
