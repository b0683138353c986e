#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv_rig.h"

namespace ebb::tests {
namespace {

std::vector<std::byte> saved(model::KvCache& cache) {
  std::vector<std::byte> bytes;
  for (const std::span<std::byte> part : cache.contents()) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

/// Whether the bytes are as many as the cache asks for.
bool fill(model::KvCache& cache, std::span<const std::byte> bytes) {
  for (const std::span<std::byte> part : cache.contents()) {
    if (bytes.size() < part.size()) return false;
    std::copy_n(bytes.begin(), part.size(), part.begin());
    bytes = bytes.subspan(part.size());
  }
  return bytes.empty();
}

TEST(KvContents, CarryAConversationToAnotherPlacement) {
  KvRig rig;
  for (const std::size_t tokens : {std::size_t{1}, std::size_t{32}, std::size_t{40}, std::size_t{63}, std::size_t{250}}) {
    SCOPED_TRACE(tokens);
    auto cache = rig.create(1);
    rig.append(*cache, tokens, 1);
    model::KvPools other = rig.homes();
    std::fill(other.layers.begin(), other.layers.end(), other.layers.front());
    auto loaded = must(model::KvCache::create(other, 2, rig.config(), rig_options()));
    must(loaded->prepare(cache->extent()));
    EXPECT_TRUE(loaded->parked());
    EXPECT_EQ(loaded->device_bytes(), 0U);
    ASSERT_TRUE(fill(*loaded, saved(*cache)));
    EXPECT_TRUE(rig.holds(*loaded, 1));
    EXPECT_EQ(saved(*loaded), saved(*cache));
    EXPECT_EQ(model::KvCache::contents_bytes(rig.config(), rig_options(), cache->extent()), saved(*cache).size());
    rig.append(*loaded, 9, 1);
    EXPECT_TRUE(rig.holds(*loaded, 1));
    EXPECT_GT(loaded->device_bytes(), 0U);
    for (const std::size_t back : {std::size_t{0}, std::size_t{10}}) {
      if (back + 9 > tokens) continue;
      ASSERT_TRUE(loaded->can_rewind(tokens - back));
      must(loaded->rewind(tokens - back));
      EXPECT_TRUE(rig.holds(*loaded, 1));
    }
  }
}

TEST(KvContents, LeaveOutWhatWasTakenBack) {
  KvRig rig;
  auto once = rig.create(1), twice = rig.create(2);
  rig.append(*once, 120, 1);
  rig.append(*twice, 120, 1);
  rig.append(*twice, 10, 2);
  must(twice->rewind(120));
  // The record of the second chat may begin later; what both hold must be the same bytes.
  once->drop_record();
  twice->drop_record();
  EXPECT_EQ(saved(*once), saved(*twice));
}

TEST(KvContents, ADroppedRecordStaysDropped) {
  KvRig rig;
  auto cache = rig.create(1), loaded = rig.create(2);
  rig.append(*cache, 200, 1);
  cache->drop_record();
  rig.append(*cache, 3, 1);
  must(loaded->prepare(cache->extent()));
  ASSERT_TRUE(fill(*loaded, saved(*cache)));
  EXPECT_TRUE(loaded->can_rewind(200));
  EXPECT_FALSE(loaded->can_rewind(199));
  must(loaded->rewind(200));
  EXPECT_TRUE(rig.holds(*loaded, 1));
}

TEST(KvContents, AnExtentThatCannotBeIsRefused) {
  KvRig rig;
  auto cache = rig.create(1);
  const std::vector<std::size_t> empty = rig.floor();
  // Longer than the context; a record that begins past its end, before its base, or is longer than options allow.
  for (const model::KvExtent extent :
       {model::KvExtent{401, 360, 0}, {100, 61, 0}, {100, 50, 51}, {100, 35, 0}, {40, 1, 0}, {SIZE_MAX, SIZE_MAX - 40, 0}}) {
    const Status refused = cache->prepare(extent);
    ASSERT_FALSE(refused) << extent.length << ' ' << extent.first_kept;
    EXPECT_EQ(refused.error().code, ErrorCode::BadFile);
    EXPECT_EQ(cache->committed_bytes(), 0U);
    EXPECT_FALSE(cache->parked());
  }
  EXPECT_EQ(rig.floor(), empty);
  rig.append(*cache, 50, 1);
  EXPECT_TRUE(rig.holds(*cache, 1));
}

TEST(KvContents, NoRoomLeavesTheCacheEmpty) {
  KvRig rig;
  auto cache = rig.create(1);
  rig.append(*cache, 200, 1);
  auto loaded = rig.create(2);
  const std::vector<std::size_t> before = rig.floor();
  for (std::uint64_t nth = 1;; ++nth) {
    device::FakeSettings settings;
    settings.fail.emplace(device::FailRule{device::FakeCall::Create, nth, 1});
    rig.host().apply(settings);
    const Status sized = loaded->prepare(cache->extent());
    settings.fail.emplace(std::nullopt);
    rig.host().apply(settings);
    if (sized) break;
    EXPECT_EQ(sized.error().code, ErrorCode::OutOfMemory);
    EXPECT_EQ(rig.floor(), before) << "create " << nth;
    EXPECT_EQ(loaded->length(), 0U);
  }
  ASSERT_TRUE(fill(*loaded, saved(*cache)));
  EXPECT_TRUE(rig.holds(*loaded, 1));
}

// S7, and what sessions on disk (S3) stand on: logits after a load are those of a chat that was never saved.
TEST(KvContents, ALoadedConversationContinuesToTheSameBits) {
  LoadedModel model(std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base", model::Arithmetic::Exact);
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < 130) ids.push_back(static_cast<std::int32_t>(14 + ids.size() * 37 % 250));
  for (const model::KvType type : {model::KvType::F32, model::KvType::F16}) {
    auto never_saved = model.new_cache(type), cache = model.new_cache(type), loaded = model.new_cache(type);
    const auto truth = model.logits(*never_saved, ids, 512);
    model.logits(*cache, std::span(ids).first(100), 33);
    must(loaded->prepare(cache->extent()));
    ASSERT_TRUE(fill(*loaded, saved(*cache)));
    const auto after = model.logits(*loaded, std::span(ids).subspan(100), 7);
    for (std::size_t row = 0; row < after.size(); ++row) EXPECT_EQ(after[row], truth[100 + row]) << row;
    must(loaded->rewind(90));  // regenerate after a load costs what it costs without one (S1)
    const auto again = model.logits(*loaded, std::span(ids).subspan(90), 7);
    for (std::size_t row = 0; row < again.size(); ++row) EXPECT_EQ(again[row], truth[90 + row]) << row;
  }
}

}  // namespace
}  // namespace ebb::tests
