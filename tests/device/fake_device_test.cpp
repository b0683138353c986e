#include "device/fake/fake_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/bytes.h"

namespace ebb::device {
namespace {

constexpr std::size_t kPage = 64 * kKiB;

class Fake : public testing::Test {
 protected:
  void fail(FakeCall call, std::uint64_t nth, std::uint64_t count = 1) {
    FakeSettings settings;
    settings.fail.emplace(FailRule{call, nth, count});
    device->apply(settings);
  }

  std::unique_ptr<FakeDevice> device = FakeDevice::open(10 * kPage, kPage).value();
};

TEST_F(Fake, IsAsLargeAsItSays) {
  std::vector<Handle> pages;
  for (int i = 0; i < 10; ++i) pages.push_back(device->create(kPage).value());
  const auto refused = device->create(kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(refused.error().memory->wanted_bytes, kPage);
  EXPECT_EQ(refused.error().memory->free_bytes, 0u);
  ASSERT_TRUE(device->release(pages[4]));
  EXPECT_TRUE(device->create(kPage));
}

TEST_F(Fake, AnotherProcessTakesItsShare) {
  FakeSettings settings;
  settings.others_bytes = 8 * kPage;
  device->apply(settings);
  ASSERT_TRUE(device->create(2 * kPage));
  EXPECT_FALSE(device->create(kPage));
  settings.others_bytes = 20 * kPage;  // over the card's size: said as it is, and what is free is never negative
  device->apply(settings);
  const MemInfo info = device->mem_info().value();
  EXPECT_EQ(info.free_bytes, 0u);
  EXPECT_EQ(info.ours_bytes, 2 * kPage);
  EXPECT_EQ(info.others_bytes, 20 * kPage);
  EXPECT_EQ(device->status().used_bytes, 22 * kPage);
}

TEST_F(Fake, CountsWhatLivesAndWhatWasCalled) {
  const AddressRange range = device->reserve(4 * kPage).value();
  const std::vector<Handle> pages = {device->create(kPage).value(), device->create(kPage).value(),
                                     device->create(kPage).value()};
  ASSERT_TRUE(device->map(range.data, pages));
  ASSERT_TRUE(device->set_access(range.data, 3 * kPage, Access::ReadWrite));
  ASSERT_TRUE(device->copy(Stream::Copy, range.data, range.data + kPage, 100));
  FakeStatus status = device->status();
  EXPECT_EQ(status.live_handles, 3u);
  EXPECT_EQ(status.live_mappings, 3u);
  EXPECT_EQ(status.ours_bytes, 3 * kPage);
  EXPECT_EQ(status.page_bytes, kPage);
  ASSERT_TRUE(device->unmap(range.data, 3 * kPage));
  for (const Handle page : pages) ASSERT_TRUE(device->release(page));
  status = device->status();
  EXPECT_EQ(status.live_handles, 0u);
  EXPECT_EQ(status.live_mappings, 0u);
  EXPECT_EQ(status.ours_bytes, 0u);
  EXPECT_EQ(status.ours_peak_bytes, 3 * kPage);
  EXPECT_EQ(status.calls_of(FakeCall::Reserve), 1u);
  EXPECT_EQ(status.calls_of(FakeCall::Create), 3u);
  EXPECT_EQ(status.calls_of(FakeCall::Map), 3u);
  EXPECT_EQ(status.calls_of(FakeCall::Access), 1u);
  EXPECT_EQ(status.calls_of(FakeCall::Copy), 1u);
  EXPECT_EQ(status.calls_of(FakeCall::Unmap), 1u);
  EXPECT_EQ(status.calls_of(FakeCall::Release), 3u);
  FakeSettings settings;
  settings.reset_peak = true;
  device->apply(settings);
  EXPECT_EQ(device->status().ours_peak_bytes, 0u);
}

TEST_F(Fake, FailsTheNthCallAndSoManyAfterIt) {
  fail(FakeCall::Create, 2, 2);
  EXPECT_TRUE(device->create(kPage));
  EXPECT_FALSE(device->create(kPage));
  EXPECT_FALSE(device->create(kPage));
  EXPECT_TRUE(device->create(kPage));
}

TEST_F(Fake, AFailureInTheMiddleOfAMapLeavesNothingMapped) {
  const AddressRange range = device->reserve(3 * kPage).value();
  const std::vector<Handle> pages = {device->create(kPage).value(), device->create(kPage).value(),
                                     device->create(kPage).value()};
  fail(FakeCall::Map, 3);
  const Status refused = device->map(range.data, pages);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(device->status().live_mappings, 0u);
  EXPECT_TRUE(device->map(range.data, pages));
}

TEST_F(Fake, FailsEachKindOfCallWithAReason) {
  const AddressRange range = device->reserve(kPage).value();
  const Handle page = device->create(kPage).value();
  ASSERT_TRUE(device->map(range.data, std::span(&page, 1)));
  fail(FakeCall::Access, 1);
  EXPECT_EQ(device->set_access(range.data, kPage, Access::Read).error().code, ErrorCode::OutOfMemory);
  fail(FakeCall::Unmap, 1);
  EXPECT_EQ(device->unmap(range.data, kPage).error().code, ErrorCode::Io);
  ASSERT_TRUE(device->unmap(range.data, kPage));
  fail(FakeCall::Release, 1);
  EXPECT_EQ(device->release(page).error().code, ErrorCode::Io);
  EXPECT_EQ(device->status().live_handles, 1u);
  ASSERT_TRUE(device->release(page));
  fail(FakeCall::Copy, 1);
  EXPECT_EQ(device->copy(Stream::Copy, nullptr, nullptr, 0).error().code, ErrorCode::Io);
  fail(FakeCall::Step, 2);
  EXPECT_TRUE(device->begin_step(Step::Prefill));
  EXPECT_TRUE(device->begin_step(Step::Tower));
  EXPECT_EQ(device->begin_step(Step::Decode).error().code, ErrorCode::Io);
  fail(FakeCall::Tower, 1);
  EXPECT_EQ(device->begin_step(Step::Tower).error().code, ErrorCode::Io);
  fail(FakeCall::Reserve, 1);
  EXPECT_EQ(device->reserve(kPage).error().code, ErrorCode::OutOfMemory);
}

TEST_F(Fake, ALostDeviceRefusesEverythingForGood) {
  fail(FakeCall::Lost, 2);
  const Handle page = device->create(kPage).value();
  EXPECT_EQ(device->create(kPage).error().code, ErrorCode::DeviceLost);
  FakeSettings settings;
  settings.fail.emplace(std::nullopt);
  device->apply(settings);
  EXPECT_EQ(device->release(page).error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(device->fence(Stream::Compute).error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(device->mem_info().error().code, ErrorCode::DeviceLost);
  EXPECT_EQ(device->begin_step(Step::Decode).error().code, ErrorCode::DeviceLost);
}

// M10: a driver may confirm a release late; until then the bytes are used.
TEST_F(Fake, ReleasedBytesComeBackLate) {
  FakeSettings settings;
  settings.release_ms = std::chrono::milliseconds(30);
  device->apply(settings);
  const Handle page = device->create(10 * kPage).value();
  ASSERT_TRUE(device->release(page));
  EXPECT_EQ(device->status().live_handles, 0u);
  EXPECT_EQ(device->status().ours_bytes, 10 * kPage);
  EXPECT_FALSE(device->create(kPage));
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_EQ(device->status().ours_bytes, 0u);
  EXPECT_TRUE(device->create(kPage));
}

// B8: addresses, too, can be refused.
TEST_F(Fake, RefusesAddressesOverItsLimit) {
  FakeSettings settings;
  settings.reserve_limit_bytes = 4 * kPage;
  device->apply(settings);
  const AddressRange range = device->reserve(3 * kPage).value();
  EXPECT_FALSE(device->reserve(2 * kPage));
  ASSERT_TRUE(device->free_addresses(range));
  EXPECT_TRUE(device->reserve(4 * kPage));
}

TEST_F(Fake, HeldFencesAreDoneWhenTheTestSaysSo) {
  device->hold_fences(true);
  const Fence first = device->fence(Stream::Compute).value();
  const Fence second = device->fence(Stream::Compute).value();
  const Fence copy = device->fence(Stream::Copy).value();
  EXPECT_FALSE(device->done(first).value());
  device->complete_fences(Stream::Compute, 1);
  EXPECT_TRUE(device->done(first).value());
  EXPECT_FALSE(device->done(second).value());
  EXPECT_FALSE(device->done(copy).value());
  ASSERT_TRUE(device->wait(second));
  EXPECT_TRUE(device->done(second).value());
  device->hold_fences(false);
  EXPECT_TRUE(device->done(copy).value());
}

TEST_F(Fake, HoldsAStepUntilItIsReleased) {
  FakeSettings settings;
  settings.hold.emplace(Step::Decode);
  device->apply(settings);
  EXPECT_TRUE(device->begin_step(Step::Prefill));
  auto step = std::async(std::launch::async, [this] { return device->begin_step(Step::Decode).has_value(); });
  EXPECT_EQ(step.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  settings.hold.emplace(std::nullopt);
  device->apply(settings);
  EXPECT_TRUE(step.get());
}

// B7: over the soft limit nothing fails, everything is slower.
TEST_F(Fake, SlowsDownOverItsSoftLimit) {
  FakeSettings settings;
  settings.step_ms = std::chrono::milliseconds(2);
  settings.soft_limit_bytes = kPage;
  settings.slow_factor = 10;
  device->apply(settings);
  ASSERT_TRUE(device->create(2 * kPage));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(device->begin_step(Step::Decode));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace ebb::device
