// The table of `ebb plan`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "cli/plan_report.h"

namespace ebb::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

engine::Plan some_plan() {
  engine::Plan plan;
  plan.fits = true;
  plan.model = "12B, Q4_K 288";
  plan.kv_type = "f16";
  plan.context = 8192;
  plan.chunk_tokens = 512;
  plan.devices.push_back({0, "fake 24.0 GiB", 24 * kGiB, 20 * kGiB, 20 * kGiB, 6 * kGiB,
                          {{"weights", 5 * kGiB}, {"kv_global", kGiB / 2}, {"scratch", kGiB / 2}}});
  plan.host_planned_bytes = 64 * kMiB;
  plan.host_kinds = {{"cache", 64 * kMiB}};
  plan.mapped_file_bytes = 7 * kGiB;
  plan.units = {{"layer 0", kMiB, kMiB, engine::kOnHost}, {"layer 1", 2 * kMiB, kMiB, 0}, {"layer 2", 2 * kMiB, kMiB, 0},
                {"output", 8 * kMiB, 0, 0},               {"embedding", 8 * kMiB, 0, engine::kOnHost}};
  return plan;
}

TEST(PlanReport, ShowsDevicesKindsAndUnitsInRanges) {
  const std::string text = plan_report(some_plan());
  EXPECT_THAT(text, HasSubstr("context 8192, 1 chat, KV f16, steps of 512 tokens: fits\n"));
  EXPECT_THAT(text, HasSubstr("6.00 GiB planned of 20.00 GiB; 20.00 GiB free of 24.00 GiB"));
  // 40 cells for 20 GiB: 10 of weights, 1 each of half a GiB.
  EXPECT_THAT(text, HasSubstr("[WWWWWWWWWWGs............................]"));
  EXPECT_THAT(text, HasSubstr("G kv_global"));
  EXPECT_THAT(text, HasSubstr("layer 0             host"));
  EXPECT_THAT(text, HasSubstr("layers 1-2          device 0         4.0 MiB       2.0 MiB\n"));
  EXPECT_THAT(text, HasSubstr("the file, mapped"));
  EXPECT_THAT(text, Not(HasSubstr("what to change")));
}

TEST(PlanReport, SaysWhatToChangeAndWhatItCosts) {
  engine::Plan plan = some_plan();
  plan.fits = false;
  plan.devices[0].planned_bytes = 30 * kGiB;
  plan.devices[0].kinds = {{"weights", 30 * kGiB}};
  plan.remedies = {"-c 4096 would fit"};
  plan.warnings = {"1 of 3 layers (0) run on the CPU"};
  const std::string text = plan_report(plan);
  EXPECT_THAT(text, HasSubstr("tokens: does not fit\n"));
  EXPECT_THAT(text, HasSubstr("[" + std::string(40, 'W') + "]"));
  EXPECT_THAT(text, HasSubstr("! 1 of 3 layers (0) run on the CPU\n"));
  EXPECT_THAT(text, HasSubstr("what to change:\n  -c 4096 would fit\n"));
}

}  // namespace
}  // namespace ebb::cli
