// Taking tokens back when devices refuse: the windows are filled again by copies, and a copy that fails in the middle
// leaves neither the longer chat nor the shorter one. Cases: each call of each device at each position, on cards and
// parked, and a step that is abandoned.
#include <gtest/gtest.h>

#include "kv_rig.h"

namespace ebb::tests {
namespace {

constexpr std::uint32_t kChat = 3;

void expect_lost(model::KvCache& cache) {
  EXPECT_EQ(cache.length(), 0U);
  EXPECT_FALSE(cache.can_rewind(1));
  EXPECT_EQ(cache.reserve(1).error().code, ErrorCode::Io);
  EXPECT_EQ(cache.committed_bytes(), 0U);
}

// M13, S1
TEST(KvRewind, WhateverFailsItIsDoneOrLostOpenly) {
  for (const bool parked : {false, true}) {
    KvRig rig;
    auto cache = rig.create(1);
    rig.append(*cache, 150, kChat);
    if (parked) must(cache->park());
    std::size_t lost = 0;
    const std::size_t positions = each_position_fails(
        rig, [&] { return cache->rewind(130).has_value(); },
        [&](bool done) {
          if (done) {
            EXPECT_EQ(cache->length(), 130U);
            EXPECT_TRUE(rig.holds(*cache, kChat));
          } else {
            expect_lost(*cache);
            ++lost;
          }
          must(cache->rewind(0));
          rig.append(*cache, 150, kChat);
          if (parked) must(cache->park());
        });
    EXPECT_GT(positions, 0U);
    EXPECT_GT(lost, 0U) << "copies were made";
  }
}

TEST(KvRewind, AnAbandonedStepIsUndoneOrLostOpenly) {
  KvRig rig;
  std::size_t lost = 0;
  const auto attempt = [&](bool fails) {
    auto cache = rig.create(1);
    rig.append(*cache, 150, kChat);
    must(cache->reserve(10));
    for (std::size_t layer_idx = 0; layer_idx < 4; ++layer_idx) rig.store(*cache, layer_idx, 10, kChat + 1);
    if (fails) {
      for (std::size_t idx = 0; idx < rig.device_count(); ++idx) set_rule(rig.card(idx), device::FailRule{device::FakeCall::Copy, 1, 1});
    }
    cache->abandon(10, 4);
    for (std::size_t idx = 0; idx < rig.device_count(); ++idx) set_rule(rig.card(idx), std::nullopt);
    if (cache->length() == 150) {
      EXPECT_TRUE(rig.holds(*cache, kChat));
    } else {
      expect_lost(*cache);
      ++lost;
    }
  };
  attempt(false);
  EXPECT_EQ(lost, 0U);
  attempt(true);
  EXPECT_EQ(lost, 1U);
}

}  // namespace
}  // namespace ebb::tests
