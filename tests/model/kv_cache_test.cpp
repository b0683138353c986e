#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expected_tensors.h"
#include "support/loaded_model.h"

namespace ebb::tests {
namespace {

std::filesystem::path tiny() { return std::filesystem::path(EBB_VECTORS_DIR) / "text" / "t0-base"; }

std::vector<std::int32_t> some_ids(std::size_t count) {
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < count) ids.push_back(static_cast<std::int32_t>(14 + ids.size() * 37 % 250));
  return ids;
}

// S1: an answer taken back and given again equals one that was never given, though windowed layers had moved on.
TEST(KvCache, RewindRestoresEveryWindow) {
  LoadedModel loaded(tiny(), model::Arithmetic::Exact);
  const std::vector<std::int32_t> ids = some_ids(120);
  const auto truth = [&] {
    auto cache = loaded.new_cache(model::KvType::F32);
    return loaded.logits(*cache, ids, 512);
  }();
  auto cache = loaded.new_cache(model::KvType::F32);
  for (const std::size_t chunk_tokens : {std::size_t{1}, std::size_t{50}}) {
    loaded.logits(*cache, std::span(ids).subspan(cache->length()), chunk_tokens);
    for (const std::size_t keep : {std::size_t{119}, std::size_t{100}, std::size_t{60}}) {
      ASSERT_TRUE(cache->can_rewind(keep)) << keep;
      must(cache->rewind(keep));
      const auto again = loaded.logits(*cache, std::span(ids).subspan(keep), chunk_tokens);
      for (std::size_t row = 0; row < again.size(); ++row) EXPECT_EQ(again[row], truth[keep + row]) << "row " << keep + row;
    }
  }
}

TEST(KvCache, RefusesToRewindPastItsRecord) {
  LoadedModel loaded(tiny(), model::Arithmetic::Exact);
  auto cache = loaded.new_cache(model::KvType::F32, 8);
  loaded.logits(*cache, some_ids(100), 512);
  EXPECT_TRUE(cache->can_rewind(92));
  EXPECT_FALSE(cache->can_rewind(91));
  EXPECT_TRUE(cache->can_rewind(0));
  must(cache->rewind(92));
  EXPECT_FALSE(cache->can_rewind(91)) << "the record does not grow by rewinding";
}

// M8: a short chat costs what it holds, whatever the context.
TEST(KvCache, GrowsWithTheChatAndShrinksToNothing) {
  LoadedModel loaded(tiny(), model::Arithmetic::Exact);
  auto cache = loaded.new_cache(model::KvType::F32);
  EXPECT_EQ(cache->committed_bytes(), 0U);
  loaded.logits(*cache, some_ids(40), 512);
  const std::size_t short_chat = cache->committed_bytes();
  loaded.logits(*cache, some_ids(1000), 512);
  EXPECT_GT(cache->committed_bytes(), short_chat);
  must(cache->rewind(0));
  EXPECT_EQ(cache->committed_bytes(), 0U);
}

TEST(KvCache, LocalBytesStopGrowingAtTheWindow) {
  LoadedModel loaded(tiny(), model::Arithmetic::Exact);
  auto cache = loaded.new_cache(model::KvType::F32, 0);
  const auto local_bytes = [&] {
    const memory::LedgerSnapshot snapshot = loaded.ledger().snapshot();
    return snapshot.devices[loaded.pool().ledger_device()].by_tag[static_cast<std::size_t>(memory::Tag::KvLocal)];
  };
  loaded.logits(*cache, some_ids(loaded.config().window_tokens), 512);
  const std::size_t full = local_bytes();
  loaded.logits(*cache, some_ids(2000), 512);
  EXPECT_EQ(local_bytes(), full);
}

}  // namespace
}  // namespace ebb::tests
