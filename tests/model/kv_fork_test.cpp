// S7 (class), for prefixes: nothing that one of two conversations stores, takes back or gives up reaches the other. Derived
// cases: both go on; the first goes on alone; either is rewound below the common part and stores something else; either
// is dropped, parked or saved; a fork of a fork; each failing call, of the fork and of the copies that a write below the
// common part needs. All by rows that name their chat, and by logits of a model.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kv_rig.h"

namespace ebb::tests {
namespace {

/// A window that nothing leaves, so that any cut is allowed.
model::Config wide_config() {
  model::Config config = rig_config();
  config.window_tokens = 300;
  return config;
}

std::size_t sum(const std::vector<std::size_t>& values) {
  std::size_t total = 0;
  for (const std::size_t value : values) total += value;
  return total;
}

TEST(KvFork, BothGoOnByThemselves) {
  KvRig rig;
  for (const std::size_t tokens : {std::size_t{250}, std::size_t{249}, std::size_t{230}, std::size_t{226}}) {
    SCOPED_TRACE(tokens);
    auto first = rig.create(1);
    rig.append(*first, 250, 1);
    auto second = must(first->fork(2, tokens));
    EXPECT_EQ(second->length(), tokens);
    EXPECT_EQ(second->record_bytes(), 0U);
    EXPECT_TRUE(rig.holds(*second, 1));
    rig.append(*second, 30, 2);
    rig.append(*first, 20, 3);
    EXPECT_TRUE(rig.holds(*second, 2, tokens, 1));
    EXPECT_TRUE(rig.holds(*first, 3, 250, 1));
    must(second->rewind(tokens + 10));
    EXPECT_TRUE(rig.holds(*second, 2, tokens, 1)) << "its own record begins at the fork";
  }
}

TEST(KvFork, AWindowThatIsGoneIsRefused) {
  KvRig rig;
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  const std::vector<std::size_t> before = rig.floor();
  const auto refused = first->fork(2, 225);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(rig.floor(), before);
}

TEST(KvFork, ACutBelowTheCommonPartStaysWithWhoMadeIt) {
  KvRig rig(wide_config());
  for (const bool first_goes_back : {true, false}) {
    for (const std::size_t back : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{97}, std::size_t{249}}) {
      SCOPED_TRACE(back);
      auto first = rig.create(1);
      rig.append(*first, 250, 1);
      auto second = must(first->fork(2, 250));
      model::KvCache& goes_back = first_goes_back ? *first : *second;
      model::KvCache& stays = first_goes_back ? *second : *first;
      must(goes_back.rewind(back));
      rig.append(goes_back, 40, 2);
      EXPECT_TRUE(rig.holds(goes_back, 2, back, 1));
      EXPECT_TRUE(rig.holds(stays, 1));
      rig.append(stays, 40, 3);
      EXPECT_TRUE(rig.holds(stays, 3, 250, 1));
      EXPECT_TRUE(rig.holds(goes_back, 2, back, 1));
    }
  }
}

TEST(KvFork, SharesWholePagesAndCountsThemOnce) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  const std::size_t alone = sum(rig.floor());
  auto second = must(first->fork(2, 250));
  // Whole pages of the runs that are full at 250 tokens, of the global layers: each is alone in its home here.
  std::size_t shared = 0;
  for (const std::size_t layer_idx : {std::size_t{2}, std::size_t{5}, std::size_t{8}}) {
    const std::size_t layers[] = {layer_idx};
    shared += model::KvCache::footprint(rig.config(), rig_options(), layers, 250 / 32 * 32, 1).global_bytes / kRigPage * kRigPage;
  }
  EXPECT_GT(shared, 0U);
  EXPECT_EQ(rig.tag_bytes(memory::Tag::Prefix), shared);
  const std::size_t own = rig.ledger().snapshot().owner_bytes(2);
  EXPECT_EQ(sum(rig.floor()), alone + own) << "nothing but what is its own was added";
  EXPECT_EQ(own, second->committed_bytes() - shared);
  first.reset();
  EXPECT_EQ(rig.tag_bytes(memory::Tag::Prefix), 0U);
  EXPECT_EQ(rig.ledger().snapshot().owner_bytes(2), second->committed_bytes());
  EXPECT_EQ(sum(rig.floor()), second->committed_bytes());
  EXPECT_TRUE(rig.holds(*second, 1));
}

