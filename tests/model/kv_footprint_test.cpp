#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kv_rig.h"

namespace ebb::tests {
namespace {

using kernels::KvType;

constexpr std::size_t kCardPage = 2 * kMiB;

std::vector<std::size_t> all_layers(const model::Config& config) {
  std::vector<std::size_t> layers(config.layers);
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

model::KvOptions half_floats(std::size_t max_tokens) {
  return {{KvType::F16, KvType::F16}, {KvType::F16, KvType::F16}, max_tokens, 1024};
}

/// A published shape, and what its layers take a token: spec/gemma3 1.1, 1.2 and 1.4.
struct Shape {
  const char* name;
  std::size_t layers, kv_heads, head_dim, window_tokens;
  std::size_t global_layers;
  std::size_t layer_token_bytes;  // 16 bit
  std::size_t full_ring_bytes;    // all windowed layers
};

constexpr std::array kShapes = {
    Shape{"270M", 18, 1, 256, 512, 3, 1024, 15 * kMiB / 2}, Shape{"1B", 26, 1, 256, 512, 4, 1024, 11 * kMiB},
    Shape{"4B", 34, 4, 256, 1024, 5, 4096, 116 * kMiB},     Shape{"12B", 48, 8, 256, 1024, 8, 8192, 320 * kMiB},
    Shape{"27B", 62, 16, 128, 1024, 10, 8192, 416 * kMiB},
};

model::Config config_of(const Shape& shape) {
  model::Config config;
  config.layers = shape.layers;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.window_tokens = shape.window_tokens;
  for (std::size_t layer_idx = 0; layer_idx < shape.layers; ++layer_idx) config.global.push_back((layer_idx + 1) % 6 == 0);
  return config;
}

// B3: the sums of the published shapes. From the window on all lengths here are whole runs, so the bytes are exact; pages
// add less than one page a range, and a range is no shorter than what fits one page of runs beside another layer.
TEST(KvFootprint, IsTheSumOfThePublishedShapes) {
  for (const Shape& shape : kShapes) {
    const model::Config config = config_of(shape);
    ASSERT_EQ(config.global_layers(), shape.global_layers) << shape.name;
    EXPECT_EQ(model::KvCache::bytes_per_token(config, half_floats(1)), shape.layers * shape.layer_token_bytes);
    for (std::size_t tokens = 4096; tokens <= 131072; tokens *= 2) {
      SCOPED_TRACE(std::string(shape.name) + " at " + std::to_string(tokens));
      const model::KvFootprint bytes = model::KvCache::footprint(config, half_floats(tokens), all_layers(config), tokens, 1);
      EXPECT_EQ(bytes.global_bytes, shape.global_layers * shape.layer_token_bytes * tokens);
      EXPECT_EQ(bytes.local_bytes, shape.full_ring_bytes);
      EXPECT_EQ(bytes.record_bytes, (shape.layers - shape.global_layers) * shape.layer_token_bytes * 1024);
      const model::KvFootprint pages =
          model::KvCache::footprint(config, half_floats(tokens), all_layers(config), tokens, kCardPage);
      EXPECT_EQ(pages.global_bytes % kCardPage, 0U);
      EXPECT_GE(pages.global_bytes, bytes.global_bytes);
      EXPECT_LE(pages.global_bytes, bytes.global_bytes + 4 * (kCardPage - 1));
      EXPECT_LE(pages.local_bytes, bytes.local_bytes + 7 * (kCardPage - 1));
    }
  }
}

TEST(KvFootprint, Of12BAtFullContext) {
  const model::Config config = config_of(kShapes[3]);
  const model::KvFootprint bytes =
      model::KvCache::footprint(config, half_floats(131072), all_layers(config), 131072, kCardPage);
  EXPECT_EQ(bytes.global_bytes, 8 * kGiB);
  EXPECT_EQ(bytes.local_bytes, 320 * kMiB);
  EXPECT_EQ(bytes.record_bytes, 320 * kMiB);
}

TEST(KvFootprint, OfBlockTypesCountsTheirScales) {
  const model::Config config = config_of(kShapes[3]);
  model::KvOptions options = half_floats(32768);
  options.global = {KvType::Q8_0, KvType::Q4_0};
  const model::KvFootprint bytes = model::KvCache::footprint(config, options, all_layers(config), 32768, 1);
  EXPECT_EQ(bytes.global_bytes, std::size_t{8} * 8 * 32768 * (256 / 32 * 34 + 256 / 32 * 18));
  EXPECT_EQ(bytes.local_bytes, 320 * kMiB);
}

// What a cache commits equals the footprint, on the device's own count, for shapes, types, lengths and chunks at random.
TEST(KvFootprint, EqualsThePeakOfTheDevice) {
  std::mt19937 random(20261201);
  const auto any = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  constexpr std::array kTypes = {KvType::F32, KvType::F16, KvType::BF16, KvType::Q8_0, KvType::Q4_0};
  const auto any_types = [&] { return kernels::KvTypes{kTypes[any(0, 4)], kTypes[any(0, 4)]}; };
  for (std::size_t round = 0; round < 60; ++round) {
    model::Config config;
    config.layers = any(1, 40);
    config.kv_heads = any(1, 8);
    config.head_dim = 32 * any(1, 8);
    config.window_tokens = any(1, 300);
    const std::size_t period = any(1, 8);
    for (std::size_t layer_idx = 0; layer_idx < config.layers; ++layer_idx) config.global.push_back(layer_idx % period == 0);
    model::KvOptions options{any_types(), any_types(), any(1, 2000), any(0, 1) * any(1, 500)};
    const std::size_t page_bytes = std::size_t{4} * kKiB << any(0, 6);
    const std::size_t tokens = any(1, options.max_tokens);
    const std::size_t chunk = any(1, 600);
    SCOPED_TRACE("round " + std::to_string(round));

    auto device = must(device::FakeDevice::open(16 * kGiB, page_bytes));
    auto host = must(device::FakeDevice::open(16 * kGiB, page_bytes));
    memory::Ledger ledger;
    memory::PagePool pool(*device, ledger), host_pool(*host, ledger);
    auto cache = must(model::KvCache::create({std::vector<memory::PagePool*>(config.layers, &pool), &host_pool}, 1, config, options));
    while (cache->length() < tokens) {
      const std::size_t count = std::min(chunk, tokens - cache->length());
      must(cache->reserve(count));
      cache->advance(count);
    }
    const model::KvFootprint planned =
        model::KvCache::footprint(config, options, all_layers(config), tokens, page_bytes);
    EXPECT_EQ(device->status().ours_peak_bytes, planned.global_bytes + planned.local_bytes);
    EXPECT_EQ(host->status().ours_peak_bytes, planned.record_bytes);
    EXPECT_EQ(cache->device_bytes(), planned.global_bytes + planned.local_bytes);
    EXPECT_EQ(cache->record_bytes(), planned.record_bytes);
  }
}

TEST(KvFootprint, AddsUpOverHomes) {
  KvRig rig;
  const model::KvOptions options = rig_options();
  auto cache = rig.create(1, options);
  rig.append(*cache, 200, 1);
  const model::KvPools homes = rig.homes();
  std::size_t planned = 0, on_cards = 0;
  for (const std::vector<std::size_t>& layers : {std::vector<std::size_t>{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}}) {
    const model::KvFootprint part = model::KvCache::footprint(rig.config(), options, layers, 200, kRigPage);
    planned += part.global_bytes + part.local_bytes;
    if (homes.layers[layers.front()] != homes.host) on_cards += part.global_bytes + part.local_bytes;
  }
  EXPECT_EQ(cache->device_bytes(), on_cards);
  EXPECT_EQ(cache->committed_bytes(), planned + cache->record_bytes());
  EXPECT_EQ(cache->record_bytes(),
            model::KvCache::footprint(rig.config(), options, all_layers(rig.config()), 200, kRigPage).record_bytes);
}

// M8: a short chat costs what it holds, whatever the context, and a reset gives all of it back.
TEST(KvFootprint, AShortChatPaysNothingForALongContext) {
  KvRig rig;
  const std::vector<std::size_t> empty = rig.floor();
  const model::KvOptions options{rig_options().global, rig_options().local, 4096, 1024};
  auto cache = rig.create(1, options);
  EXPECT_EQ(rig.floor(), empty) << "addresses cost nothing";
  const auto pages = [&](std::size_t tokens) {
    std::size_t bytes = 0;
    for (const std::vector<std::size_t>& layers : {std::vector<std::size_t>{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}}) {
      const model::KvFootprint part = model::KvCache::footprint(rig.config(), options, layers, tokens, kRigPage);
      bytes += part.global_bytes + part.local_bytes;
    }
    return bytes;
  };
  rig.append(*cache, 40, 1);
  const std::vector<std::size_t> chat = rig.floor();
  EXPECT_EQ(chat[0] + chat[1] + chat[2], pages(40));
  EXPECT_LT(pages(40), pages(4096) / 10);
  rig.append(*cache, 960, 1);
  const std::vector<std::size_t> long_chat = rig.floor();
  EXPECT_EQ(long_chat[0] + long_chat[1] + long_chat[2], pages(1000) + cache->record_bytes());
  must(cache->rewind(0));
  EXPECT_EQ(rig.floor(), empty);
}

TEST(KvCache, ADroppedRecordComesBackWithTheTokensThatFollow) {
  KvRig rig;
  const model::KvOptions options{rig_options().global, rig_options().local, 4000, 600};
  auto cache = rig.create(1, options);
  rig.append(*cache, 1000, 1);
  const std::size_t full = cache->record_bytes();
  ASSERT_TRUE(cache->can_rewind(900));
  cache->drop_record();
  EXPECT_EQ(cache->record_bytes(), 0U);
  EXPECT_FALSE(cache->can_rewind(999));
  EXPECT_TRUE(cache->can_rewind(0));
  EXPECT_TRUE(rig.holds(*cache, 1));
  rig.append(*cache, 100, 1);
  EXPECT_LT(cache->record_bytes(), full / 2) << "it grows with what it keeps";
  EXPECT_TRUE(cache->can_rewind(1000));
  EXPECT_FALSE(cache->can_rewind(999));
  must(cache->rewind(1000));
  EXPECT_TRUE(rig.holds(*cache, 1));
  rig.append(*cache, 1200, 1);  // past the record's end: it wraps, counted from where it was dropped
  must(cache->rewind(1601));
  EXPECT_TRUE(rig.holds(*cache, 1));
  must(cache->rewind(0));
  rig.append(*cache, 300, 2);
  must(cache->rewind(200));
  EXPECT_TRUE(rig.holds(*cache, 2));
}

}  // namespace
}  // namespace ebb::tests
