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
  weights.add(1000);
  first_kv.add(30);
  more_kv.add(4);
  other_kv.add(500);

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
  pooled.add(100);
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
    HostLease file(ledger, Tag::MappedFile, 7, 253113024);
    EXPECT_EQ(ledger.snapshot().devices[kHostMemory].by_tag[static_cast<std::size_t>(Tag::MappedFile)], 253113024u);
    HostLease moved = std::move(file);
    moved.resize(100);
    EXPECT_EQ(ledger.snapshot().owner_bytes(7), 100u);
    moved = HostLease(ledger, Tag::Cache, 7, 5);
    EXPECT_EQ(ledger.snapshot().owner_bytes(7), 5u);
  }
  EXPECT_EQ(ledger.snapshot().owner_bytes(7), 0u);
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
        charge.add(17);
      },
      "a charge ends with 17 bytes of owner 3");
}

TEST(LedgerDeathTest, AssigningOverAChargeThatIsNotZeroStops) {
  Ledger ledger;
  Charge charge = ledger.open(kHostMemory, Tag::Other, 3);
  charge.add(17);
  EXPECT_DEATH(charge = Charge(), "a charge ends with 17 bytes");
  charge.remove(17);
}

TEST(LedgerDeathTest, RemovingMoreThanWasAddedStops) {
  Ledger ledger;
  Charge charge = ledger.open(kHostMemory, Tag::Other, 3);
  charge.add(1);
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
