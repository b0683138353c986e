// M13 (class): parking and coming back are all-or-nothing. The class is: each kind of device call that either way makes
// (reserve, create, map, access, unmap, release, copy), failing at each of its positions, on each card and on the host;
// the same while the device lags (fences held); the host's room spent. After each: nothing lost (every visible row),
// nothing leaked (the devices' own count), and a later try works. A device that is lost is the one failure that no later
// try can mend; what was parked before it survives.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv_rig.h"

namespace ebb::tests {
namespace {

using device::FakeCall;
using device::FakeSettings;
using device::FailRule;

constexpr std::uint32_t kChat = 7;

TEST(KvPark, TakesTheCardsBytesToTheHostAndBack) {
  KvRig rig;
  const std::vector<std::size_t> empty = rig.floor();
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  const std::vector<std::size_t> full = rig.floor();
  const std::byte* address = cache->layer(0).k;
  const std::size_t record_bytes = cache->record_bytes();
  EXPECT_GT(record_bytes, 0U);
  EXPECT_EQ(rig.tag_bytes(memory::Tag::Cache), record_bytes);

  must(cache->park());
  EXPECT_TRUE(cache->parked());
  EXPECT_EQ(cache->device_bytes(), 0U);
  EXPECT_TRUE(rig.holds(*cache, kChat)) << "readable where it lies";
  const std::vector<std::size_t> parked = rig.floor();
  EXPECT_EQ(parked[0], empty[0]);
  EXPECT_EQ(parked[1], empty[1]);
  EXPECT_EQ(parked[2], cache->host_bytes());
  EXPECT_EQ(parked[2] - full[2], rig.tag_bytes(memory::Tag::Parked));
  EXPECT_GT(rig.tag_bytes(memory::Tag::Parked), 0U);

  must(cache->restore());
  EXPECT_EQ(rig.floor(), full);
  EXPECT_EQ(cache->layer(0).k, address);
  EXPECT_TRUE(rig.holds(*cache, kChat));
  must(cache->rewind(130));
  EXPECT_TRUE(rig.holds(*cache, kChat)) << "the record came along";
  cache.reset();
  EXPECT_EQ(rig.floor(), empty);
}

TEST(KvPark, CopiesOnlyWhatIsUsed) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 5, kChat);
  must(cache->park());
  // One run a range at most, in whole pages: three ranges of the cards' layers are longer than none.
  const std::vector<std::size_t> on_cards = {0, 1, 2, 3, 4, 5, 6};
  const model::KvFootprint most =
      model::KvCache::footprint(rig.config(), rig_options(), on_cards, model::KvCache::kRunTokens, 1);
  EXPECT_LE(rig.tag_bytes(memory::Tag::Parked), most.global_bytes + most.local_bytes + 4 * (kRigPage - 1));
}

TEST(KvPark, WhateverFailsOnTheWayOutNothingIsLost) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  const std::vector<std::size_t> full = rig.floor();
  const std::size_t positions = each_position_fails(
      rig, [&] { return cache->park().has_value(); },
      [&](bool done) {
        EXPECT_EQ(cache->parked(), done);
        EXPECT_TRUE(rig.holds(*cache, kChat));
        EXPECT_TRUE(done || rig.floor() == full);
        must(cache->park());
        EXPECT_TRUE(rig.holds(*cache, kChat));
        must(cache->restore());
        ASSERT_TRUE(rig.holds(*cache, kChat));
        EXPECT_EQ(rig.floor(), full);
      });
  // At least a reservation, a map, an access and a copy for each of the four ranges of the cards, and one page each.
  EXPECT_GE(positions, 4U * 5U);
}

TEST(KvPark, WhateverFailsOnTheWayBackNothingIsLost) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  must(cache->park());
  const std::vector<std::size_t> parked = rig.floor();
  const std::size_t positions = each_position_fails(
      rig, [&] { return cache->restore().has_value(); },
      [&](bool done) {
        EXPECT_EQ(cache->parked(), !done);
        EXPECT_TRUE(rig.holds(*cache, kChat));
        EXPECT_TRUE(done || rig.floor() == parked);
        must(cache->restore());
        EXPECT_TRUE(rig.holds(*cache, kChat));
        must(cache->park());
        ASSERT_TRUE(rig.holds(*cache, kChat));
        EXPECT_EQ(rig.floor(), parked);
      });
  EXPECT_GE(positions, 4U * 4U);
}

