// A model on the host device with everything it stands on, for tests below the engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "device/device_spec.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "support/must.h"
#include "weights/weight_store.h"

namespace ebb::tests {

class LoadedModel {
 public:
  LoadedModel(const std::filesystem::path& path, model::Arithmetic arithmetic, int threads = 1, std::size_t chunk_tokens = 512,
              const char* devices = "cpu")
      : devices_(must(device::open_devices({devices, "", ""}))), pool_(*devices_.front(), ledger_) {
    store_ = must(weights::WeightStore::open(path, pool_));
    const std::size_t layers = must(model::read_config(*store_)).layers;
    const model::Placement placement{std::vector<memory::PagePool*>(layers, &pool_), &pool_, &pool_};
    model_ = must(model::Model::load(*store_, placement, {arithmetic, threads, chunk_tokens}));
  }

  [[nodiscard]] model::Model& model() { return *model_; }
  [[nodiscard]] const model::Config& config() const { return model_->config(); }
  [[nodiscard]] memory::PagePool& pool() { return pool_; }
  [[nodiscard]] memory::Ledger& ledger() { return ledger_; }

  [[nodiscard]] std::unique_ptr<model::KvCache> new_cache(model::KvType type, std::size_t rewind_tokens = 64) {
    const model::KvPools pools{std::vector<memory::PagePool*>(config().layers, &pool_), &pool_};
    return must(model::KvCache::create(pools, 1, config(), {{type, type}, {type, type}, 4096, rewind_tokens}));
  }

  /// Logits of every row, [ids.size()][vocabulary], evaluated in chunks.
  std::vector<std::vector<float>> logits(model::KvCache& cache, std::span<const std::int32_t> ids,
                                                       std::size_t chunk_tokens) {
    std::vector<std::vector<float>> rows;
    for (std::size_t first = 0; first < ids.size(); first += chunk_tokens) {
      const auto chunk = ids.subspan(first, std::min(chunk_tokens, ids.size() - first));
      must(model_->forward(cache, chunk, 0, [&](std::size_t, std::span<const float> row) {
        rows.emplace_back(row.begin(), row.end());
      }));
    }
    return rows;
  }

 private:
  std::vector<std::unique_ptr<device::Device>> devices_;
  memory::Ledger ledger_;
  memory::PagePool pool_;
  std::unique_ptr<weights::WeightStore> store_;
  std::unique_ptr<model::Model> model_;
};

}  // namespace ebb::tests
