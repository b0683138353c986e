// What CudaDevice makes of a driver's answers, shown on a scripted table of calls: no card is needed, and failures that a
// real card gives once a year are ordinary here. The real driver is held to the contract by device_conformance_test.cpp.
#include "device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/driver.h"
#include "device/device_spec.h"

namespace ebb::device {
namespace {

constexpr std::size_t kPage = 2 * kMiB;
constexpr cuda::Code kIllegalAddress = 700;
constexpr cuda::Code kInvalidValue = 1;

/// What the scripted driver was asked, and what it shall answer.
struct Script {
  int create_count = 0;
  int map_count = 0;
  int fail_map_at = 0;  // the nth call; 0: never
  cuda::Code create_code = cuda::kSuccess;
  cuda::Code query_code = cuda::kSuccess;
  cuda::Code unmap_code = cuda::kSuccess;
  int can_map = 1;
  std::size_t granularity = kPage;
  std::vector<std::pair<cuda::Address, std::size_t>> unmaps;
  int released = 0;
  int contexts = 0;
  int events = 0;
};
Script script;

cuda::Driver scripted_driver() {
  cuda::Driver driver{};
  driver.error_name = [](cuda::Code code, const char** name) {
    *name = code == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_SCRIPT";
    return cuda::kSuccess;
  };
  driver.error_text = [](cuda::Code, const char** text) {
    *text = "the driver's own words";
    return cuda::kSuccess;
  };
  driver.device_count = [](int* count) { return *count = 1, cuda::kSuccess; };
  driver.device_get = [](cuda::Ordinal* device, int idx) { return *device = idx, cuda::kSuccess; };
  driver.device_name = [](char* name, int, cuda::Ordinal) { return std::strcpy(name, "Scripted"), cuda::kSuccess; };
  driver.device_pci = [](char* id, int, cuda::Ordinal) { return std::strcpy(id, "none"), cuda::kSuccess; };
  driver.device_attribute = [](int* value, int, cuda::Ordinal) { return *value = script.can_map, cuda::kSuccess; };
  driver.context_retain = [](cuda::Context* context, cuda::Ordinal) {
    ++script.contexts;
    *context = reinterpret_cast<cuda::Context>(&script);
    return cuda::kSuccess;
  };
  driver.context_release = [](cuda::Ordinal) { return --script.contexts, cuda::kSuccess; };
  driver.context_set_current = [](cuda::Context) { return cuda::kSuccess; };
  driver.memory_info = [](std::size_t* free_bytes, std::size_t* total_bytes) {
    return *free_bytes = 3 * kGiB, *total_bytes = 4 * kGiB, cuda::kSuccess;
  };
  driver.granularity = [](std::size_t* bytes, const cuda::AllocationProperties*, int) {
    return *bytes = script.granularity, cuda::kSuccess;
  };
  driver.address_reserve = [](cuda::Address* address, std::size_t, std::size_t, cuda::Address, unsigned long long) {
    return *address = 0x100000000, cuda::kSuccess;
  };
  driver.address_free = [](cuda::Address, std::size_t) { return cuda::kSuccess; };
  driver.memory_create = [](cuda::Memory* memory, std::size_t, const cuda::AllocationProperties*, unsigned long long) {
    *memory = static_cast<cuda::Memory>(++script.create_count);
    return script.create_code;
  };
  driver.memory_release = [](cuda::Memory) { return ++script.released, cuda::kSuccess; };
  driver.memory_map = [](cuda::Address, std::size_t, std::size_t, cuda::Memory, unsigned long long) {
    return ++script.map_count == script.fail_map_at ? cuda::kOutOfMemory : cuda::kSuccess;
  };
  driver.memory_set_access = [](cuda::Address, std::size_t, const cuda::AccessDescription*, std::size_t) {
    return cuda::kOutOfMemory;
  };
  driver.memory_unmap = [](cuda::Address address, std::size_t bytes) {
    script.unmaps.emplace_back(address, bytes);
    return script.unmap_code;
  };
  driver.stream_create = [](cuda::StreamRef*, unsigned) { return cuda::kSuccess; };
  driver.event_create = [](cuda::Event* event, unsigned) {
    ++script.events;
    *event = reinterpret_cast<cuda::Event>(&script);
    return cuda::kSuccess;
  };
  driver.event_destroy = [](cuda::Event) { return --script.events, cuda::kSuccess; };
  driver.event_record = [](cuda::Event, cuda::StreamRef) { return cuda::kSuccess; };
  driver.event_query = [](cuda::Event) { return script.query_code; };
  driver.event_synchronize = [](cuda::Event) { return script.query_code = cuda::kSuccess; };
  return driver;
}

class ScriptedCudaDevice : public testing::Test {
 protected:
  ScriptedCudaDevice() { script = Script(); }

