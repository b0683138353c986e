// Where layers are at home and where their weights lie changes no bit of any answer.
// D4 (the model's half: what moves, and when, is the engine's), M4, M7, M11.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/split_model.h"

namespace ebb::tests {
namespace {

using model::Arithmetic;
using weights::layer_unit;

const std::vector<Homes>& all_homes() {
  static const std::vector<Homes> kHomes = {
      {{0, 0, 0, 0, 0, 0}, 0},                  // one card
      {{0, 0, 1, 1, 2, 2}, 2},                  // three in order
      {{0, 1, 0, 1, 0, 1}, 2},                  // every border, and an output of its own
      {{kHost, kHost, 0, 0, 1, 1}, 1},          // first layers on the host
      {{0, kHost, kHost, 1, 1, kHost}, kHost},  // host in the middle and at the end
  };
  return kHomes;
}

TEST(Homes, LogitsAreTheSameToTheBit) {
  const std::vector<std::int32_t> ids = some_ids();
  const model::ModelOptions exact{Arithmetic::Exact, 2, 64}, packed{Arithmetic::Quantized, 2, 64};
  for (const char* file : {"gguf/t0-base-q8_0.gguf", "text/t4-untied-13"}) {
    for (const model::ModelOptions& options : {exact, packed}) {
      const Logits wanted = host_logits(ids, 64, file, options);
      for (const Homes& homes : all_homes()) {
        SplitModel split(homes, file, options);
        must(split.load());
        for (const std::size_t chunk_tokens : {std::size_t{64}, std::size_t{7}}) {
          const auto cache = split.new_cache();
          EXPECT_EQ(split.logits(*cache, ids, chunk_tokens), wanted) << file << " in chunks of " << chunk_tokens;
        }
      }
    }
  }
}

// D4: between any two steps a unit goes to the host or comes home, under the address it had.
TEST(Homes, WeightsMoveInTheMiddleOfAConversation) {
  const std::vector<std::int32_t> ids = some_ids();
  const Logits wanted = host_logits(ids);
  SplitModel split;
  must(split.load());
  std::vector<weights::UnitId> units = {weights::kOutputUnit};
  for (std::size_t idx = 0; idx < 6; ++idx) units.push_back(layer_unit(idx));
  const std::byte* const address = split.store().matrix(weights::Part::FfnUp, 3).data;
  const std::size_t loaded_bytes = split.ours();

  const auto cache = split.new_cache();
  Logits rows;
  for (std::size_t pos = 0; pos < ids.size(); ++pos) {
    const weights::UnitId unit = units[pos % units.size()];
    memory::PagePool* const home = unit == weights::kOutputUnit ? &split.pool(2) : &split.pool(unit.layer_idx / 2);
    memory::PagePool& to = split.model().weights_at(unit) == home ? split.pool(kHost) : *home;
    must(split.model().move_weights(unit, to));
    EXPECT_EQ(split.model().weights_at(unit), &to);
    must(split.forward(*cache, std::span(ids).subspan(pos, 1), rows));
  }
  EXPECT_EQ(rows, wanted);
  for (const weights::UnitId unit : units) must(split.model().move_weights(unit, split.pool(kHost)));
  EXPECT_EQ(split.tag_bytes(memory::Tag::Weights), 7 * split.pool(kHost).page_bytes());  // norms, a page a unit
  for (const weights::UnitId unit : units) {
    must(split.model().move_weights(unit, unit == weights::kOutputUnit ? split.pool(2) : split.pool(unit.layer_idx / 2)));
  }
  EXPECT_EQ(split.store().matrix(weights::Part::FfnUp, 3).data, address);
  split.model().release_scratch();
  EXPECT_EQ(split.ours() - cache->device_bytes(), loaded_bytes);
}

// M7, M11: nothing of the model is left on any card while it is away, twenty times over, and the chat goes on.
TEST(Homes, UnloadingLeavesNothingAndLoadingBringsTheSameBack) {
  const std::vector<std::int32_t> ids = some_ids();
  const Logits wanted = host_logits(ids);
  SplitModel split;
  must(split.load());
  must(split.model().move_weights(layer_unit(4), split.pool(kHost)));
  const std::size_t loaded_bytes = split.ours();
  const auto cache = split.new_cache();
  Logits rows;
  for (std::size_t cycle = 0; cycle < 20; ++cycle) {
    split.model().unload_weights();
    split.model().release_scratch();
    EXPECT_FALSE(split.model().loaded());
    EXPECT_EQ(split.model().weights_at(layer_unit(0)), nullptr);
    EXPECT_EQ(split.tag_bytes(memory::Tag::Weights), 0U);
    EXPECT_EQ(split.tag_bytes(memory::Tag::Scratch), 0U);
    EXPECT_EQ(split.ours(), cache->device_bytes());
    must(split.model().load_weights());
    EXPECT_EQ(split.ours() - cache->device_bytes(), loaded_bytes);
    EXPECT_EQ(split.model().weights_at(layer_unit(4)), &split.pool(kHost));
    must(split.forward(*cache, std::span(ids).subspan(cycle * 2, 2), rows));
  }
  EXPECT_EQ(rows, Logits(wanted.begin(), wanted.begin() + 40));
}

TEST(Homes, TwentyModelsLoadedAndDroppedLeaveNothing) {
  SplitModel split;
  for (std::size_t cycle = 0; cycle < 20; ++cycle) {
    must(split.load());
    const auto cache = split.new_cache();
    static_cast<void>(split.logits(*cache, some_ids(4), 4));
    split.drop();
  }
  EXPECT_EQ(split.ours(), 0U);
  EXPECT_EQ(split.tag_bytes(memory::Tag::Weights), 0U);
  EXPECT_EQ(split.tag_bytes(memory::Tag::Scratch), 0U);
}

// M4: steps that grow a row at a time never hold two sizes at once, and the size is the one that was planned.
TEST(Homes, ScratchIsTheLargestNeedAndNeverMore) {
  SplitModel split;
  must(split.load());
  const model::Config& config = split.model().config();
  const auto cache = split.new_cache();
  const auto planned = [&](std::size_t rows, std::size_t logit_rows) {
    std::size_t bytes = 0;
    for (const bool has_output : {false, false, true}) {
      bytes += round_up(model::Model::scratch_footprint(config, split.model().options(), cache->options().widest(), rows,
                                                        logit_rows, has_output, device::Kind::Fake),
                        SplitModel::kPage);
    }
    return bytes;
  };
  const auto no_sink = [](std::size_t, std::span<const float>) {};
  for (std::size_t rows = 1; rows <= 32; ++rows) {
    must(split.model().forward(*cache, some_ids(rows), rows - 1, no_sink));
    EXPECT_EQ(split.model().scratch_bytes(), planned(rows, 1));
    EXPECT_EQ(split.tag_bytes(memory::Tag::Scratch), planned(rows, 1));
    must(split.model().forward(*cache, some_ids(1), 0, no_sink));
  }
  std::size_t peak = 0;
  for (std::size_t idx = 0; idx < SplitModel::kCards; ++idx) peak += split.card(idx).status().ours_peak_bytes;
  EXPECT_EQ(peak, split.ours());  // nothing was given back, so the peak is what is held now

  split.model().set_chunk_tokens(8);
  EXPECT_EQ(split.model().scratch_bytes(), planned(8, 1));
  must(split.model().forward(*cache, some_ids(8), 0, no_sink));
  EXPECT_EQ(split.model().scratch_bytes(), planned(8, 8));
  split.model().set_chunk_tokens(64);
  EXPECT_EQ(split.model().options().chunk_tokens, 64U);
  split.model().release_scratch();
  EXPECT_EQ(split.model().scratch_bytes(), 0U);
}

// B4: a file that the model cannot use is refused before a card is touched.
TEST(Homes, AWrongShapeIsFoundBeforeAnythingIsPlaced) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "ebb-wrong-shape";
  fs::remove_all(folder);
  fs::copy(fs::path(EBB_VECTORS_DIR) / "text" / "t0-base", folder);
  auto config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  config["intermediate_size"] = config.at("intermediate_size").get<std::size_t>() * 2;
  std::ofstream(folder / "config.json") << config;
  {
    SplitModel split({}, folder);
    const Status loaded = split.load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::BadFile);
    for (std::size_t idx = 0; idx < SplitModel::kCards; ++idx) {
      EXPECT_EQ(split.card(idx).status().calls_of(device::FakeCall::Reserve), 0U);
      EXPECT_EQ(split.card(idx).status().calls_of(device::FakeCall::Create), 0U);
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ebb::tests
