// A tiny model over several fake cards and a host, its layers at home where a test says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "support/must.h"
#include "weights/weight_store.h"

namespace ebb::tests {

/// Homes are indices of cards; kHost is the host.
inline constexpr std::size_t kHost = 9;
struct Homes {
  std::vector<std::size_t> layers = {0, 0, 1, 1, 2, 2};  // stretched over models of more layers
  std::size_t output = 2;
};

using Logits = std::vector<std::vector<float>>;

class SplitModel {
 public:
  static constexpr std::size_t kCards = 3;
  static constexpr std::size_t kPage = 4 * kKiB;

  explicit SplitModel(Homes homes = {}, const std::filesystem::path& file = "gguf/t0-base-q8_0.gguf",
                      model::ModelOptions options = {model::Arithmetic::Quantized, 1, 64})
      : homes_(std::move(homes)), options_(options) {
    host_device_ = must(device::HostDevice::open());
    host_ = std::make_unique<memory::PagePool>(*host_device_, ledger_);
    for (std::size_t idx = 0; idx < kCards; ++idx) {
      cards_.push_back(must(device::FakeDevice::open(256 * kMiB, kPage)));
      pools_.push_back(std::make_unique<memory::PagePool>(*cards_.back(), ledger_, memory::PoolOptions{0}));
    }
    store_ = must(weights::WeightStore::open(std::filesystem::path(EBB_VECTORS_DIR) / file, *host_));
  }

  [[nodiscard]] memory::PagePool& pool(std::size_t home) { return home == kHost ? *host_ : *pools_[home]; }
  [[nodiscard]] device::FakeDevice& card(std::size_t idx) { return *cards_[idx]; }
  [[nodiscard]] memory::Ledger& ledger() { return ledger_; }
  [[nodiscard]] model::Model& model() { return *model_; }
  [[nodiscard]] weights::WeightStore& store() { return *store_; }

  [[nodiscard]] Status load() {
    model::Placement placement;
    placement.layers = layer_pools(must(model::read_config(*store_)).layers);
    placement.output = &pool(homes_.output);
    placement.host = host_.get();
    auto loaded = model::Model::load(*store_, placement, options_);
    if (!loaded) return tl::unexpected<Error>(std::move(loaded).error());
    model_ = std::move(loaded).value();
    return {};
  }
  void drop() { model_.reset(); }

  [[nodiscard]] std::unique_ptr<model::KvCache> new_cache(std::size_t rewind_tokens = 64) {
    model::KvPools pools;
    pools.layers = layer_pools(model_->config().layers);
    pools.host = host_.get();
    const kernels::KvTypes types{kernels::KvType::F16, kernels::KvType::F16};
    return must(model::KvCache::create(pools, 1, model_->config(), {types, types, 1024, rewind_tokens}));
  }

  [[nodiscard]] Status forward(model::KvCache& cache, std::span<const std::int32_t> ids, Logits& rows) {
    return model_->forward(cache, ids, 0,
                           [&](std::size_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  }
  [[nodiscard]] Logits logits(model::KvCache& cache, std::span<const std::int32_t> ids, std::size_t chunk_tokens) {
    Logits rows;
    for (std::size_t first = 0; first < ids.size(); first += chunk_tokens) {
      must(forward(cache, ids.subspan(first, std::min(chunk_tokens, ids.size() - first)), rows));
    }
    return rows;
  }

  [[nodiscard]] std::size_t ours() {
    std::size_t bytes = 0;
    for (std::size_t idx = 0; idx < kCards; ++idx) {
      pools_[idx]->trim();
      bytes += cards_[idx]->status().ours_bytes;
    }
    return bytes;
  }
  [[nodiscard]] std::size_t tag_bytes(memory::Tag tag) const {
    std::size_t bytes = 0;
    for (const auto& device : ledger_.snapshot().devices) bytes += device.by_tag[static_cast<std::size_t>(tag)];
    return bytes;
  }
  void fail(std::size_t card_idx, device::FakeCall call, std::uint64_t nth) {
    device::FakeSettings settings;
    settings.fail = device::FailRule{call, nth, 1};
    cards_[card_idx]->apply(settings);
  }
  void heal(std::size_t card_idx) {
    device::FakeSettings settings;
    settings.fail.emplace(std::nullopt);
    cards_[card_idx]->apply(settings);
  }

 private:
  [[nodiscard]] std::vector<memory::PagePool*> layer_pools(std::size_t layers) {
    std::vector<memory::PagePool*> pools;
    for (std::size_t idx = 0; idx < layers; ++idx) pools.push_back(&pool(homes_.layers[idx * homes_.layers.size() / layers]));
    return pools;
  }

  Homes homes_;
  model::ModelOptions options_;
  std::unique_ptr<device::HostDevice> host_device_;
  std::vector<std::unique_ptr<device::FakeDevice>> cards_;
  memory::Ledger ledger_;
  std::unique_ptr<memory::PagePool> host_;
  std::vector<std::unique_ptr<memory::PagePool>> pools_;
  std::unique_ptr<weights::WeightStore> store_;
  std::unique_ptr<model::Model> model_;
};

/// Past two windows of 16, so that rings have wrapped.
inline std::vector<std::int32_t> some_ids(std::size_t count = 44) {
  std::vector<std::int32_t> ids = {2};
  while (ids.size() < count) ids.push_back(static_cast<std::int32_t>(14 + ids.size() * 37 % 250));
  return ids;
}

/// What every placement must answer: the same model on the host alone.
inline Logits host_logits(std::span<const std::int32_t> ids, std::size_t chunk_tokens = 64,
                          const std::filesystem::path& file = "gguf/t0-base-q8_0.gguf",
                          model::ModelOptions options = {model::Arithmetic::Quantized, 1, 64}) {
  SplitModel whole({std::vector<std::size_t>(6, kHost), kHost}, file, options);
  must(whole.load());
  const auto cache = whole.new_cache();
  return whole.logits(*cache, ids, chunk_tokens);
}

}  // namespace ebb::tests
