// Units on fake cards, whose own counters are what is believed.
// M13 (class), for weights. The class is every device call that placing makes, each failing at each position, and the
// device lost at each position. Cases: reserve, create, map, access, copy, lost, while a unit comes in, on its own and
// while it leaves another card. A unit is one handle, so the first position is the only one but for copies: one a tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "support/must.h"
#include "weights/weight_store.h"

namespace ebb::weights {
namespace {

using device::FakeCall;
using tests::must;

constexpr std::size_t kPage = 4 * kKiB;
constexpr std::size_t kLayers = 6;

class Cards {
 public:
  explicit Cards(const char* file = "gguf/t0-base-f32.gguf") {
    host_device_ = must(device::HostDevice::open());
    host_ = std::make_unique<memory::PagePool>(*host_device_, ledger_);
    for (std::size_t idx = 0; idx < 2; ++idx) {
      cards_.push_back(must(device::FakeDevice::open(64 * kMiB, kPage)));
      pools_.push_back(std::make_unique<memory::PagePool>(*cards_.back(), ledger_));
    }
    store_ = must(WeightStore::open(std::filesystem::path(EBB_VECTORS_DIR) / file, *host_));
  }
  [[nodiscard]] WeightStore& store() { return *store_; }
  [[nodiscard]] memory::PagePool& host() { return *host_; }
  [[nodiscard]] memory::PagePool& pool(std::size_t idx) { return *pools_[idx]; }
  [[nodiscard]] device::FakeDevice& card(std::size_t idx) { return *cards_[idx]; }
  [[nodiscard]] std::size_t ours(std::size_t idx) {
    pool(idx).trim();
    return card(idx).status().ours_bytes;
  }
  [[nodiscard]] std::size_t weight_bytes(const memory::PagePool& pool) const {
    return ledger_.snapshot().devices[pool.ledger_device()].by_tag[static_cast<std::size_t>(memory::Tag::Weights)];
  }
  void fail(std::size_t idx, FakeCall call, std::uint64_t nth) {
    device::FakeSettings settings;
    settings.fail = device::FailRule{call, nth, 1};
    card(idx).apply(settings);
  }
  void heal(std::size_t idx) {
    device::FakeSettings settings;
    settings.fail.emplace(std::nullopt);
    card(idx).apply(settings);
  }

