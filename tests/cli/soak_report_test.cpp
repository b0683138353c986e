// When a soak says that memory creeps. The rule: slope times cycles, 2 MiB.
#include "cli/soak_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"

namespace ebb::cli {
namespace {

template <typename Bytes>
std::vector<FloorPoint> floors(std::size_t count, const Bytes& device_bytes) {
  std::vector<FloorPoint> points;
  for (std::size_t i = 0; i < count; ++i) points.push_back({0, i, device_bytes(i), 50 * kMiB});
  return points;
}

SoakVerdict judge(const std::vector<FloorPoint>& points) {
  FloorWatch watch;
  for (const FloorPoint& point : points) watch.add(point);
  EXPECT_EQ(watch.cycles(), points.size());
  return watch.verdict();
}

double slope(const std::vector<double>& values) {
  Trend trend;
  for (const double value : values) trend.add(value);
  EXPECT_EQ(trend.count(), values.size());
  return trend.slope();
}

TEST(Trend, IsTheLeastSquaresSlope) {
  EXPECT_EQ(slope({}), 0);
  EXPECT_EQ(slope({5}), 0);
  EXPECT_DOUBLE_EQ(slope({1, 3, 5, 7}), 2);
  EXPECT_EQ(slope({4, 4, 4}), 0);
  EXPECT_DOUBLE_EQ(slope({0, 0, 3}), 1.5);  // sum of x*y over sum of x*x: 3 / 2
  EXPECT_LT(slope({9, 5, 1}), 0);
}

TEST(Trend, IsExactFarFromZeroAndAfterMillionsOfValues) {
  Trend trend;
  for (std::size_t i = 0; i < 2'000'000; ++i) trend.add(static_cast<double>(16 * kGiB + i % 2));
  EXPECT_NEAR(trend.slope(), 0, 1e-9);
  Trend rising;
  for (std::size_t i = 0; i < 2'000'000; ++i) rising.add(static_cast<double>(16 * kGiB + 3 * i));
  EXPECT_NEAR(rising.slope(), 3, 1e-6);
}

TEST(SoakVerdict, FlatFloorsPassHoweverManyCycles) {
  const SoakVerdict verdict = judge(floors(1003, [](std::size_t) { return 100 * kMiB; }));
  EXPECT_EQ(verdict.cycles, 1000U);
  EXPECT_FALSE(verdict.device_creeps || verdict.host_creeps);
  EXPECT_NE(verdict_text(verdict).find("the floor is flat over 1000 cycles"), std::string::npos);
}

TEST(SoakVerdict, ASteadyRiseOfTwoMebibytesFails) {
  // 100 counted cycles: 21,000 bytes a cycle are 2.1 million, just above 2 MiB; 20,000 are below.
  EXPECT_TRUE(judge(floors(103, [](std::size_t i) { return kGiB + i * 21'000; })).device_creeps);
  EXPECT_FALSE(judge(floors(103, [](std::size_t i) { return kGiB + i * 20'000; })).device_creeps);
}

TEST(SoakVerdict, ASmallLeakIsFoundWhenItLastsLongEnough) {
  const auto leak = [](std::size_t i) { return kGiB + i * 1024; };
  EXPECT_FALSE(judge(floors(103, leak)).device_creeps);
  EXPECT_TRUE(judge(floors(3003, leak)).device_creeps);
}

TEST(SoakVerdict, TheHostIsJudgedToo) {
  std::vector<FloorPoint> points = floors(103, [](std::size_t) { return kGiB; });
  for (std::size_t i = 0; i < points.size(); ++i) points[i].host_bytes += i * 40'000;
  const SoakVerdict verdict = judge(points);
  EXPECT_TRUE(verdict.host_creeps);
  EXPECT_FALSE(verdict.device_creeps);
  EXPECT_NE(
      verdict_text(verdict).find("memory creeps over 100 cycles: device +0 bytes a cycle, host +40000 bytes a cycle "
                                 "(creeps)"),
      std::string::npos)
      << verdict_text(verdict);
}

TEST(SoakVerdict, WarmUpAndAFallingFloorAreNoCreep) {
  EXPECT_FALSE(judge(floors(50, [](std::size_t i) { return i < 3 ? i * kGiB : 3 * kGiB; })).device_creeps);
  EXPECT_FALSE(judge(floors(50, [](std::size_t i) { return kGiB - i * kMiB; })).device_creeps);
}

TEST(SoakVerdict, TooFewCyclesSaySo) {
  EXPECT_NE(verdict_text(judge(std::vector<FloorPoint>())).find("too few cycles"), std::string::npos);
  EXPECT_NE(verdict_text(judge(floors(4, [](std::size_t i) { return i * kGiB; }))).find("too few"), std::string::npos);
}

TEST(SoakReport, LinesStandUnderTheHeading) {
  EXPECT_EQ(floor_heading().size(), floor_line({1.25, 25, 236 * kMiB, 55 * kMiB}).size());
  EXPECT_EQ(floor_line({1.25, 25, 236 * kMiB, 55 * kMiB}), "     1.2 s        25     236.0 MiB      55.0 MiB\n");
}

}  // namespace
}  // namespace ebb::cli
