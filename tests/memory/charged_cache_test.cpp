#include "memory/charged_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "support/must.h"

namespace ebb::memory {
namespace {

using tests::must;

/// Counts what lives, as a driver would.
class Thing {
 public:
  Thing(std::size_t bytes, std::size_t& live) : bytes_(bytes), live_(&live) { live += bytes; }
  Thing(Thing&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)), live_(other.live_) {}
  Thing& operator=(Thing&&) = delete;
  ~Thing() { *live_ -= bytes_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::size_t* live_;
};

struct CacheOfThings {
  explicit CacheOfThings(std::size_t entries, std::size_t bytes)
      : things(ledger.open(kHostMemory, Tag::Graphs, kEngineOwner), {entries, bytes}) {}

  Result<Thing*> add(int key, std::size_t bytes) {
    return things.add(key, bytes, [&]() -> Result<Thing> { return Thing(bytes, live); });
  }
  std::size_t charged() const { return ledger.snapshot().devices[kHostMemory].by_tag[static_cast<std::size_t>(Tag::Graphs)]; }

  Ledger ledger;
  std::size_t live = 0;
  ChargedCache<int, Thing> things;
};

TEST(ChargedCache, TheEntryUnusedForLongestMakesRoom) {
  CacheOfThings cache(3, 1000);
  for (const int key : {1, 2, 3}) must(cache.add(key, 10));
  EXPECT_NE(cache.things.find(1), nullptr);
  must(cache.add(4, 10));
  EXPECT_EQ(cache.things.find(2), nullptr);
  EXPECT_NE(cache.things.find(1), nullptr);
  cache.things.keep(1);
  EXPECT_NE(cache.things.find(1), nullptr);
  EXPECT_EQ(cache.things.size(), 1U);
}

// M17: the bound holds at every moment, whatever the size of one entry; what lives never passes what is charged.
TEST(ChargedCache, BoundsHoldForAnySizes) {
  CacheOfThings cache(8, 500);
  std::mt19937 dice(7);
  for (int key = 0; key < 2000; ++key) {
    const std::size_t bytes = dice() % 600;
    const Result<Thing*> added = cache.things.add(key, bytes, [&]() -> Result<Thing> {
      EXPECT_LE(cache.live + bytes, cache.charged());
      if (dice() % 5 == 0) return fail(ErrorCode::Io, "not today");
      return Thing(bytes, cache.live);
    });
    EXPECT_EQ(!added && added.error().code == ErrorCode::InvalidArgument, bytes > 500);
    ASSERT_LE(cache.things.bytes(), 500U);
    ASSERT_LE(cache.things.size(), 8U);
    ASSERT_EQ(cache.things.bytes(), cache.charged());
    ASSERT_EQ(cache.live, cache.charged());
  }
}

TEST(ChargedCache, AFullLedgerEmptiesItBeforeItRefuses) {
  CacheOfThings cache(8, 500);
  for (const int key : {1, 2, 3}) must(cache.add(key, 100));
  cache.ledger.set_limit(kHostMemory, 350);
  must(cache.add(4, 200));
  EXPECT_EQ(cache.charged(), 300U);
  const Result<Thing*> refused = cache.add(5, 400);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(refused.error().memory.value().wanted_bytes, 400U);
  EXPECT_EQ(cache.live, 0U);
  must(cache.add(5, 350));
}

TEST(ChargedCache, WhatCannotBeMadeIsNotCharged) {
  CacheOfThings cache(2, 100);
  const auto broken = cache.things.add(1, 50, []() -> Result<Thing> { return fail(ErrorCode::Io, "broken"); });
  EXPECT_EQ(broken.error().message, "broken");
  EXPECT_EQ(cache.charged(), 0U);
  EXPECT_EQ(cache.things.find(1), nullptr);
}

}  // namespace
}  // namespace ebb::memory
