#include "memory/ledger.h"

#include <gtest/gtest.h>

#include <utility>

namespace ebb::memory {
namespace {

TEST(Ledger, SumsByTagAndByOwnerAreTheSumOfTheCharges) {
  Ledger ledger;
  const LedgerDevice gpu = ledger.add_device("gpu");
  Charge weights = ledger.open(gpu, Tag::Weights, kEngineOwner);
  Charge first_kv = ledger.open(gpu, Tag::KvGlobal, 1);
  Charge more_kv = ledger.open(gpu, Tag::KvGlobal, 1);
  Charge other_kv = ledger.open(gpu, Tag::KvLocal, 2);
  ASSERT_TRUE(weights.add(1000));
  ASSERT_TRUE(first_kv.add(30));
  ASSERT_TRUE(more_kv.add(4));
  ASSERT_TRUE(other_kv.add(500));

  const LedgerSnapshot snapshot = ledger.snapshot();
  ASSERT_EQ(snapshot.devices.size(), 2u);
  EXPECT_EQ(snapshot.devices[gpu].name, "gpu");
  EXPECT_EQ(snapshot.devices[gpu].owned_bytes, 1534u);
  EXPECT_EQ(snapshot.devices[gpu].by_tag[static_cast<std::size_t>(Tag::KvGlobal)], 34u);
  EXPECT_EQ(snapshot.owner_bytes(1), 34u);
  EXPECT_EQ(snapshot.owner_bytes(2), 500u);
  EXPECT_EQ(snapshot.entries.size(), 3u);  // two charges of one account are one entry
  weights.remove(1000);
  first_kv.remove(30);
  more_kv.remove(4);
  other_kv.remove(500);
  EXPECT_TRUE(ledger.snapshot().entries.empty());
}

TEST(Ledger, PeakIsTheHighestSumAndMovingDoesNotRaiseIt) {
  Ledger ledger;
  const LedgerDevice gpu = ledger.add_device("gpu");
  Charge pooled = ledger.open_pooled(gpu);
  Charge scratch = ledger.open(gpu, Tag::Scratch, kEngineOwner);
  ASSERT_TRUE(pooled.add(100));
  pooled.move_to(scratch, 60);
  LedgerSnapshot snapshot = ledger.snapshot();
  EXPECT_EQ(snapshot.devices[gpu].owned_bytes, 60u);
  EXPECT_EQ(snapshot.devices[gpu].pooled_bytes, 40u);
  EXPECT_EQ(snapshot.devices[gpu].peak_bytes, 100u);
  scratch.remove(60);
  ledger.reset_peak();
  EXPECT_EQ(ledger.snapshot().devices[gpu].peak_bytes, 40u);
  pooled.remove(40);
}

TEST(Ledger, HostLeaseCountsTheMappedFileUntilItIsDropped) {
  Ledger ledger;
  {
    HostLease file = HostLease::take(ledger, Tag::MappedFile, 7, 253113024).value();
    EXPECT_EQ(ledger.snapshot().devices[kHostMemory].by_tag[static_cast<std::size_t>(Tag::MappedFile)], 253113024u);
    HostLease moved = std::move(file);
    ASSERT_TRUE(moved.resize(100));
    EXPECT_EQ(ledger.snapshot().owner_bytes(7), 100u);
    moved = HostLease::take(ledger, Tag::Cache, 7, 5).value();
    EXPECT_EQ(ledger.snapshot().owner_bytes(7), 5u);
  }
  EXPECT_EQ(ledger.snapshot().owner_bytes(7), 0u);
}

TEST(Ledger, ALimitRefusesTheChargeThatPassesItAndNamesTheNumbers) {
  Ledger ledger;
  const LedgerDevice gpu = ledger.add_device("gpu");
  ledger.set_limit(gpu, 100);
  Charge pooled = ledger.open_pooled(gpu);
  Charge kv = ledger.open(gpu, Tag::KvGlobal, 1);
  ASSERT_TRUE(pooled.add(30));
  ASSERT_TRUE(kv.add(60));
  const Status refused = kv.add(11);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(refused.error().memory->wanted_bytes, 11u);
  EXPECT_EQ(refused.error().memory->free_bytes, 10u);
  EXPECT_EQ(refused.error().memory->reclaimable_bytes, 30u);
  EXPECT_EQ(refused.error().memory->tag, "kv_global");
  EXPECT_EQ(kv.bytes(), 60u);
  pooled.move_to(kv, 30);
  EXPECT_TRUE(kv.add(10));
  EXPECT_EQ(ledger.room(gpu), 0u);
  EXPECT_EQ(ledger.snapshot().devices[gpu].peak_bytes, 100u);
  kv.remove(100);
}

TEST(Ledger, ALowerLimitLetsWhatIsHeldStay) {
  Ledger ledger;
  HostLease lease = HostLease::take(ledger, Tag::Cache, 1, 50).value();
  ledger.set_limit(kHostMemory, 20);
  EXPECT_EQ(ledger.snapshot().devices[kHostMemory].limit_bytes, 20u);
  EXPECT_EQ(lease.bytes(), 50u);
  EXPECT_FALSE(lease.resize(51));
  EXPECT_EQ(lease.bytes(), 50u);
  EXPECT_TRUE(lease.resize(15));
  EXPECT_TRUE(lease.resize(20));
  EXPECT_FALSE(HostLease::take(ledger, Tag::Parked, 1, 1));
  ledger.set_limit(kHostMemory, std::nullopt);
  EXPECT_EQ(ledger.room(kHostMemory), std::nullopt);
  EXPECT_TRUE(lease.resize(1000));
}

TEST(Ledger, TheMappedFileDoesNotCountAgainstTheLimit) {
  Ledger ledger;
  ledger.set_limit(kHostMemory, 10);
  const HostLease file = HostLease::take(ledger, Tag::MappedFile, kEngineOwner, 1000).value();
  EXPECT_EQ(ledger.room(kHostMemory), 10u);
  const HostLease cache = HostLease::take(ledger, Tag::Cache, kEngineOwner, 10).value();
  EXPECT_EQ(ledger.room(kHostMemory), 0u);
}

TEST(Ledger, NamesEveryTagAsTheApiSpellsIt) {
  EXPECT_EQ(tag_name(Tag::Weights), "weights");
  EXPECT_EQ(tag_name(Tag::KvGlobal), "kv_global");
  EXPECT_EQ(tag_name(Tag::MappedFile), "mapped_file");
  EXPECT_EQ(tag_name(Tag::Other), "other");
}

TEST(LedgerDeathTest, DestroyingAChargeThatIsNotZeroStops) {
  EXPECT_DEATH(
      {
        Ledger ledger;
        Charge charge = ledger.open(kHostMemory, Tag::Other, 3);
        static_cast<void>(charge.add(17));
      },
      "a charge ends with 17 bytes of owner 3");
}

TEST(LedgerDeathTest, AssigningOverAChargeThatIsNotZeroStops) {
  Ledger ledger;
  Charge charge = ledger.open(kHostMemory, Tag::Other, 3);
  ASSERT_TRUE(charge.add(17));
  EXPECT_DEATH(charge = Charge(), "a charge ends with 17 bytes");
  charge.remove(17);
}

TEST(LedgerDeathTest, RemovingMoreThanWasAddedStops) {
  Ledger ledger;
  Charge charge = ledger.open(kHostMemory, Tag::Other, 3);
  ASSERT_TRUE(charge.add(1));
  EXPECT_DEATH(charge.remove(2), "2 of 1 bytes removed");
  charge.remove(1);
}

TEST(LedgerDeathTest, AChargeThatOutlivesItsLedgerStops) {
  EXPECT_DEATH(
      {
        Charge charge;
        Ledger ledger;
        charge = ledger.open(kHostMemory, Tag::Other, 3);
      },
      "1 accounts still have charges");
}

}  // namespace
}  // namespace ebb::memory