TEST(KvPark, WaitsForWhatTheCardStillReads) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  for (std::size_t idx = 0; idx < rig.device_count(); ++idx) rig.card(idx).hold_fences(true);
  const auto copies_done = [&](std::size_t idx) {
    return rig.card(idx).status().fences_done[static_cast<std::size_t>(device::Stream::Copy)];
  };
  must(cache->park());
  const std::uint64_t out[] = {copies_done(0), copies_done(1)};
  EXPECT_GT(out[0], 0U) << "nothing else completes a held fence but a wait for it";
  EXPECT_GT(out[1], 0U);
  EXPECT_TRUE(rig.holds(*cache, kChat));
  must(cache->restore());
  EXPECT_GT(copies_done(0), out[0]);
  EXPECT_GT(copies_done(1), out[1]);
  EXPECT_TRUE(rig.holds(*cache, kChat));
  for (std::size_t idx = 0; idx < rig.device_count(); ++idx) rig.card(idx).hold_fences(false);
}

TEST(KvPark, AFullHostRefusesWithNumbersAndChangesNothing) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  const std::vector<std::size_t> full = rig.floor();
  FakeSettings settings;
  settings.total_bytes = full[2] + kRigPage;  // one page more: the first range gets a part
  rig.host().apply(settings);
  const Status refused = cache->park();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(refused.error().memory);
  EXPECT_GT(refused.error().memory->wanted_bytes, 0U);
  EXPECT_EQ(refused.error().memory->tag, "parked");
  EXPECT_EQ(rig.floor(), full);
  EXPECT_TRUE(rig.holds(*cache, kChat));
  settings.total_bytes = kGiB;
  rig.host().apply(settings);
  must(cache->park());
  EXPECT_TRUE(rig.holds(*cache, kChat));
}

TEST(KvPark, WhatIsParkedOutlivesTheCard) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  must(cache->park());
  set_rule(rig.card(0), FailRule{FakeCall::Lost, 1, 1});
  const Status lost = cache->restore();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::DeviceLost);
  EXPECT_TRUE(cache->parked());
  EXPECT_TRUE(rig.holds(*cache, kChat));
}

TEST(KvPark, AParkedCacheIsRewoundWhereItLies) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 150, kChat);
  must(cache->park());
  EXPECT_FALSE(cache->can_rewind(100));
  ASSERT_TRUE(cache->can_rewind(130));
  must(cache->rewind(130));
  EXPECT_TRUE(cache->parked());
  EXPECT_EQ(cache->device_bytes(), 0U);
  EXPECT_TRUE(rig.holds(*cache, kChat));
  rig.append(*cache, 20, kChat + 1);  // comes back by itself
  EXPECT_FALSE(cache->parked());
  EXPECT_TRUE(rig.holds(*cache, kChat + 1, 130, kChat));

  must(cache->park());
  must(cache->rewind(0));
  EXPECT_EQ(cache->committed_bytes(), 0U);
  rig.append(*cache, 90, kChat + 2);
  EXPECT_TRUE(rig.holds(*cache, kChat + 2));
}

// M5: the floor depends on what is loaded, not on history. The engine adds the weights; here nothing is loaded.
TEST(KvPark, TheFloorDoesNotRememberLongPrompts) {
  KvRig rig;
  const model::KvOptions options{rig_options().global, rig_options().local, 1000, 24};
  auto cache = rig.create(1, options);
  std::vector<std::size_t> floor_of[2];
  const std::vector<std::size_t> empty = rig.floor();
  for (std::size_t round = 0; round < 20; ++round) {
    const std::size_t which = round % 2;
    rig.append(*cache, which == 0 ? 10 : 900, kChat, 512);
    must(cache->park());
    const std::vector<std::size_t> floor = rig.floor();
    if (round < 2) floor_of[which] = floor;
    EXPECT_EQ(floor, floor_of[which]) << "round " << round;
    EXPECT_EQ(floor[0], empty[0]);
    EXPECT_EQ(floor[1], empty[1]);
    must(cache->restore());
    EXPECT_TRUE(rig.holds(*cache, kChat));
    must(cache->rewind(0));
    EXPECT_EQ(rig.floor(), empty) << "round " << round;
  }
}

}  // namespace
}  // namespace ebb::tests