TEST(KvFork, SavingOneThatWentBackDoesNotWipeTheOther) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  auto second = must(first->fork(2, 250));
  must(second->rewind(5));
  auto cold = rig.create(3);
  rig.append(*cold, 5, 1);
  const auto bytes = [](model::KvCache& cache) {
    std::vector<std::byte> all;
    for (const std::span<std::byte> part : cache.contents()) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  EXPECT_EQ(bytes(*second), bytes(*cold));
  EXPECT_TRUE(rig.holds(*first, 1));
  must(second->rewind(3));
  must(second->park());
  EXPECT_EQ(bytes(*second).size(), bytes(*cold).size());
  EXPECT_TRUE(rig.holds(*first, 1));
}

TEST(KvFork, WhateverFailsBeforeAWriteBelowTheForkBothHoldTheirOwn) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  const std::vector<std::size_t> before = rig.floor();
  const auto cut = [&] {
    auto fork = must(first->fork(2, 220));
    must(fork->rewind(100));
    return fork;
  };
  std::unique_ptr<model::KvCache> second = cut();
  const std::size_t positions = each_position_fails(
      rig, [&] { return rig.try_append(*second, 30, 2).has_value(); },
      [&](bool done) {
        EXPECT_TRUE(rig.holds(*first, 1));
        if (!done) {
          EXPECT_EQ(second->length(), 100U);
          EXPECT_TRUE(rig.holds(*second, 1));
          rig.append(*second, 30, 2);
        }
        EXPECT_TRUE(rig.holds(*second, 2, 100, 1));
        EXPECT_TRUE(rig.holds(*first, 1));
        second.reset();
        ASSERT_EQ(rig.floor(), before);
        second = cut();
      });
  EXPECT_GE(positions, 3U * 5U) << "addresses, pages, maps, accesses and a copy for each range of a global layer";
}

// The exception that reserve() names: nothing can be mapped any more once the shared page is away.
TEST(KvFork, WhatTheDriverKeepsIsLostOpenly) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  std::size_t lost = 0;
  for (std::uint64_t nth = 1; nth <= 12; ++nth) {
    SCOPED_TRACE(nth);
    auto second = must(first->fork(2, 220));
    must(second->rewind(100));
    set_rule(rig.card(0), device::FailRule{device::FakeCall::Map, nth, 1000});
    const bool done = rig.try_append(*second, 30, 2).has_value();
    set_rule(rig.card(0), std::nullopt);
    EXPECT_TRUE(rig.holds(*first, 1));
    if (!done && second->length() == 0) {
      ++lost;
      EXPECT_FALSE(second->can_rewind(100));
      EXPECT_FALSE(second->reserve(1)) << "not before the caller knows";
      ASSERT_TRUE(second->can_rewind(0));
      must(second->rewind(0));
      rig.append(*second, 100, 1);
    }
    if (!done) rig.append(*second, 30, 2);
    EXPECT_TRUE(rig.holds(*second, 2, 100, 1));
    EXPECT_TRUE(rig.holds(*first, 1));
  }
  EXPECT_GT(lost, 0U);
}

TEST(KvFork, AForkOfAForkIsOneMore) {
  KvRig rig(wide_config());
  const std::vector<std::size_t> empty = rig.floor();
  auto first = rig.create(1);
  rig.append(*first, 200, 1);
  auto second = must(first->fork(2, 180));
  auto third = must(second->fork(3, 150));
  rig.append(*third, 50, 3);
  first.reset();
  rig.append(*second, 50, 2);
  EXPECT_TRUE(rig.holds(*second, 2, 180, 1));
  EXPECT_TRUE(rig.holds(*third, 3, 150, 1));
  second.reset();
  EXPECT_TRUE(rig.holds(*third, 3, 150, 1));
  third.reset();
  EXPECT_EQ(rig.floor(), empty);
}

