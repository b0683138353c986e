// What every backend must do alike: the contract of device/device.h, one case a sentence of it. The CUDA cases are skipped
// where there is no driver or card. Host and fake addresses are touched by the host, a card's through copies.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"

namespace ebb::device {
namespace {

using Opened = Result<std::unique_ptr<Device>>;

struct Backend {
  const char* name;
  Opened (*open)();
};

Opened open_host() { return HostDevice::open(); }
Opened open_fake() { return FakeDevice::open(kGiB, 64 * kKiB); }
Opened open_cuda() {
  EBB_TRY_ASSIGN(const cuda::Driver* driver, cuda::open_driver());
  // Keeps the context from one case to the next: making it takes longer than all cases together.
  static const Result<std::unique_ptr<CudaDevice>> kept = CudaDevice::open(*driver, 0);
  return CudaDevice::open(*driver, 0);
}

class DeviceConformance : public testing::TestWithParam<Backend> {
 protected:
  /// Addresses for `count` pages with `count` new pages mapped and writable under them.
  AddressRange commit(std::size_t count) {
    const AddressRange range = device->reserve(count * page_bytes).value();
    for (std::size_t i = 0; i < count; ++i) pages.push_back(device->create(page_bytes).value());
    EXPECT_TRUE(device->map(range.data, std::span(pages).last(count)));
    EXPECT_TRUE(device->set_access(range.data, range.bytes, Access::ReadWrite));
    return range;
  }

  void SetUp() override {
    Opened opened = GetParam().open();
    if (!opened) GTEST_SKIP() << opened.error().message;
    device = std::move(*opened);
    page_bytes = device->page_bytes();
  }

  [[nodiscard]] bool host_touches() const { return device->kind() != Kind::Cuda; }

  Status copy_now(void* target, const void* source, std::size_t bytes) {
    EBB_TRY(device->copy(Stream::Copy, target, source, bytes));
    EBB_TRY_ASSIGN(const Fence fence, device->fence(Stream::Copy));
    return device->wait(fence);
  }

  std::byte read_byte(const std::byte* address) {
    if (host_touches()) return touch(address);
    std::byte value{};
    EXPECT_TRUE(copy_now(&value, address, 1));
    return value;
  }

  void write_byte(std::byte* address, int value) {
    const auto byte = static_cast<std::byte>(value);
    if (host_touches()) {
      *static_cast<volatile std::byte*>(address) = byte;
    } else {
      EXPECT_TRUE(copy_now(address, &byte, 1));
    }
  }

  void fill(AddressRange range, int value) {
    const std::vector<std::byte> bytes(range.bytes, static_cast<std::byte>(value));
    EXPECT_TRUE(copy_now(range.data, bytes.data(), bytes.size()));
  }

  /// A mapping without access: a touch by the host kills the process, a copy on a card is refused and harms nothing else.
  void expect_no_reading(const std::byte* address) {
    std::byte value{};
    if (host_touches()) {
      EXPECT_DEATH(read_byte(address), "");
    } else {
      expect_refusal(copy_now(&value, address, 1));
    }
  }

  void expect_no_writing(std::byte* address) {
    const std::byte value{1};
    if (host_touches()) {
      EXPECT_DEATH(write_byte(address, 1), "");
    } else {
      expect_refusal(copy_now(address, &value, 1));
    }
  }

  void expect_refusal(const Status& copied) {
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().code, ErrorCode::Io) << copied.error().message;
    EXPECT_TRUE(device->begin_step(Step::Decode));
  }

  /// Addresses without a mapping: on a card too a copy from them ends the process, since its driver takes them for the host's.
  static std::byte touch(const std::byte* address) {
    return *static_cast<const volatile std::byte*>(address);  // volatile, so that the access happens
  }