 private:
  std::unique_ptr<device::HostDevice> host_device_;
  std::vector<std::unique_ptr<device::FakeDevice>> cards_;
  memory::Ledger ledger_;
  std::unique_ptr<memory::PagePool> host_;
  std::vector<std::unique_ptr<memory::PagePool>> pools_;
  std::unique_ptr<WeightStore> store_;
};

std::vector<std::byte> bytes_of(const TensorView& view) { return {view.data, view.data + view.bytes()}; }

std::vector<UnitId> movable_units() {
  std::vector<UnitId> units = {kOutputUnit};
  for (std::size_t idx = 0; idx < kLayers; ++idx) units.push_back(layer_unit(idx));
  return units;
}

TEST(Placement, CommitsWhatWasSaidBeforehand) {
  Cards cards;
  for (const UnitId unit : movable_units()) {
    const std::size_t before = cards.ours(0);
    must(cards.store().place(unit, cards.pool(0)));
    EXPECT_EQ(cards.ours(0) - before, round_up(cards.store().unit_bytes(unit, device::Kind::Fake), kPage));
    EXPECT_EQ(cards.weight_bytes(cards.pool(0)), cards.ours(0));
  }
}

TEST(Placement, TheHostReadsMatricesInTheMappingAndHoldsNormsOnly) {
  Cards cards;
  must(cards.store().place(kEmbeddingUnit, cards.host()));
  EXPECT_EQ(cards.weight_bytes(cards.host()), 0U);
  must(cards.store().place(layer_unit(0), cards.host()));
  // Four norms of the residual stream's 64 columns and two of a head's 16, each a float, at multiples of 64 bytes.
  EXPECT_EQ(cards.store().unit_bytes(layer_unit(0), device::Kind::Host), 4U * 64 * 4 + 2 * 16 * 4);
  EXPECT_EQ(cards.weight_bytes(cards.host()), cards.host().page_bytes());
}

TEST(Placement, ATiedHeadIsACopyOnACardAndTheTableItselfOnTheHost) {
  Cards cards;
  must(cards.store().place(kEmbeddingUnit, cards.host()));
  must(cards.store().place(kOutputUnit, cards.host()));
  EXPECT_EQ(cards.store().matrix(Part::Head).data, cards.store().matrix(Part::Embedding).data);
  must(cards.store().place(kOutputUnit, cards.pool(0)));
  EXPECT_NE(cards.store().matrix(Part::Head).data, cards.store().matrix(Part::Embedding).data);
  EXPECT_EQ(bytes_of(cards.store().matrix(Part::Head)), bytes_of(cards.store().matrix(Part::Embedding)));
}

TEST(Placement, AUnitThatComesBackHasItsAddressAndItsBytes) {
  Cards cards;
  for (const UnitId unit : movable_units()) {
    const Part part = unit == kOutputUnit ? Part::Head : Part::FfnUp;
    must(cards.store().place(unit, cards.pool(0)));
    const TensorView first = cards.store().matrix(part, unit.layer_idx);
    const std::vector<std::byte> bytes = bytes_of(first);
    must(cards.store().place(unit, cards.pool(1)));
    EXPECT_EQ(cards.ours(0), 0U);
    EXPECT_EQ(bytes_of(cards.store().matrix(part, unit.layer_idx)), bytes);
    must(cards.store().place(unit, cards.host()));
    EXPECT_EQ(cards.ours(1), 0U);
    must(cards.store().place(unit, cards.pool(0)));
    EXPECT_EQ(cards.store().matrix(part, unit.layer_idx).data, first.data);
    EXPECT_EQ(bytes_of(cards.store().matrix(part, unit.layer_idx)), bytes);
    cards.store().evict(unit);
    EXPECT_EQ(cards.ours(0), 0U);
    EXPECT_EQ(cards.store().place_of(unit), nullptr);
  }
}

// B4: what cannot fit is refused with numbers and maps nothing.
TEST(Placement, RefusesWhatDoesNotFitAndMapsNothing) {
  Cards cards;
  const std::size_t needed = round_up(cards.store().unit_bytes(layer_unit(0), device::Kind::Fake), kPage);
  device::FakeSettings settings;
  settings.total_bytes = needed * 4;
  settings.others_bytes = needed * 4 * 4 / 5;  // 80 % held by another
  cards.card(0).apply(settings);
  const Status placed = cards.store().place(layer_unit(0), cards.pool(0));
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(placed.error().memory);
  EXPECT_EQ(placed.error().memory->wanted_bytes, needed);
  EXPECT_EQ(placed.error().memory->free_bytes, needed * 4 - needed * 4 * 4 / 5);
  EXPECT_EQ(cards.card(0).status().calls_of(FakeCall::Map), 0U);
  EXPECT_EQ(cards.ours(0), 0U);
  EXPECT_EQ(cards.store().place_of(layer_unit(0)), nullptr);
}

TEST(Placement, AFailingCallLeavesTheUnitWhereItWasAndALaterTryWorks) {
  std::size_t failures = 0;
  for (const FakeCall call : {FakeCall::Reserve, FakeCall::Create, FakeCall::Map, FakeCall::Access, FakeCall::Copy}) {
    for (const bool comes_from_card : {false, true}) {
      for (std::uint64_t nth = 1;; ++nth) {
        Cards cards;
        if (comes_from_card) must(cards.store().place(layer_unit(2), cards.pool(1)));
        memory::PagePool* const was = cards.store().place_of(layer_unit(2));
        const std::size_t held = cards.ours(1);
        cards.fail(0, call, nth);
        const Status placed = cards.store().place(layer_unit(2), cards.pool(0));
        if (placed) break;
        ++failures;
        EXPECT_EQ(cards.store().place_of(layer_unit(2)), was);
        EXPECT_EQ(cards.ours(0), 0U) << static_cast<int>(call) << " " << nth;
        EXPECT_EQ(cards.ours(1), held);
        EXPECT_EQ(cards.weight_bytes(cards.pool(0)), 0U);
        must(cards.store().place(layer_unit(2), cards.pool(0)));
        EXPECT_EQ(cards.ours(1), 0U);
        Cards whole;
        must(whole.store().place(layer_unit(2), whole.host()));
        EXPECT_EQ(bytes_of(cards.store().matrix(Part::AttnOutput, 2)), bytes_of(whole.store().matrix(Part::AttnOutput, 2)));
      }
    }
  }
  EXPECT_EQ(failures, 2U * (1 + 1 + 1 + 13));  // a layer has thirteen tensors; refused addresses are found elsewhere
}

// X6: whatever call finds the device gone, the error says so and everything can be destroyed.
TEST(Placement, ALostDeviceIsAnError) {
  std::uint64_t nth = 1;
  for (;; ++nth) {
    Cards cards;
    cards.fail(0, FakeCall::Lost, nth);
    const Status placed = cards.store().place(layer_unit(2), cards.pool(0));
    if (placed) break;
    EXPECT_EQ(placed.error().code, ErrorCode::DeviceLost);
    EXPECT_EQ(cards.store().place_of(layer_unit(2)), nullptr);
  }
  EXPECT_GT(nth, 13U);
}

}  // namespace
}  // namespace ebb::weights
