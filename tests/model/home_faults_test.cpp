// What a model does when a card refuses.
// B6, M13 (class), for weights and steps. The class is every device call that an act makes, each failing at each position.
// Acts: load, move out, move back, unload, load again, a step over three cards past the window. Calls: reserve, create, map,
// access, copy, step, unmap, release; and lost (X6), on the card in the middle, so that something was done before and
// something is left to do. Acts that only give back never fail: what the driver refuses stays counted and is tried again.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/split_model.h"

namespace ebb::tests {
namespace {

using device::FakeCall;
using weights::layer_unit;

constexpr std::array kCalls = {FakeCall::Reserve, FakeCall::Create, FakeCall::Map,   FakeCall::Access,
                               FakeCall::Copy,    FakeCall::Step,   FakeCall::Unmap, FakeCall::Release};
constexpr std::size_t kCard = 1;

/// Runs `act` with the nth call failing, for n = 1 and on, until it says that no call failed; returns how often one did.
std::size_t count_failures(const std::function<bool(std::uint64_t nth)>& act) {
  for (std::uint64_t nth = 1;; ++nth) {
    if (act(nth)) return static_cast<std::size_t>(nth - 1);
  }
}

TEST(HomeFaults, AFailedLoadGivesAllBackAndALaterOneWorks) {
  const std::vector<std::int32_t> ids = some_ids(20);
  const Logits wanted = host_logits(ids);
  std::size_t failures = 0;
  for (const FakeCall call : kCalls) {
    failures += count_failures([&](std::uint64_t nth) {
      SplitModel split;
      split.fail(kCard, call, nth);
      if (split.load()) return true;
      split.heal(kCard);
      EXPECT_EQ(split.ours(), 0U) << static_cast<int>(call) << " " << nth;
      EXPECT_EQ(split.tag_bytes(memory::Tag::Weights), 0U);
      must(split.load());
      const auto cache = split.new_cache();
      EXPECT_EQ(split.logits(*cache, ids, 64), wanted);
      return false;
    });
  }
  EXPECT_EQ(failures, 2U * (1 + 1 + 1 + 13));  // two layers of thirteen tensors; refused addresses are found elsewhere
}

TEST(HomeFaults, MovesAndReloadsAreAllOrNothing) {
  const std::vector<std::int32_t> ids = some_ids(20);
  const Logits wanted = host_logits(ids);
  std::size_t failures = 0;
  for (const FakeCall call : kCalls) {
    failures += count_failures([&](std::uint64_t nth) {
      SplitModel split;
      must(split.load());
      const std::size_t loaded_bytes = split.ours();
      const auto cache = split.new_cache();
      split.fail(kCard, call, nth);
      must(split.model().move_weights(layer_unit(2), split.pool(kHost)));  // the host's own calls do not fail
      const Status moved = split.model().move_weights(layer_unit(2), split.pool(kCard));
      EXPECT_EQ(split.model().weights_at(layer_unit(2)), &split.pool(moved ? kCard : kHost));
      split.model().unload_weights();
      EXPECT_EQ(split.tag_bytes(memory::Tag::Weights), 0U) << static_cast<int>(call) << " " << nth;
      const Status loaded = split.model().load_weights();
      EXPECT_EQ(split.model().loaded(), loaded.has_value());
      EXPECT_EQ(split.ours() == 0, !loaded);
      split.heal(kCard);
      if (!loaded) must(split.model().load_weights());
      must(split.model().move_weights(layer_unit(2), split.pool(kCard)));
      EXPECT_EQ(split.ours(), loaded_bytes);
      EXPECT_EQ(split.logits(*cache, ids, 64), wanted);
      return moved && loaded;
    });
  }
  EXPECT_GE(failures, 3U * (1 + 1 + 1 + 13));  // one unit back, two loaded again: create, map, access, copies
}

// B6: the step is refused, the conversation is as before, and the next step answers as if nothing had been.
TEST(HomeFaults, AFailedStepLeavesTheConversationAsItWas) {
  const std::vector<std::int32_t> ids = some_ids(44);
  constexpr std::size_t kSaid = 30;  // past the window of 16
  const Logits wanted = host_logits(ids);
  std::size_t failures = 0;
  for (const FakeCall call : kCalls) {
    failures += count_failures([&](std::uint64_t nth) {
      SplitModel split;
      must(split.load());
      const auto cache = split.new_cache();
      Logits rows = split.logits(*cache, std::span(ids).first(kSaid), 30);
      split.model().release_scratch();
      const std::size_t floor = split.ours();
      split.fail(kCard, call, nth);
      Logits none;
      const Status stepped = split.forward(*cache, std::span(ids).subspan(kSaid), none);
      if (stepped) return true;
      split.heal(kCard);
      EXPECT_TRUE(none.empty());
      EXPECT_EQ(cache->length(), kSaid);
      split.model().release_scratch();
      EXPECT_EQ(split.ours(), floor) << static_cast<int>(call) << " " << nth;
      must(split.forward(*cache, std::span(ids).subspan(kSaid), rows));
      EXPECT_EQ(rows, wanted) << static_cast<int>(call) << " " << nth;
      return false;
    });
  }
  EXPECT_GE(failures, 1U + 2 + 3);  // the step, two copies at the border into the card, pages of scratch
}

// A record too short for what the step overwrote: the conversation begins anew and is never wrong.
TEST(HomeFaults, AStepCutShortPastTheRecordLosesTheConversation) {
  const std::vector<std::int32_t> ids = some_ids(44);
  const Logits wanted = host_logits(ids);
  SplitModel split;
  must(split.load());
  const auto cache = split.new_cache(4);
  static_cast<void>(split.logits(*cache, std::span(ids).first(30), 30));
  split.fail(2, FakeCall::Copy, 1);
  Logits rows;
  EXPECT_FALSE(split.forward(*cache, std::span(ids).subspan(30), rows));
  EXPECT_EQ(cache->length(), 0U);
  EXPECT_FALSE(cache->can_rewind(10));
  EXPECT_FALSE(split.forward(*cache, std::span(ids).subspan(30), rows));
  must(cache->rewind(0));
  EXPECT_EQ(split.logits(*cache, ids, 64), wanted);
}

TEST(HomeFaults, ALostDeviceEndsEveryActWithAnError) {
  const std::vector<std::int32_t> ids = some_ids(44);
  const auto lose = [&](std::uint64_t nth, bool before_load) {
    SplitModel split;
    if (before_load) split.fail(kCard, FakeCall::Lost, nth);
    Status outcome = split.load();
    if (!before_load) {
      const auto cache = split.new_cache();
      split.fail(kCard, FakeCall::Lost, nth);
      Logits rows;
      outcome = split.forward(*cache, std::span(ids).first(30), rows);
      if (outcome) outcome = split.forward(*cache, std::span(ids).subspan(30), rows);
      if (outcome) outcome = split.model().move_weights(layer_unit(2), split.pool(kHost));
      split.model().unload_weights();
      if (outcome) outcome = split.model().load_weights();
    }
    if (outcome) return true;
    EXPECT_EQ(outcome.error().code, ErrorCode::DeviceLost) << outcome.error().message;
    return false;
  };
  for (const bool before_load : {true, false}) {
    std::uint64_t nth = 1;
    while (!lose(nth, before_load)) ++nth;
    EXPECT_GT(nth, 30U);
  }
}

}  // namespace
}  // namespace ebb::tests
