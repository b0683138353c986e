// Shared prefixes and the wiping of pages that change hands, on a fake card.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "memory/page_pool.h"
#include "memory/region.h"

namespace ebb::memory {
namespace {

using device::FakeCall;

constexpr std::size_t kPage = 4 * kKiB;

class Sharing : public testing::Test {
 protected:
  Region reserve(OwnerId owner) { return Region::reserve(pool, Tag::KvGlobal, owner, 32 * kPage).value(); }
  Region filled(OwnerId owner, std::size_t page_count) {
    Region region = reserve(owner);
    EXPECT_TRUE(region.resize(page_count * kPage));
    for (std::size_t i = 0; i < page_count; ++i) region.data()[i * kPage + 9] = static_cast<std::byte>(owner * 16 + i);
    return region;
  }
  void fail(FakeCall call, std::uint64_t nth, std::uint64_t count) {
    device::FakeSettings settings;
    settings.fail.emplace(device::FailRule{call, nth, count});
    card->apply(settings);
  }
  std::size_t tagged(Tag tag) const {
    return ledger.snapshot().devices[pool.ledger_device()].by_tag[static_cast<std::size_t>(tag)];
  }

  std::unique_ptr<device::FakeDevice> card = device::FakeDevice::open(64 * kPage, kPage).value();
  Ledger ledger;
  PagePool pool{*card, ledger, PoolOptions{.keep_free_pages = 4}};
};

TEST_F(Sharing, ASharedPageIsSeenTwiceAndCountsOnce) {
  Region source = filled(1, 5);
  Region fork = reserve(2);
  ASSERT_TRUE(fork.share_front(source, 3 * kPage + 17));  // whole pages only
  EXPECT_EQ(fork.committed_bytes(), 3 * kPage);
  EXPECT_EQ(fork.data()[2 * kPage + 9], source.data()[2 * kPage + 9]);
  EXPECT_EQ(card->status().ours_bytes, 5 * kPage);
  EXPECT_EQ(card->status().live_mappings, 8u);
  EXPECT_EQ(tagged(Tag::Prefix), 3 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(kEngineOwner), 3 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 2 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 0u);
  EXPECT_EQ(pool.stats().shared_pages, 3u);
  EXPECT_EQ(pool.stats().mapped_pages, 5u);
  ASSERT_TRUE(fork.resize(6 * kPage));
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 3 * kPage);
  pool.check_invariants();
}

// M9: whoever goes takes what is his; the last holder gets the charge back.
TEST_F(Sharing, TheLastHolderIsChargedAgain) {
  Region source = filled(1, 4);
  Region second = reserve(2);
  Region third = reserve(3);
  ASSERT_TRUE(second.share_front(source, 4 * kPage));
  ASSERT_TRUE(third.share_front(second, 2 * kPage));
  source = Region();
  pool.check_invariants();
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 2 * kPage);
  EXPECT_EQ(tagged(Tag::Prefix), 2 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 0u);
  ASSERT_TRUE(second.resize(kPage));
  pool.check_invariants();
  EXPECT_EQ(ledger.snapshot().owner_bytes(3), kPage);
  second = Region();
  EXPECT_EQ(ledger.snapshot().owner_bytes(3), 2 * kPage);
  EXPECT_EQ(third.data()[kPage + 9], std::byte{17});
  EXPECT_EQ(tagged(Tag::Prefix), 0u);
  third = Region();
  pool.trim();
  EXPECT_EQ(card->status().ours_bytes, 0u);
  pool.check_invariants();
}

TEST_F(Sharing, MakingPrivateCopiesAndLeavesTheOtherAlone) {
  Region source = filled(1, 5);
  Region fork = reserve(2);
  ASSERT_TRUE(fork.share_front(source, 5 * kPage));
  std::byte* const address = fork.data();
  ASSERT_TRUE(fork.make_private(2 * kPage + 1));
  EXPECT_EQ(fork.data(), address);
  EXPECT_EQ(tagged(Tag::Prefix), 2 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(2), 3 * kPage);
  EXPECT_EQ(ledger.snapshot().owner_bytes(1), 3 * kPage);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(fork.data()[i * kPage + 9], static_cast<std::byte>(16 + i));
  fork.data()[3 * kPage + 9] = std::byte{200};
  EXPECT_EQ(source.data()[3 * kPage + 9], std::byte{19});
  const auto calls = card->status().calls;
  ASSERT_TRUE(fork.make_private(2 * kPage));
  EXPECT_EQ(card->status().calls, calls);
  pool.check_invariants();
}

