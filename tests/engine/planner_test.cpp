// The plan a person reads, over the true shapes of Gemma 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/internal/planner.h"
#include "engine/placement_problem.h"

namespace ebb::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Source   spec/gemma3 section 1: text sizes in bf16.
struct Shape {
  const char* name;
  std::size_t layers, hidden, kv_width, window, trained, layer_parameters, embedding_parameters;
};
constexpr Shape k270M{"270M", 18, 640, 256, 512, 32768, 5'573'632, 167'772'160};
constexpr Shape k1B{"1B", 26, 1152, 256, 512, 32768, 26'842'112, 301'989'888};
constexpr Shape k4B{"4B", 34, 2560, 1024, 1024, 131072, 94'382'592, 671'252'480};
constexpr Shape k12B{"12B", 48, 3840, 2048, 1024, 131072, 224'148'992, 1'006'878'720};
constexpr Shape k27B{"27B", 62, 5376, 2048, 1024, 131072, 412'898'560, 1'409'630'208};

/// `bits` a weight; KV of 2 bytes, then of 1.0625 (q8_0) and 0.5625 (q4_0) as advice.
PlacementRequest shape_request(const Shape& shape, double bits, const std::vector<std::size_t>& device_bytes) {
  PlacementRequest request;
  const auto weights = [&](std::size_t parameters) {
    return UnitBytes{static_cast<std::size_t>(static_cast<double>(parameters) * bits / 8), 64 * kKiB};
  };
  std::vector<bool> global;
  for (std::size_t idx = 0; idx < shape.layers; ++idx) {
    global.push_back((idx + 1) % 6 == 0);
    request.layers.push_back({weights(shape.layer_parameters), global.back()});
  }
  request.output = weights(shape.embedding_parameters);
  request.embedding_bytes = request.output.on_device;
  const std::size_t scratch_per_row = 16 * shape.hidden * 4;
  request.kv_choices.push_back(linear_kv(global, 4 * shape.kv_width, shape.window, scratch_per_row, kMiB, "-ctk f16 -ctv f16"));
  request.kv_choices.push_back(
      linear_kv(global, 4 * shape.kv_width * 34 / 64, shape.window, scratch_per_row, kMiB, "-ctk q8_0 -ctv q8_0"));
  request.kv_choices.push_back(
      linear_kv(global, 4 * shape.kv_width * 18 / 64, shape.window, scratch_per_row, kMiB, "-ctk q4_0 -ctv q4_0"));
  request.host_page_bytes = 64 * kKiB;
  for (const std::size_t bytes : device_bytes) {
    request.devices.push_back(
        {.name = "fake", .total_bytes = bytes, .free_bytes = bytes, .limit_bytes = bytes, .page_bytes = 2 * kMiB});
  }
  return request;
}

PlanWish wish_of(const Shape& shape, std::size_t tokens) {
  PlanWish wish;
  wish.tokens = tokens;
  wish.trained_tokens = shape.trained;
  return wish;
}

std::size_t kind_bytes(const KindBytes& kinds, const std::string& wanted) {
  for (const auto& [kind, bytes] : kinds) {
    if (kind == wanted) return bytes;
  }
  return 0;
}

TEST(LargeShapes, SumsOfKvAreTheWindowedOnes_B3) {
  struct Row {
    const Shape& shape;
    std::size_t tokens;
    double global_mib, local_mib;
  };
  // spec/gemma3 section 1.4: bytes of one layer and token x global layers x context; local layers hold the window.
  const std::vector<Row> rows = {{k270M, 4096, 12, 7.5},   {k270M, 32768, 96, 7.5},   {k1B, 4096, 16, 11},
                                 {k1B, 32768, 128, 11},    {k4B, 4096, 80, 116},      {k4B, 32768, 640, 116},
                                 {k4B, 131072, 2560, 116}, {k12B, 4096, 256, 320},    {k12B, 8192, 512, 320},
                                 {k12B, 32768, 2048, 320}, {k12B, 131072, 8192, 320}, {k27B, 4096, 320, 416},
                                 {k27B, 32768, 2560, 416}, {k27B, 131072, 10240, 416}};
  for (const Row& row : rows) {
    const Plan plan = make_plan(shape_request(row.shape, 16, {200 * kGiB}), wish_of(row.shape, row.tokens)).plan;
    ASSERT_TRUE(plan.fits);
    // Whole pages of 2 MiB: one at most above the formula.
    const auto global = static_cast<double>(kind_bytes(plan.devices[0].kinds, "kv_global")) / static_cast<double>(kMiB);
    const auto local = static_cast<double>(kind_bytes(plan.devices[0].kinds, "kv_local")) / static_cast<double>(kMiB);
    EXPECT_GE(global, row.global_mib) << row.shape.name << " " << row.tokens;
    EXPECT_LT(global, row.global_mib + 2) << row.shape.name << " " << row.tokens;
    EXPECT_GE(local, row.local_mib) << row.shape.name << " " << row.tokens;
    EXPECT_LT(local, row.local_mib + 2) << row.shape.name << " " << row.tokens;
  }
}

TEST(LargeShapes, PartsAddUpAndUnitsHaveTheirShareOfKv) {
  const Plan plan = make_plan(shape_request(k12B, 4.5, {6 * kGiB, 4 * kGiB}), wish_of(k12B, 8192)).plan;
  ASSERT_TRUE(plan.fits);
  std::size_t unit_kv = 0, device_kv = 0;
  for (const PlanUnit& unit : plan.units) unit_kv += unit.kv_bytes;
  for (const PlanDevice& device : plan.devices) {
    std::size_t sum = 0;
    for (const auto& [kind, bytes] : device.kinds) sum += bytes;
    EXPECT_EQ(sum, device.planned_bytes);
    EXPECT_LE(device.planned_bytes, device.limit_bytes);
    device_kv += kind_bytes(device.kinds, "kv_global") + kind_bytes(device.kinds, "kv_local");
  }
  EXPECT_EQ(unit_kv, device_kv);
  EXPECT_EQ(plan.units.size(), 50U);
  EXPECT_EQ(plan.units.back().name, "embedding");
  EXPECT_EQ(plan.units.back().device, kOnHost);
}

TEST(LargeShapes, FillIsEvenOverEqualAndUnequalDevices_D2) {
  const std::vector<std::vector<std::size_t>> rigs = {{16 * kGiB, 16 * kGiB}, {24 * kGiB, 8 * kGiB}, {8 * kGiB, 24 * kGiB},
                                                      {8 * kGiB, 8 * kGiB, 8 * kGiB, 8 * kGiB}};
  for (const std::vector<std::size_t>& rig : rigs) {
    const Plan plan = make_plan(shape_request(k12B, 16, rig), wish_of(k12B, 8192)).plan;
    ASSERT_TRUE(plan.fits);
    EXPECT_TRUE(plan.warnings.empty());
    double least = 1, most = 0, smallest = 1e18;
    for (const PlanDevice& device : plan.devices) {
      const double fill = static_cast<double>(device.planned_bytes) / static_cast<double>(device.limit_bytes);
      least = std::min(least, fill);
      most = std::max(most, fill);
      smallest = std::min(smallest, static_cast<double>(device.limit_bytes));
    }
    // A cut can be off by half a unit at each side, and the head (1.9 GiB) is the largest unit.
    EXPECT_LT(most - least, 1.95 * static_cast<double>(kGiB) / smallest);
  }
}

TEST(LargeShapes, ContextOfZeroIsAsMuchAsFitsAndSaysSo) {
  const PlacementRequest request = shape_request(k12B, 4.5, {12 * kGiB});
  const Plan plan = make_plan(request, wish_of(k12B, 0)).plan;
  ASSERT_TRUE(plan.fits);
  EXPECT_GT(plan.context, 32768U);
  EXPECT_LT(plan.context, 131072U);
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_THAT(plan.warnings[0], HasSubstr("of the model's 131072"));
  PlacementLoad load{plan.context, 1, 512, 0};
  EXPECT_TRUE(fits_complete(request, load));
  load.tokens += kContextStep;
  EXPECT_FALSE(fits_complete(request, load));

  const Plan roomy = make_plan(shape_request(k12B, 4.5, {24 * kGiB}), wish_of(k12B, 0)).plan;
  EXPECT_EQ(roomy.context, 131072U);
  EXPECT_TRUE(roomy.warnings.empty());
}

TEST(LargeShapes, ContextOfZeroNeverFallsBelowTheLeastBeforeLayersMove) {
  const Plan plan = make_plan(shape_request(k12B, 4.5, {4 * kGiB}), wish_of(k12B, 0)).plan;
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.context, kLeastContext);
  ASSERT_EQ(plan.warnings.size(), 2U);
  EXPECT_THAT(plan.warnings[1], AllOf(HasSubstr("of 48 layers (0-"), HasSubstr("run on the CPU")));  // D5
}

TEST(LargeShapes, RemediesAreCheapestFirstAndEachOneIsEnough_B10) {
  PlacementRequest request = shape_request(k12B, 4.5, {8 * kGiB});
  request.all_on_devices = true;
  const PlanWish wish = wish_of(k12B, 32768);
  const Plan plan = make_plan(request, wish).plan;
  EXPECT_FALSE(plan.fits);
  ASSERT_GE(plan.remedies.size(), 3U);
  EXPECT_THAT(plan.remedies[0], AllOf(HasSubstr("-ctk q8_0 -ctv q8_0 would fit: saves"), HasSubstr("GiB")));
  EXPECT_THAT(plan.remedies[1], HasSubstr("-ctk q4_0 -ctv q4_0 would fit: saves"));
  EXPECT_THAT(plan.remedies[2], HasSubstr("-c "));
  const std::size_t context = std::stoul(plan.remedies[2].substr(3));
  EXPECT_TRUE(make_plan(request, wish_of(k12B, context)).plan.fits);
  EXPECT_FALSE(make_plan(request, wish_of(k12B, context + kContextStep)).plan.fits);
}

TEST(LargeShapes, AdvisesTheLimitThatIsEnough_B5) {
  PlacementRequest request = shape_request(k12B, 4.5, {24 * kGiB});
  request.devices[0].limit_bytes = 8 * kGiB;
  request.all_on_devices = true;
  PlanWish wish = wish_of(k12B, 32768);
  wish.limited = {true};
  const Plan plan = make_plan(request, wish).plan;
  ASSERT_FALSE(plan.fits);
  const std::string flag = "--memory-limit ";
  const auto advice = std::ranges::find_if(plan.remedies, [&](const std::string& text) { return text.starts_with(flag); });
  ASSERT_NE(advice, plan.remedies.end());
  const std::string words = advice->substr(flag.size());
  const Result<std::size_t> bytes = parse_bytes(words.substr(0, words.find(' ')));
  ASSERT_TRUE(bytes.has_value()) << words;
  request.devices[0].limit_bytes = *bytes;
  EXPECT_TRUE(make_plan(request, wish).plan.fits);
  request.devices[0].limit_bytes = *bytes - 4 * kMiB;  // a page and the rounding to a MiB less
  EXPECT_FALSE(make_plan(request, wish).plan.fits);
}

TEST(LargeShapes, SmallerStepsAndFewerChatsAreAdvisedWhereTheyAreEnough_B10) {
  PlacementRequest request = shape_request(k4B, 16, {64 * kGiB});
  request.all_on_devices = true;
  PlanWish wish = wish_of(k4B, 8192);
  wish.parallel = 4;
  const std::size_t needed = make_plan(request, wish).plan.devices[0].planned_bytes;
  request.devices[0].limit_bytes = needed - 10 * kMiB;  // 256 rows of scratch are 40 MiB, a chat is 276 MiB
  const Plan plan = make_plan(request, wish).plan;
  ASSERT_FALSE(plan.fits);
  EXPECT_THAT(plan.remedies[0], HasSubstr("-ub 256 would fit"));
  EXPECT_THAT(plan.remedies[1], HasSubstr("-np 3 would fit"));
}

}  // namespace
}  // namespace ebb::engine
