// D1 (class): no layer, head or tower on the host while a legal placement of all exists. D2 (class): even fill, equal
// devices or not; a context that fits in total fits.
// Derived cases, and why they cover the classes:
// - one, two and three devices; equal and unequal size; unequal pages; a device too small for its scratch; none usable;
// - layers of one size and of many; any mixture of global and local, so that KV differs by layer; a window longer and
//   shorter than the context; several chats; a head and a tower smaller and much larger than a layer;
// - instances where only an order that is not the layers' fits; instances where nothing fits.
// All are drawn at random below (their occurrence is counted) and compared with a search over every assignment, whose
// costs are computed by a formula of its own: what decides a placement is only the costs of sets of units and the limits,
// so small instances with every kind of cost have every kind of decision. What small instances cannot show is the bound
// on work; LargeShapes (planner_test.cpp) has the true shapes.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "engine/placement_problem.h"

namespace ebb::engine {
namespace {

constexpr int kProblems = 3000;

TEST(Placement, LeavesNothingOnTheHostWhileAnyPlacementExists_D1) {
  std::mt19937 random(4);
  int solvable = 0, unsolvable = 0, only_out_of_order = 0, found_quickly = 0, with_tower = 0;
  for (int round = 0; round < kProblems; ++round) {
    const Problem problem = random_problem(random);
    bool any = false, ordered = false;
    for_each_assignment(problem, [&](const Assignment& units) {
      if (!within_limits(problem, units)) return;
      any = true;
      ordered = ordered || in_order(units);
    });
    const Placement found = place(problem.request, problem.load);
    ASSERT_EQ(found.complete, any) << "round " << round;
    const bool quick = fits_complete(problem.request, problem.load);
    ASSERT_TRUE(quick || !ordered) << "round " << round;
    ASSERT_TRUE(any || !quick) << "round " << round;
    found_quickly += quick && !ordered ? 1 : 0;
    solvable += any ? 1 : 0;
    unsolvable += any ? 0 : 1;
    only_out_of_order += any && !ordered ? 1 : 0;
    with_tower += problem.request.vision ? 1 : 0;
    if (!any) continue;
    ASSERT_TRUE(found.units.all_on_devices(problem.request.vision.has_value()));
    ASSERT_TRUE(within_limits(problem, found.units)) << "round " << round;
    if (ordered) {
      ASSERT_TRUE(in_order(found.units)) << "round " << round;
    }
  }
  // The draw has all the cases; none of the numbers is exact.
  EXPECT_GT(solvable, kProblems / 5);
  EXPECT_GT(unsolvable, kProblems / 5);
  EXPECT_GT(only_out_of_order, 10);
  EXPECT_GT(found_quickly, only_out_of_order / 2);
  EXPECT_GT(with_tower, kProblems / 3);
}

TEST(Placement, KeepsTheFullestDeviceAsEmptyAsItCanBe_D2) {
  std::mt19937 random(5);
  int compared = 0;
  for (int round = 0; round < kProblems; ++round) {
    const Problem problem = random_problem(random);
    double least = std::numeric_limits<double>::infinity();
    for_each_assignment(problem, [&](const Assignment& units) {
      if (in_order(units) && within_limits(problem, units)) least = std::min(least, fullest(problem, units));
    });
    if (least > 1) continue;
    ++compared;
    const Placement found = place(problem.request, problem.load);
    // Equal up to the rounding that the search allows itself, 1e-9.
    ASSERT_NEAR(fullest(problem, found.units), least, 1e-8) << "round " << round;
  }
  EXPECT_GT(compared, kProblems / 5);
}

TEST(Placement, CountsWhatTheDefinitionCounts_B2) {
  std::mt19937 random(6);
  for (int round = 0; round < kProblems; ++round) {
    const Problem problem = random_problem(random);
    const Placement found = place(problem.request, problem.load);
    for (std::size_t idx = 0; idx < problem.request.devices.size(); ++idx) {
      const std::size_t bytes = bytes_by_definition(problem, static_cast<int>(idx), found.units);
      ASSERT_EQ(found.devices[idx].sum(), bytes);
      if (found.fits) {
        ASSERT_LE(bytes, problem.request.devices[idx].limit_bytes);
      }
    }
  }
}

TEST(Placement, LeavesNoUnitOnTheHostThatOneDeviceStillHasRoomFor_D1) {
  std::mt19937 random(7);
  int partial = 0;
  for (int round = 0; round < kProblems; ++round) {
    const Problem problem = random_problem(random);
    const Placement found = place(problem.request, problem.load);
    ASSERT_TRUE(found.fits);  // the host takes any rest here
    if (found.complete) continue;
    ++partial;
    for (std::size_t layer_idx = 0; layer_idx < found.units.layers.size(); ++layer_idx) {
      Assignment units = found.units;
      if (units.layers[layer_idx] != kOnHost) continue;
      for (std::size_t idx = 0; idx < problem.request.devices.size(); ++idx) {
        units.layers[layer_idx] = static_cast<int>(idx);
        ASSERT_FALSE(within_limits(problem, units)) << "round " << round << ", layer " << layer_idx;
      }
    }
    if (found.units.output == kOnHost) {
      Assignment units = found.units;
      for (std::size_t idx = 0; idx < problem.request.devices.size(); ++idx) {
        units.output = static_cast<int>(idx);
        ASSERT_FALSE(within_limits(problem, units)) << "round " << round << ", output";
      }
    }
  }
  EXPECT_GT(partial, kProblems / 5);
}

Problem four_layers(std::size_t devices, std::size_t limit) {
  Problem problem;
  for (int idx = 0; idx < 4; ++idx) problem.request.layers.push_back({{100, 4}, idx == 3});
  problem.request.output = {100, 4};
  problem.request.kv_choices.push_back(linear_kv({false, false, false, true}, 1, 10, 0, 0));
  problem.load = {10, 1, 1, 0};
  for (std::size_t idx = 0; idx < devices; ++idx) problem.request.devices.push_back({.name = "d", .total_bytes = limit, .free_bytes = limit, .limit_bytes = limit});
  return problem;
}

TEST(Placement, AsksForAllOrNothingWithAll_D5) {
  Problem problem = four_layers(1, 300);
  EXPECT_TRUE(place(problem.request, problem.load).fits);
  problem.request.all_on_devices = true;
  const Placement refused = place(problem.request, problem.load);
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(refused.devices[0].sum(), 540U);  // what would be needed: 5 units of 100, 4 x 10 of KV
}

TEST(Placement, KeepsTheFirstLayersOnTheHostWhenSoManyAreAskedFor) {
  Problem problem = four_layers(1, 10000);
  problem.request.device_layers = 3;
  const Placement some = place(problem.request, problem.load);
  EXPECT_TRUE(some.complete);
  EXPECT_EQ(some.units.layers, (std::vector<int>{kOnHost, 0, 0, 0}));
  EXPECT_EQ(some.units.output, 0);
  problem.request.device_layers = 0;
  const Placement none = place(problem.request, problem.load);
  EXPECT_EQ(none.units.layers, std::vector<int>(4, kOnHost));
  EXPECT_EQ(none.units.output, kOnHost);
  EXPECT_EQ(none.devices[0].sum(), 0U);
}

TEST(Placement, SplitsAsTheUserSays) {
  Problem problem = four_layers(2, 10000);
  problem.request.devices[0].share = 0.2;
  problem.request.devices[1].share = 0.8;
  EXPECT_EQ(place(problem.request, problem.load).units.layers, (std::vector<int>{0, 1, 1, 1}));
  problem.request.devices[0].share = 0.8;
  problem.request.devices[1].share = 0.2;
  EXPECT_EQ(place(problem.request, problem.load).units.layers, (std::vector<int>{0, 0, 0, 1}));
}

TEST(Placement, RefusesWhatTheHostHasNoRoomForEither_B4) {
  Problem problem = four_layers(1, 300);
  problem.request.host_limit_bytes = 20;
  EXPECT_FALSE(place(problem.request, problem.load).fits);  // three units of 4 and 20 of KV on the host
  problem.request.host_limit_bytes = 40;
  EXPECT_TRUE(place(problem.request, problem.load).fits);
}

TEST(Placement, MakesRoomForTheTowerByMovingALayer_B1) {
  Problem problem = four_layers(1, 540);  // text fits exactly
  EXPECT_TRUE(place(problem.request, problem.load).complete);
  problem.request.vision = VisionNeed{{50, 0}, 30};
  const Placement found = place(problem.request, problem.load);
  EXPECT_TRUE(found.fits);
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.units.vision, 0);
  EXPECT_EQ(found.units.layers, (std::vector<int>{kOnHost, 0, 0, 0}));
  EXPECT_EQ(found.devices[0].vision, 50U);
  EXPECT_LE(found.devices[0].sum(), 540U);
}

TEST(Placement, LeavesOutADeviceThatIsTooSmallForItsScratch) {
  Problem problem = four_layers(2, 10000);
  problem.request.kv_choices[0] = linear_kv({false, false, false, true}, 1, 10, 500, 0);
  problem.request.devices[0].limit_bytes = 400;
  const Placement found = place(problem.request, problem.load);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.units.layers, std::vector<int>(4, 1));
  EXPECT_EQ(found.devices[0].sum(), 0U);
}

}  // namespace
}  // namespace ebb::engine