  std::unique_ptr<CudaDevice> open() { return CudaDevice::open(driver, 0).value(); }

  const cuda::Driver driver = scripted_driver();
};

TEST_F(ScriptedCudaDevice, IsNamedAfterItsNumberAndModel) {
  EXPECT_EQ(open()->name(), "cuda:0 Scripted");
  EXPECT_EQ(open()->kind(), Kind::Cuda);
  EXPECT_EQ(script.contexts, 0);
}

TEST_F(ScriptedCudaDevice, TwoDevicesOfACardShareOneContextAndCountTheirOwn) {
  const auto first = open();
  const auto second = open();
  EXPECT_EQ(script.contexts, 1);
  ASSERT_TRUE(first->create(kPage));
  EXPECT_EQ(first->mem_info().value().ours_bytes, kPage);
  EXPECT_EQ(first->mem_info().value().others_bytes, kGiB - kPage);
  EXPECT_EQ(second->mem_info().value().ours_bytes, 0u);
}

TEST_F(ScriptedCudaDevice, ACardThatIsNotThereIsNamedWithTheirNumber) {
  const auto device = CudaDevice::open(driver, 1);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(device.error().message.find("-dev cuda:1: 1 NVIDIA card is visible"), std::string::npos) << device.error().message;
}

TEST_F(ScriptedCudaDevice, ACardThatCannotMapPagesIsRefused) {
  script.can_map = 0;
  EXPECT_EQ(CudaDevice::open(driver, 0).error().code, ErrorCode::Unsupported);
  script = Script();
  script.granularity = 3 * kMiB;
  EXPECT_EQ(CudaDevice::open(driver, 0).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(script.contexts, 0);
}

TEST_F(ScriptedCudaDevice, NoMemoryIsAnAnswerWithNumbersAndNothingSticks) {
  const auto device = open();
  script.create_code = cuda::kOutOfMemory;
  const Result<Handle> refused = device->create(4 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(refused.error().memory);
  EXPECT_EQ(refused.error().memory->wanted_bytes, 4 * kPage);
  EXPECT_EQ(refused.error().memory->free_bytes, 3 * kGiB);
  EXPECT_NE(refused.error().message.find("the driver's own words (CUDA_ERROR_OF_THE_SCRIPT, 2)"), std::string::npos)
      << refused.error().message;
  script.create_code = cuda::kSuccess;
  EXPECT_TRUE(device->create(kPage));
  EXPECT_EQ(device->mem_info().value().ours_bytes, kPage);
}

TEST_F(ScriptedCudaDevice, AMapThatFailsHalfWayUnmapsJustWhatItMapped) {
  const auto device = open();
  const AddressRange range = device->reserve(4 * kPage).value();
  const std::vector<Handle> handles = {device->create(kPage).value(), device->create(2 * kPage).value(),
                                       device->create(kPage).value()};
  script.fail_map_at = 3;
  const Status mapped = device->map(range.data, handles);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, ErrorCode::OutOfMemory);
  ASSERT_EQ(script.unmaps.size(), 1u);
  EXPECT_EQ(script.unmaps[0].first, reinterpret_cast<cuda::Address>(range.data));
  EXPECT_EQ(script.unmaps[0].second, 3 * kPage);
  EXPECT_TRUE(device->release(handles[0]));
}

TEST_F(ScriptedCudaDevice, ARefusedUnmapLeavesTheMappingInTheBooks) {
  const auto device = open();
  const AddressRange range = device->reserve(kPage).value();
  const Handle page = device->create(kPage).value();
  ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
  EXPECT_EQ(device->set_access(range.data, kPage, Access::ReadWrite).error().code, ErrorCode::OutOfMemory);
  script.unmap_code = kInvalidValue;
  EXPECT_EQ(device->unmap(range.data, kPage).error().code, ErrorCode::Io);
  script.unmap_code = cuda::kSuccess;
  EXPECT_TRUE(device->unmap(range.data, kPage));
  EXPECT_TRUE(device->release(page));
}

TEST_F(ScriptedCudaDevice, AnIllegalAddressLosesTheDeviceForGood) {
  const auto device = open();
  const Fence fence = device->fence(Stream::Compute).value();
  script.query_code = kIllegalAddress;
  const Result<bool> done = device->done(fence);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::DeviceLost);
  EXPECT_NE(done.error().message.find("CUDA_ERROR_ILLEGAL_ADDRESS, 700"), std::string::npos) << done.error().message;
  script.query_code = cuda::kSuccess;
  const int creates_before = script.create_count;
  EXPECT_EQ(device->create(kPage).error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(script.create_count, creates_before);
  EXPECT_EQ(device->mem_info().error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(device->begin_step(Step::Decode).error().code, ErrorCode::DeviceLost);
}

TEST_F(ScriptedCudaDevice, FencesAreDoneWhenTheirEventsAreAndEventsAreUsedAgain) {
  const auto device = open();
  for (int round = 0; round < 3; ++round) {
    script.query_code = cuda::kNotReady;
    const Fence first = device->fence(Stream::Copy).value();
    const Fence second = device->fence(Stream::Copy).value();
    EXPECT_FALSE(device->done(first).value());
    ASSERT_TRUE(device->wait(second));
    EXPECT_TRUE(device->done(first).value());
    EXPECT_TRUE(device->done(second).value());
  }
  EXPECT_EQ(script.events, 2);
}

TEST_F(ScriptedCudaDevice, FencesNobodyAsksAboutDoNotPileUp) {
  const auto device = open();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(device->fence(Stream::Compute));
  EXPECT_LE(script.events, 100);
}

TEST_F(ScriptedCudaDevice, ClosingGivesEverythingBack) {
  auto device = open();
  const AddressRange range = device->reserve(2 * kPage).value();
  const std::vector<Handle> handles = {device->create(kPage).value(), device->create(kPage).value()};
  ASSERT_TRUE(device->map(range.data, std::span(handles).first(1)));
  ASSERT_TRUE(device->fence(Stream::Copy));
  device.reset();
  EXPECT_EQ(script.unmaps.size(), 1u);
  EXPECT_EQ(script.released, 2);
  EXPECT_EQ(script.events, 0);
  EXPECT_EQ(script.contexts, 0);
}

TEST(CudaDriver, AMachineWithoutADriverGetsASentence) {
  const auto driver = cuda::load_driver("libebb-has-no-such-driver.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::NotFound);
  for (const char* words : {"no NVIDIA driver", "libebb-has-no-such-driver.so.1", "-dev cpu"})
    EXPECT_NE(driver.error().message.find(words), std::string::npos) << driver.error().message;
}

TEST(CudaDriver, ALibraryWithoutTheCallsIsTooOld) {
  const auto driver = cuda::load_driver("libc.so.6");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::Unsupported);
  EXPECT_NE(driver.error().message.find("it has no cuInit"), std::string::npos) << driver.error().message;
}

TEST(CudaDriver, AskingForACardWithoutADriverFailsAndDoesNotCrash) {
  if (cuda::open_driver()) GTEST_SKIP() << "this machine has a driver";
  for (const char* words : {"cuda", "cuda:0", "cuda:0,cuda:0", "fake:1GiB,cuda:3"}) {
    const auto devices = open_devices({words, "", ""});
    ASSERT_FALSE(devices) << words;
    EXPECT_TRUE(devices.error().code == ErrorCode::NotFound || devices.error().code == ErrorCode::Unsupported);
    EXPECT_NE(devices.error().message.find("-dev cuda"), std::string::npos) << devices.error().message;
  }
}

TEST(CudaDriver, TheSameCardListedTwiceIsTwoDevices) {
  if (const auto driver = cuda::open_driver(); !driver) GTEST_SKIP() << driver.error().message;
  const auto devices = open_devices({"cuda:0,cuda:0", "", ""}).value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]->name(), devices[1]->name());
}

// M4's form on a device: the driver's own free figure, not our books.
TEST(CudaDriver, CreatedMemoryLeavesTheDriversFreeFigureAndComesBack) {
  const auto driver = cuda::open_driver();
  if (!driver) GTEST_SKIP() << driver.error().message;
  constexpr std::size_t kBytes = kGiB;
  constexpr std::size_t kSlackBytes = 16 * kMiB;  // what else the driver may take or give back meanwhile
  const auto device = CudaDevice::open(**driver, 0).value();
  const MemInfo before = device->mem_info().value();
  const Handle memory = device->create(kBytes).value();
  const MemInfo held = device->mem_info().value();
  EXPECT_EQ(held.ours_bytes, before.ours_bytes + kBytes);
  EXPECT_NEAR(static_cast<double>(before.free_bytes - held.free_bytes), kBytes, kSlackBytes);
  EXPECT_NEAR(static_cast<double>(held.context_bytes), static_cast<double>(before.context_bytes), kSlackBytes);
  EXPECT_NEAR(static_cast<double>(held.others_bytes), static_cast<double>(before.others_bytes), kSlackBytes);
  ASSERT_TRUE(device->release(memory));
  EXPECT_NEAR(static_cast<double>(device->mem_info().value().free_bytes), static_cast<double>(before.free_bytes), kSlackBytes);
}

}  // namespace
}  // namespace ebb::device
