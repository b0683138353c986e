#include "device/device_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "base/bytes.h"
#include "device/fake/fake_device.h"

namespace ebb::device {
namespace {

const FakeDevice& as_fake(const std::unique_ptr<Device>& device) { return dynamic_cast<const FakeDevice&>(*device); }

TEST(DeviceSpec, SeveralWordsMeanTheCpu) {
  for (const char* word : {"", "cpu", "host", "none"}) {
    const auto devices = open_devices({word, "", ""}).value();
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0]->kind(), Kind::Host);
    EXPECT_EQ(devices[0]->page_bytes(), kHostPageBytes);
  }
}

TEST(DeviceSpec, AListOfFakeCardsKeepsItsOrderAndSizes) {
  const auto devices = open_devices({"fake:16GiB,fake:8GiB", "64KiB", ""}).value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]->mem_info().value().total_bytes, 16 * kGiB);
  EXPECT_EQ(devices[1]->mem_info().value().total_bytes, 8 * kGiB);
  EXPECT_EQ(devices[1]->page_bytes(), 64 * kKiB);
  EXPECT_EQ(devices[0]->name(), "fake 16.00 GiB");
}

TEST(DeviceSpec, FakePagesAreTwoMebibytesUnlessSaidOtherwise) {
  EXPECT_EQ(open_devices({"fake:1GiB", "", ""}).value()[0]->page_bytes(), 2 * kMiB);
}

TEST(DeviceSpec, SettingsReachTheDeviceTheyName) {
  const auto devices =
      open_devices({"fake:1GiB,fake:1GiB", "", R"({"device": 1, "others_bytes": "512MiB", "total_bytes": 805306368})"})
          .value();
  EXPECT_EQ(as_fake(devices[0]).status().others_bytes, 0u);
  EXPECT_EQ(as_fake(devices[1]).status().others_bytes, 512 * kMiB);
  EXPECT_EQ(as_fake(devices[1]).status().total_bytes, 768 * kMiB);
}

struct Refusal {
  DeviceSpec spec;
  const char* words;  // what the sentence must name
};

TEST(DeviceSpec, RefusalsNameTheFaultAndTheRemedy) {
  const Refusal refusals[] = {
      {{"gpu", "", ""}, "-dev gpu: no such device; use cpu"},
      {{"fake:1GiB,cpu", "", ""}, "-dev cpu"},
      {{"cudas", "", ""}, "-dev cudas: no such device"},
      {{"cuda:", "", ""}, "\"\" is no card's number; use cuda:0"},
      {{"cuda:0x1", "", ""}, "\"0x1\" is no card's number"},
      {{"cuda:-1", "", ""}, "\"-1\" is no card's number"},
      {{"fake:", "", ""}, "is not a size"},
      {{"fake:lots", "", ""}, "\"lots\" is not a size"},
      {{"fake:4KiB", "64KiB", ""}, "from one page (64.0 KiB)"},
      {{"fake:9000000TiB", "", ""}, "-dev fake:9000000TiB"},
      {{"fake:1024TiB", "", ""}, "a fake card has"},
      {{"fake:1GiB", "small", ""}, "--fake-page: \"small\""},
      {{"fake:1GiB,", "", ""}, "no such device"},
      {{"fake:1GiB", "48KiB", ""}, "power of two"},
      {{"fake:1GiB", "64MiB", ""}, "power of two"},
      {{"fake:1GiB", "1", ""}, "power of two"},
      {{"cpu", "64KiB", ""}, "--fake-page is set, but no device is fake"},
      {{"cpu", "", "{}"}, "EBB_FAKE is set, but no device is fake"},
      {{"fake:1GiB", "", "{"}, "not a JSON object"},
      {{"fake:1GiB", "", "[1]"}, "not a JSON object"},
      {{"fake:1GiB", "", R"({"device": 1})"}, "device 1 of 1"},
      {{"fake:1GiB", "", R"({"others": 1})"}, "others_bytes"},
      {{"fake:1GiB", "", R"({"others_bytes": -1})"}, "others_bytes is -1"},
      {{"fake:1GiB", "", R"({"others_bytes": 18446744073709551615})"}, "others_bytes is 18446744073709551615"},
      {{"fake:1GiB", "", R"({"total_bytes": "x"})"}, "total_bytes is \"x\""},
      {{"fake:1GiB", "", R"({"fail": 3})"}, "fail is 3"},
      {{"fake:1GiB", "", R"({"fail": {"nth": 3}})"}, "\"call\""},
      {{"fake:1GiB", "", R"({"fail": {"call": "alloc"}})"}, "\"create\""},
      {{"fake:1GiB", "", R"({"fail": {"call": "create", "nth": 0}})"}, "fail.nth is 0"},
      {{"fake:1GiB", "", R"({"fail": {"call": "create", "times": 2}})"}, "\"times\""},
      {{"fake:1GiB", "", R"({"hold": "pause"})"}, "\"prefill\""},
      {{"fake:1GiB", "", R"({"step_ms": 1.5})"}, "step_ms is 1.5"},
      {{"fake:1GiB", "", R"({"slow_factor": 0})"}, "slow_factor is 0"},
      {{"fake:1GiB", "", R"({"reset_peak": 1})"}, "true or false"},
  };
  for (const Refusal& refusal : refusals) {
    const auto devices = open_devices(refusal.spec);
    ASSERT_FALSE(devices) << refusal.words;
    EXPECT_EQ(devices.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(devices.error().message.find(refusal.words), std::string::npos)
        << devices.error().message << " | " << refusal.words;
  }
}

TEST(DeviceSpec, EveryFakeFieldIsRead) {
  const FakeSettings settings = parse_fake_settings(R"({"device": 2, "total_bytes": 1024, "others_bytes": 1,
      "fail": {"call": "lost", "nth": 5, "count": 7}, "hold": "tower", "step_ms": 3, "release_ms": 4, "reserve_limit_bytes": "1KiB",
      "soft_limit_bytes": 6, "slow_factor": 2.5, "reset_peak": true})")
                                    .value();
  EXPECT_EQ(settings.device_idx, 2u);
  EXPECT_EQ(settings.total_bytes, 1024u);
  EXPECT_EQ(settings.others_bytes, 1u);
  ASSERT_TRUE(settings.fail && *settings.fail);
  EXPECT_EQ((*settings.fail)->call, FakeCall::Lost);
  EXPECT_EQ((*settings.fail)->nth, 5u);
  EXPECT_EQ((*settings.fail)->count, 7u);
  ASSERT_TRUE(settings.hold && *settings.hold);
  EXPECT_EQ(**settings.hold, Step::Tower);
  EXPECT_EQ(settings.step_ms->count(), 3);
  EXPECT_EQ(settings.release_ms->count(), 4);
  EXPECT_EQ(settings.reserve_limit_bytes, 1024u);
  EXPECT_EQ(settings.soft_limit_bytes, 6u);
  EXPECT_EQ(settings.slow_factor, 2.5);
  EXPECT_TRUE(settings.reset_peak);
  const FakeSettings cleared = parse_fake_settings(R"({"fail": null, "hold": null})").value();
  EXPECT_TRUE(cleared.fail && !*cleared.fail);
  EXPECT_TRUE(cleared.hold && !*cleared.hold);
}

}  // namespace
}  // namespace ebb::device