  std::unique_ptr<Device> device;
  std::size_t page_bytes = 0;
  std::vector<Handle> pages;
};

TEST_P(DeviceConformance, PageIsAPowerOfTwoAndNameIsNotEmpty) {
  EXPECT_TRUE(std::has_single_bit(page_bytes));
  EXPECT_FALSE(device->name().empty());
}

TEST_P(DeviceConformance, ReservingTakesNoMemory) {
  const MemInfo before = device->mem_info().value();
  const AddressRange range = device->reserve(std::size_t{64} * kGiB).value();
  EXPECT_EQ(range.bytes, std::size_t{64} * kGiB);
  EXPECT_EQ(device->mem_info().value().ours_bytes, before.ours_bytes);
  EXPECT_TRUE(device->free_addresses(range));
}

TEST_P(DeviceConformance, MemoryInfoAddsUp) {
  const AddressRange range = commit(4);
  fill(range, 1);
  const MemInfo info = device->mem_info().value();
  EXPECT_GE(info.ours_bytes, 4 * page_bytes);
  EXPECT_EQ(info.total_bytes, info.free_bytes + info.ours_bytes + info.context_bytes + info.others_bytes);
}

TEST_P(DeviceConformance, HandlesOfSeveralSizesLieSideBySide) {
  const AddressRange range = device->reserve(6 * page_bytes).value();
  const std::vector<Handle> handles = {device->create(page_bytes).value(), device->create(3 * page_bytes).value(),
                                       device->create(2 * page_bytes).value()};
  ASSERT_TRUE(device->map(range.data, handles));
  ASSERT_TRUE(device->set_access(range.data, range.bytes, Access::ReadWrite));
  for (std::size_t i = 0; i < 6; ++i) write_byte(range.data + (i + 1) * page_bytes - 1, static_cast<int>(i));
  ASSERT_TRUE(device->unmap(range.data, range.bytes));
  ASSERT_TRUE(device->map(range.data, std::span(handles).subspan(1, 1)));
  ASSERT_TRUE(device->set_access(range.data, 3 * page_bytes, Access::Read));
  EXPECT_EQ(read_byte(range.data + page_bytes - 1), std::byte{1});
  EXPECT_EQ(read_byte(range.data + 3 * page_bytes - 1), std::byte{3});
}

TEST_P(DeviceConformance, OnePageMappedTwiceShowsTheSameBytes) {
  const AddressRange first = commit(1);
  const AddressRange second = device->reserve(2 * page_bytes).value();
  ASSERT_TRUE(device->map(second.data + page_bytes, pages));
  ASSERT_TRUE(device->set_access(second.data + page_bytes, page_bytes, Access::ReadWrite));
  write_byte(first.data + 5, 99);
  EXPECT_EQ(read_byte(second.data + page_bytes + 5), std::byte{99});
  ASSERT_TRUE(device->unmap(first.data, page_bytes));
  write_byte(second.data + page_bytes + 5, 98);
  EXPECT_EQ(read_byte(second.data + page_bytes + 5), std::byte{98});
}

TEST_P(DeviceConformance, APageKeepsItsBytesWhileItIsMappedNowhere) {
  const AddressRange range = commit(2);
  write_byte(range.data + page_bytes, 7);
  ASSERT_TRUE(device->unmap(range.data, range.bytes));
  ASSERT_TRUE(device->map(range.data, std::span(pages).last(1)));
  ASSERT_TRUE(device->set_access(range.data, page_bytes, Access::Read));
  EXPECT_EQ(read_byte(range.data), std::byte{7});
}

TEST_P(DeviceConformance, PagesInAnyOrderUnderOneRange) {
  AddressRange range = commit(4);
  for (std::size_t i = 0; i < 4; ++i) write_byte(range.data + i * page_bytes, static_cast<int>(i));
  ASSERT_TRUE(device->unmap(range.data, range.bytes));
  const std::vector<Handle> shuffled = {pages[3], pages[0], pages[1], pages[2]};
  ASSERT_TRUE(device->map(range.data, shuffled));
  ASSERT_TRUE(device->set_access(range.data, range.bytes, Access::Read));
  EXPECT_EQ(read_byte(range.data), std::byte{3});
  EXPECT_EQ(read_byte(range.data + page_bytes), std::byte{0});
  EXPECT_EQ(read_byte(range.data + 3 * page_bytes), std::byte{2});
}

TEST_P(DeviceConformance, CopiesOfAnySizeAndAlignmentArrive) {
  const AddressRange range = commit(2);
  std::vector<std::byte> source(page_bytes + 13);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(device->copy(Stream::Copy, range.data + 3, source.data(), source.size()));
  std::vector<std::byte> back(source.size());
  ASSERT_TRUE(device->copy(Stream::Copy, back.data(), range.data + 3, back.size()));
  ASSERT_TRUE(device->wait(device->fence(Stream::Copy).value()));
  EXPECT_EQ(back, source);
  EXPECT_TRUE(device->copy(Stream::Copy, nullptr, nullptr, 0));
}

TEST_P(DeviceConformance, PinnedHostMemoryIsCopiedAndLetGo) {
  const AddressRange range = commit(1);
  const std::unique_ptr<HostDevice> host = HostDevice::open().value();  // pages as the host pool has them
  const std::size_t bytes = round_up(page_bytes, host->page_bytes());
  const AddressRange staging = host->reserve(bytes).value();
  const Handle memory = host->create(bytes).value();
  ASSERT_TRUE(host->map(staging.data, std::span(&memory, 1)));
  ASSERT_TRUE(host->set_access(staging.data, bytes, Access::ReadWrite));
  ASSERT_TRUE(device->pin(staging.data, bytes));
  std::memset(staging.data, 5, bytes);
  ASSERT_TRUE(copy_now(range.data, staging.data, page_bytes));
  std::memset(staging.data, 0, bytes);
  ASSERT_TRUE(copy_now(staging.data, range.data, page_bytes));
  EXPECT_EQ(staging.data[0], std::byte{5});
  EXPECT_EQ(staging.data[page_bytes - 1], std::byte{5});
  ASSERT_TRUE(device->unpin(staging.data));
  ASSERT_TRUE(host->unmap(staging.data, bytes));
  ASSERT_TRUE(host->release(memory));
  EXPECT_EQ(host->physical_bytes(), 0u);
}

TEST_P(DeviceConformance, FillZeroWritesItsRangeAndNothingElse) {
  const AddressRange range = commit(2);
  fill(range, 7);
  ASSERT_TRUE(device->fill_zero(range.data + page_bytes, page_bytes - 5));
  EXPECT_EQ(read_byte(range.data + page_bytes - 1), std::byte{7});
  EXPECT_EQ(read_byte(range.data + page_bytes), std::byte{0});
  EXPECT_EQ(read_byte(range.data + 2 * page_bytes - 6), std::byte{0});
  EXPECT_EQ(read_byte(range.data + 2 * page_bytes - 5), std::byte{7});
}

TEST_P(DeviceConformance, FencesOfAStreamAreDoneInOrder) {
  for (const Stream stream : {Stream::Compute, Stream::Copy}) {
    const Fence first = device->fence(stream).value();
    const Fence second = device->fence(stream).value();
    EXPECT_LE(first.value, second.value);
    ASSERT_TRUE(device->wait(second));
    EXPECT_TRUE(device->done(first).value());
    EXPECT_TRUE(device->done(second).value());
  }
}

TEST_P(DeviceConformance, StepsAreAccepted) {
  for (const Step step : {Step::Prefill, Step::Decode, Step::Tower}) EXPECT_TRUE(device->begin_step(step));
}

TEST_P(DeviceConformance, ThreadsMayCreateMapAndReleaseTogether) {
  const MemInfo before = device->mem_info().value();
  std::vector<std::thread> threads;
  for (int thread_idx = 0; thread_idx < 4; ++thread_idx) {
    threads.emplace_back([this, thread_idx] {
      const AddressRange range = device->reserve(page_bytes).value();
      for (int i = 0; i < 50; ++i) {
        const Handle page = device->create(page_bytes).value();
        ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
        ASSERT_TRUE(device->set_access(range.data, page_bytes, Access::ReadWrite));
        write_byte(range.data, thread_idx);
        EXPECT_EQ(read_byte(range.data), static_cast<std::byte>(thread_idx));
        ASSERT_TRUE(device->unmap(range.data, page_bytes));
        ASSERT_TRUE(device->release(page));
      }
      ASSERT_TRUE(device->free_addresses(range));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->mem_info().value().ours_bytes, before.ours_bytes);
}

class DeviceConformanceDeathTest : public DeviceConformance {};

TEST_P(DeviceConformanceDeathTest, TouchingReservedAddressesFaults) {
  const AddressRange range = device->reserve(page_bytes).value();
  EXPECT_DEATH(touch(range.data), "");
}

TEST_P(DeviceConformanceDeathTest, AMappingWithoutAccessFaults) {
  const AddressRange range = device->reserve(page_bytes).value();
  const Handle page = device->create(page_bytes).value();
  ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
  expect_no_reading(range.data);
}

TEST_P(DeviceConformanceDeathTest, WritingThroughAReadOnlyMappingFaults) {
  const AddressRange range = commit(1);
  ASSERT_TRUE(device->set_access(range.data, page_bytes, Access::Read));
  static_cast<void>(read_byte(range.data));
  expect_no_writing(range.data);
}

TEST_P(DeviceConformanceDeathTest, UseAfterUnmapFaultsAndNeighboursStay) {
  const AddressRange range = commit(3);
  ASSERT_TRUE(device->unmap(range.data + page_bytes, page_bytes));
  write_byte(range.data, 1);
  write_byte(range.data + 2 * page_bytes, 1);
  EXPECT_DEATH(touch(range.data + page_bytes), "");
}

TEST_P(DeviceConformanceDeathTest, UnmappingAPartOfAMappingIsMisuse) {
  const AddressRange range = device->reserve(2 * page_bytes).value();
  const Handle large = device->create(2 * page_bytes).value();
  ASSERT_TRUE(device->map(range.data, std::span(&large, 1)));
  EXPECT_DEATH(static_cast<void>(device->unmap(range.data, page_bytes)), "whole mappings");
}

TEST_P(DeviceConformanceDeathTest, MappingOverAMappingIsMisuse) {
  const AddressRange range = commit(1);
  EXPECT_DEATH(static_cast<void>(device->map(range.data, pages)), "overlap a mapping");
}

TEST_P(DeviceConformanceDeathTest, MappingOutsideTheReservationIsMisuse) {
  const AddressRange range = device->reserve(page_bytes).value();
  const std::vector<Handle> two = {device->create(page_bytes).value(), device->create(page_bytes).value()};
  EXPECT_DEATH(static_cast<void>(device->map(range.data, two)), "inside one reservation");
}

TEST_P(DeviceConformanceDeathTest, ReleasingAMappedPageIsMisuse) {
  commit(1);
  EXPECT_DEATH(static_cast<void>(device->release(pages[0])), "has 1 mappings");
}

TEST_P(DeviceConformanceDeathTest, ReleasingTwiceIsMisuse) {
  const Handle page = device->create(page_bytes).value();
  ASSERT_TRUE(device->release(page));
  EXPECT_DEATH(static_cast<void>(device->release(page)), "is not live");
}

TEST_P(DeviceConformanceDeathTest, FreeingAddressesUnderAMappingIsMisuse) {
  const AddressRange range = commit(1);
  EXPECT_DEATH(static_cast<void>(device->free_addresses(range)), "still hold a mapping");
}

std::string backend_name(const testing::TestParamInfo<Backend>& backend) { return backend.param.name; }

const auto kBackends = testing::Values(Backend{"host", open_host}, Backend{"fake", open_fake}, Backend{"cuda", open_cuda});
INSTANTIATE_TEST_SUITE_P(Backends, DeviceConformance, kBackends, backend_name);
INSTANTIATE_TEST_SUITE_P(Backends, DeviceConformanceDeathTest, kBackends, backend_name);

}  // namespace
}  // namespace ebb::device
