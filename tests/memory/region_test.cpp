// Regions on host pages: the backend that really holds the bytes.
#include "memory/region.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "base/bytes.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"

namespace ebb::memory {
namespace {

class RegionOnHost : public testing::Test {
 protected:
  Region reserve(Tag tag, OwnerId owner, std::size_t max_bytes) {
    return Region::reserve(pool, tag, owner, max_bytes).value();
  }

  std::unique_ptr<device::HostDevice> device = device::HostDevice::open().value();
  Ledger ledger;
  PagePool pool{*device, ledger};
  const std::size_t page = pool.page_bytes();
};
using RegionDeathTest = RegionOnHost;

std::byte read_byte(const std::byte* address) { return *static_cast<const volatile std::byte*>(address); }

TEST_F(RegionOnHost, AnEmptyRegionHoldsNothing) {
  Region region;
  EXPECT_EQ(region.data(), nullptr);
  EXPECT_EQ(region.committed_bytes(), 0u);
  EXPECT_EQ(region.reserved_bytes(), 0u);
  EXPECT_TRUE(region.resize(0));
}

TEST_F(RegionOnHost, ReservingCommitsNothing) {
  Region region = reserve(Tag::KvGlobal, 1, 64 * kGiB + 1);
  EXPECT_EQ(region.reserved_bytes(), 64 * kGiB + page);
  EXPECT_EQ(region.committed_bytes(), 0u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 0u);
}

TEST_F(RegionOnHost, GrowsInPlaceAndKeepsItsData) {
  Region region = reserve(Tag::KvGlobal, 1, kGiB);
  std::byte* const first = region.data();
  ASSERT_TRUE(region.resize(1));
  first[0] = std::byte{42};
  ASSERT_TRUE(region.resize(10 * kMiB));
  EXPECT_EQ(region.data(), first);
  EXPECT_EQ(first[0], std::byte{42});
  first[10 * kMiB - 1] = std::byte{7};
  ASSERT_TRUE(region.resize(page));
  EXPECT_EQ(first[0], std::byte{42});
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), page);
  pool.check_invariants();
}

// M8: a long context costs what the chat uses, in pages.
TEST_F(RegionOnHost, CostsThePagesInUseAndNotTheReservation) {
  Region region = reserve(Tag::KvGlobal, 1, 8 * kGiB);
  for (const std::size_t bytes : {std::size_t{1}, page - 1, page, page + 1, 40 * page, 3 * page, std::size_t{0}}) {
    ASSERT_TRUE(region.resize(bytes));
    EXPECT_EQ(region.committed_bytes(), round_up(bytes, page));
    EXPECT_EQ(ledger.snapshot().owner_bytes(1), round_up(bytes, page));
    EXPECT_EQ(pool.stats().mapped_pages, div_up(bytes, page));
  }
}

// memory.md 8.2: unmapping alone would leave the pages with the store.
TEST_F(RegionOnHost, ShrinkingReallyGivesMemoryBack) {
  Region region = reserve(Tag::Scratch, kEngineOwner, 64 * kMiB);
  ASSERT_TRUE(region.resize(4 * kMiB));
  for (std::size_t offset = 0; offset < 4 * kMiB; offset += 4 * kKiB) region.data()[offset] = std::byte{1};
  EXPECT_EQ(device->physical_bytes(), 4 * kMiB);
  ASSERT_TRUE(region.resize(0));
  EXPECT_LE(device->physical_bytes(), 8 * page);
  pool.trim();
  EXPECT_EQ(device->physical_bytes(), 0u);
  EXPECT_EQ(device->live_mappings(), 0u);
  EXPECT_EQ(pool.stats().created_pages, pool.stats().released_pages);
}

// M9: two conversations interleaved; one goes and takes everything with it.
TEST_F(RegionOnHost, DroppingOneRegionGivesBackItsPagesAndNoOthers) {
  Region first = reserve(Tag::KvGlobal, 1, kGiB);
  Region second = reserve(Tag::KvGlobal, 2, kGiB);
  for (std::size_t count = 1; count <= 50; ++count) {
    ASSERT_TRUE(first.resize(count * page));
    ASSERT_TRUE(second.resize(count * page));
    first.data()[(count - 1) * page] = std::byte{1};
    second.data()[(count - 1) * page] = std::byte{2};
  }
  first = Region();
  pool.trim();
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 0u);
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 50 * page);
  EXPECT_EQ(device->physical_bytes(), 50 * 4 * kKiB);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(second.data()[i * page], std::byte{2});
  pool.check_invariants();
}

TEST_F(RegionOnHost, MovingKeepsTheAddressesAndTheBytes) {
  Region region = reserve(Tag::Staging, kEngineOwner, kMiB);
  ASSERT_TRUE(region.resize(page));
  std::byte* const address = region.data();
  address[3] = std::byte{9};
  Region moved = std::move(region);
  EXPECT_EQ(moved.data(), address);
  EXPECT_EQ(moved.data()[3], std::byte{9});
  EXPECT_EQ(pool.stats().mapped_pages, 1u);
}

TEST_F(RegionOnHost, MoreAddressesThanTheSystemHasStillGiveARegion) {
  Region region = reserve(Tag::KvGlobal, 1, std::size_t{1} << 60);
  EXPECT_EQ(region.reserved_bytes(), std::size_t{1} << 60);
  EXPECT_TRUE(pool.stats().address_fallback);
  ASSERT_TRUE(region.resize(5 * page));
  region.data()[5 * page - 1] = std::byte{5};
  pool.check_invariants();
}

TEST_F(RegionDeathTest, UseAfterShrinkFaults) {
  Region region = reserve(Tag::KvLocal, 1, kMiB);
  ASSERT_TRUE(region.resize(2 * page));
  std::byte* const second_page = region.data() + page;
  read_byte(second_page);
  ASSERT_TRUE(region.resize(page));
  EXPECT_DEATH(read_byte(second_page), "");
}

TEST_F(RegionDeathTest, ResizeOverTheReservationIsMisuse) {
  Region region = reserve(Tag::KvLocal, 1, page);
  EXPECT_DEATH(static_cast<void>(region.resize(page + 1)), "bytes in a region of");
  EXPECT_DEATH(static_cast<void>(Region().resize(1)), "in an empty region");
}

TEST_F(RegionDeathTest, ARegionThatOutlivesItsPoolIsMisuse) {
  EXPECT_DEATH(
      {
        Region region;
        PagePool short_lived(*device, ledger);
        region = Region::reserve(short_lived, Tag::Scratch, kEngineOwner, kMiB).value();
      },
      "outlives its pool");
}

}  // namespace
}  // namespace ebb::memory