// B6 for make_private: whatever call fails, the contents are as before and the books agree.
TEST_F(Sharing, AFailureWhileMakingPrivateKeepsTheContents) {
  Region source = filled(1, 4);
  int failures = 0;
  for (const FakeCall call : {FakeCall::Reserve, FakeCall::Create, FakeCall::Map, FakeCall::Access, FakeCall::Unmap,
                              FakeCall::Copy}) {
    for (std::uint64_t nth = 1; nth <= 9; ++nth) {
      Region fork = reserve(2);
      ASSERT_TRUE(fork.share_front(source, 4 * kPage));
      fail(call, nth, 1);
      if (!fork.make_private(0)) ++failures;
      pool.check_invariants();
      ASSERT_EQ(fork.committed_bytes(), 4 * kPage);
      for (std::size_t i = 0; i < 4; ++i) {
        ASSERT_EQ(fork.data()[i * kPage + 9], static_cast<std::byte>(16 + i));
        ASSERT_EQ(source.data()[i * kPage + 9], static_cast<std::byte>(16 + i));
      }
      fail(call, 1000, 1);
      fork = Region();
      pool.trim();
      ASSERT_EQ(card->status().ours_bytes, 4 * kPage);
    }
  }
  EXPECT_GE(failures, 6);  // each kind at least once
}

TEST_F(Sharing, ARegionThatCannotComeBackEndsBeforeWhatItLost) {
  Region source = filled(1, 4);
  Region fork = reserve(2);
  ASSERT_TRUE(fork.share_front(source, 3 * kPage));
  ASSERT_TRUE(fork.resize(5 * kPage));
  fail(FakeCall::Map, 3, 100);  // two copies are mapped; then neither the new pages nor the old ones
  EXPECT_FALSE(fork.make_private(kPage));
  EXPECT_EQ(fork.committed_bytes(), kPage);
  EXPECT_EQ(fork.data()[9], std::byte{16});
  pool.check_invariants();
}

TEST_F(Sharing, ASharedPageGivenUpIsNotTakenBackByGrowing) {
  Region source = filled(1, 4);
  Region fork = reserve(2);
  ASSERT_TRUE(fork.share_front(source, 4 * kPage));
  card->hold_fences(true);
  ASSERT_TRUE(source.resize(kPage));
  ASSERT_TRUE(source.resize(4 * kPage));
  source.data()[3 * kPage + 9] = std::byte{99};
  EXPECT_EQ(fork.data()[3 * kPage + 9], std::byte{19});
  pool.check_invariants();
}

TEST_F(Sharing, ARefusedShareLeavesTheRegionEmpty) {
  Region source = filled(1, 4);
  Region fork = reserve(2);
  for (const FakeCall call : {FakeCall::Map, FakeCall::Access}) {
    fail(call, 1, 1);
    EXPECT_FALSE(fork.share_front(source, 4 * kPage));
    EXPECT_EQ(fork.committed_bytes(), 0u);
    EXPECT_EQ(tagged(Tag::Prefix), 0u);
    pool.check_invariants();
  }
  EXPECT_TRUE(fork.share_front(source, 4 * kPage));
}

bool is_zero(const std::byte* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte value) { return value == std::byte{0}; });
}

// S7 at the level of pages: what one chat wrote is never seen by the next.
TEST_F(Sharing, APageThatChangesHandsIsWipedAndOneThatDoesNotIsNot) {
  Region first = filled(1, 3);
  ASSERT_TRUE(first.resize(0));
  Region second = reserve(2);
  const auto creates = card->status().calls_of(FakeCall::Create);
  ASSERT_TRUE(second.resize(2 * kPage));
  EXPECT_EQ(card->status().calls_of(FakeCall::Create), creates);  // the same pages, out of the pool
  EXPECT_TRUE(is_zero(second.data(), 2 * kPage));
  const auto fills = card->status().calls_of(FakeCall::Copy);
  ASSERT_TRUE(first.resize(kPage));
  EXPECT_EQ(card->status().calls_of(FakeCall::Copy), fills);
}

TEST_F(Sharing, APageThatCouldNotBeWipedIsNotHandedOut) {
  Region first = filled(1, 3);
  ASSERT_TRUE(first.resize(0));
  Region second = reserve(2);
  fail(FakeCall::Copy, 2, 1);
  EXPECT_EQ(second.resize(3 * kPage).error().code, ErrorCode::Io);
  EXPECT_EQ(second.committed_bytes(), 0u);
  pool.check_invariants();
  ASSERT_TRUE(second.resize(3 * kPage));
  EXPECT_TRUE(is_zero(second.data(), 3 * kPage));
}

}  // namespace
}  // namespace ebb::memory
