#include "device/host/host_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace ebb::device {
namespace {

// memory.md 8.2: unmapping lowers the resident size while the memfd still owns the pages; only a release frees them.
TEST(HostDevice, OnlyAReleaseReallyFreesMemory) {
  const auto device = HostDevice::open().value();
  const AddressRange range = device->reserve(device->page_bytes()).value();
  const Handle page = device->create(device->page_bytes()).value();
  EXPECT_EQ(device->physical_bytes(), 0u);
  ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
  ASSERT_TRUE(device->set_access(range.data, range.bytes, Access::ReadWrite));
  for (std::size_t offset = 0; offset < range.bytes; offset += 4 * kKiB) range.data[offset] = std::byte{1};
  EXPECT_EQ(device->physical_bytes(), device->page_bytes());
  ASSERT_TRUE(device->unmap(range.data, range.bytes));
  EXPECT_EQ(device->physical_bytes(), device->page_bytes());
  ASSERT_TRUE(device->release(page));
  EXPECT_EQ(device->physical_bytes(), 0u);
}

TEST(HostDevice, ReleasingOnePageLeavesItsNeighbours) {
  const auto device = HostDevice::open().value();
  const std::size_t page_bytes = device->page_bytes();
  const AddressRange range = device->reserve(3 * page_bytes).value();
  std::vector<Handle> pages;
  for (int i = 0; i < 3; ++i) pages.push_back(device->create(page_bytes).value());
  ASSERT_TRUE(device->map(range.data, pages));
  ASSERT_TRUE(device->set_access(range.data, range.bytes, Access::ReadWrite));
  for (std::size_t offset = 0; offset < range.bytes; offset += 4 * kKiB) range.data[offset] = std::byte{5};
  ASSERT_TRUE(device->unmap(range.data + page_bytes, page_bytes));
  ASSERT_TRUE(device->release(pages[1]));
  EXPECT_EQ(device->physical_bytes(), 2 * page_bytes);
  EXPECT_EQ(range.data[page_bytes - 4 * kKiB], std::byte{5});
  EXPECT_EQ(range.data[2 * page_bytes], std::byte{5});
}

TEST(HostDevice, AReleasedAndRecreatedPageIsZero) {
  const auto device = HostDevice::open().value();
  const AddressRange range = device->reserve(device->page_bytes()).value();
  for (int round = 0; round < 2; ++round) {
    const Handle page = device->create(device->page_bytes()).value();
    ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
    ASSERT_TRUE(device->set_access(range.data, range.bytes, Access::ReadWrite));
    EXPECT_EQ(range.data[100], std::byte{0});
    range.data[100] = std::byte{1};
    ASSERT_TRUE(device->unmap(range.data, range.bytes));
    ASSERT_TRUE(device->release(page));
  }
}

TEST(HostDevice, RefusedAddressesAreAnErrorWithNumbers) {
  const auto device = HostDevice::open().value();
  const std::size_t wanted_bytes = std::size_t{1} << 60;
  const auto range = device->reserve(wanted_bytes);
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(range.error().memory->wanted_bytes, wanted_bytes);
}

}  // namespace
}  // namespace ebb::device
