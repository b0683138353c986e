#include "memory/region.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "device/host/host_device.h"
#include "memory/page_pool.h"

namespace ebb::memory {
namespace {

class HostRegion : public testing::Test {
 protected:
  std::unique_ptr<device::HostDevice> device = device::HostDevice::open().value();
  Ledger ledger;
  PagePool pool{*device, ledger};
};

TEST_F(HostRegion, GrowsInPlaceAndKeepsItsData) {
  Region region = Region::reserve(pool, Tag::KvGlobal, 1, kGiB).value();
  std::byte* const first = region.data();
  ASSERT_TRUE(region.resize(1));
  first[0] = std::byte{42};
  ASSERT_TRUE(region.resize(10 * kMiB));
  EXPECT_EQ(region.data(), first);
  EXPECT_EQ(first[0], std::byte{42});
  first[10 * kMiB - 1] = std::byte{7};
  ASSERT_TRUE(region.resize(pool.page_bytes()));
  EXPECT_EQ(first[0], std::byte{42});
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), pool.page_bytes());
  pool.check_invariants();
}

// memory.md 8.2: unmapping alone would leave the pages with the store.
TEST_F(HostRegion, ShrinkingReallyGivesMemoryBack) {
  const std::size_t before = device->physical_bytes();
  Region region = Region::reserve(pool, Tag::Scratch, kEngineOwner, 64 * kMiB).value();
  ASSERT_TRUE(region.resize(4 * kMiB));
  for (std::size_t offset = 0; offset < 4 * kMiB; offset += 4 * kKiB) region.data()[offset] = std::byte{1};
  EXPECT_GE(device->physical_bytes(), before + 4 * kMiB);
  ASSERT_TRUE(region.resize(0));
  pool.trim();
  EXPECT_EQ(device->physical_bytes(), before);
  EXPECT_EQ(pool.stats().created_pages, pool.stats().released_pages);
}

TEST_F(HostRegion, ResizeWithinThePageMakesNoDriverCall) {
  Region region = Region::reserve(pool, Tag::Scratch, kEngineOwner, kMiB).value();
  ASSERT_TRUE(region.resize(1));
  const PoolStats before = pool.stats();
  for (std::size_t bytes = 1; bytes <= pool.page_bytes(); bytes += 1000) ASSERT_TRUE(region.resize(bytes));
  EXPECT_EQ(pool.stats().created_pages, before.created_pages);
  EXPECT_EQ(region.committed_bytes(), pool.page_bytes());
}

}  // namespace
}  // namespace ebb::memory