TEST(KvFork, EitherIsParkedAndComesBack) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  auto second = must(first->fork(2, 200));
  must(first->park());
  rig.append(*second, 20, 2);
  must(second->park());
  EXPECT_EQ(rig.floor()[0], 0U);
  EXPECT_EQ(rig.floor()[1], 0U);
  rig.append(*first, 20, 3);
  must(second->restore());
  EXPECT_TRUE(rig.holds(*first, 3, 250, 1));
  EXPECT_TRUE(rig.holds(*second, 2, 200, 1));
  must(first->park());
  auto third = must(first->fork(3, 100));
  EXPECT_FALSE(first->parked()) << "a fork brings it back";
  EXPECT_TRUE(rig.holds(*third, 1));
}

TEST(KvFork, WhateverFailsTheFirstIsAsBefore) {
  KvRig rig(wide_config());
  auto first = rig.create(1);
  rig.append(*first, 250, 1);
  const std::vector<std::size_t> before = rig.floor();
  std::unique_ptr<model::KvCache> second;
  const std::size_t positions = each_position_fails(
      rig,
      [&] {
        auto made = first->fork(2, 220);
        if (made) second = std::move(*made);
        return made.has_value();
      },
      [&](bool done) {
        EXPECT_TRUE(rig.holds(*first, 1));
        EXPECT_TRUE(done || rig.floor() == before);
        if (!done) second = must(first->fork(2, 220));
        EXPECT_TRUE(rig.holds(*second, 1));
        second.reset();
        ASSERT_EQ(rig.floor(), before);
      });
  EXPECT_GE(positions, 6U * 5U) << "a reservation, a page, a map, an access and a copy for each range";
}

// M9: two chats in turns; one is dropped, and what it held comes back.
TEST(KvFork, DroppingOneGivesBackWhatIsItsOwn) {
  KvRig rig(wide_config());
  const std::vector<std::size_t> empty = rig.floor();
  auto first = rig.create(1);
  rig.append(*first, 100, 1);
  auto second = must(first->fork(2, 100));
  for (std::size_t turn = 0; turn < 5; ++turn) {
    rig.append(*first, 25, 2);
    rig.append(*second, 25, 3);
  }
  const std::size_t both = sum(rig.floor());
  const std::size_t held = rig.ledger().snapshot().owner_bytes(2);
  second.reset();
  const std::size_t alone = sum(rig.floor());
  EXPECT_GE(both - alone, held * 95 / 100);
  EXPECT_TRUE(rig.holds(*first, 2, 100, 1));
  first.reset();
  EXPECT_EQ(rig.floor(), empty);
}

TEST(KvFork, TwoForksOfAModelsChatContinueAsColdRuns) {
  LoadedModel model(std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base", model::Arithmetic::Exact);
  std::vector<std::int32_t> one = {2};
  while (one.size() < 130) one.push_back(static_cast<std::int32_t>(14 + one.size() * 37 % 250));
  std::vector<std::int32_t> two = one;
  for (std::size_t pos = 95; pos < two.size(); ++pos) two[pos] = static_cast<std::int32_t>(14 + pos * 53 % 250);
  const auto cold = [&](const std::vector<std::int32_t>& ids) {
    auto cache = model.new_cache(model::KvType::F16);
    return model.logits(*cache, ids, 512);
  };
  const auto truth_one = cold(one), truth_two = cold(two);
  auto prefix = model.new_cache(model::KvType::F16);
  model.logits(*prefix, std::span(one).first(110), 512);
  auto second = must(prefix->fork(2, 95));
  auto first = must(prefix->fork(3, 110));
  for (std::size_t pos = 95; pos < two.size(); ++pos) {
    EXPECT_EQ(model.logits(*second, std::span(two).subspan(pos, 1), 1).front(), truth_two[pos]) << pos;
    if (pos < 110) continue;
    EXPECT_EQ(model.logits(*first, std::span(one).subspan(pos, 1), 1).front(), truth_one[pos]) << pos;
    EXPECT_EQ(model.logits(*prefix, std::span(one).subspan(pos, 1), 1).front(), truth_one[pos]) << pos;
  }
}

}  // namespace
}  // namespace ebb::tests
