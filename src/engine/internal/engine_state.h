// What an Engine owns, for the files of this folder. Members are destroyed in reverse order: the model before the pool,
// the pool before the ledger and the device.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "weights/weight_store.h"

namespace ebb::engine {

struct Engine::State {
  EngineOptions options;
  ModelInfo info;
  std::vector<std::unique_ptr<device::Device>> devices;
  memory::Ledger ledger;
  std::unique_ptr<memory::PagePool> pool;  // of the first device; other devices wait for the placement planner
  std::unique_ptr<weights::WeightStore> weights;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<model::Model> model;
  model::KvOptions kv_options;  // of every conversation
  memory::OwnerId last_owner = memory::kEngineOwner;
  std::map<memory::OwnerId, const Conversation*> conversations;  // open ones
};

}  // namespace ebb::engine
