// What an Engine owns, for the files of this folder. Members are destroyed in reverse order: the model before the pools,
// the pools before the ledger and the devices.
// Locks   `step` is held during one forward pass or one act on memory, and free between them and while sinks run, so
//         acts happen at step boundaries. `registry` guards what a status reads; it is taken after `step`, never before.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/internal/device_pools.h"
#include "engine/internal/keeper.h"
#include "engine/internal/reclaimer.h"
#include "engine/internal/side_owner.h"
#include "memory/ledger.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "weights/weight_store.h"

namespace ebb::engine {

struct Engine::State {
  EngineOptions options;
  ModelInfo info;
  model::KvOptions kv_options;  // of every conversation
  Plan plan;
  std::unique_ptr<DevicePools> pools;
  model::KvPools kv_pools;                  // home of each layer
  memory::PagePool* output_home = nullptr;  // of the output head
  std::unique_ptr<weights::WeightStore> weights;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<model::Model> model;

  std::mutex step;
  std::unique_ptr<Reclaimer> reclaimer;  // its members need `step`
  memory::OwnerId last_owner = memory::kEngineOwner;
  std::map<memory::OwnerId, SideOwner*> side_owners;  // complete before the first answer; not owned
  std::uint64_t turn_count = 0;  // answers given
  std::uint64_t use_count = 0;   // orders conversations by last use

  mutable std::mutex registry;  // guards all below
  std::map<memory::OwnerId, Conversation::State*> conversations;  // open ones
  std::optional<Receipt> last_receipt;
  std::vector<std::string> warnings;  // not yet taken

  std::unique_ptr<Keeper> keeper;  // last: its thread ends before anything it looks at

  /// Makes the plan and the homes. Errors: as plan_on(); OutOfMemory when it does not fit; Unsupported KV type.
  [[nodiscard]] Status settle(const model::Config& config, const model::ModelOptions& model_options);
  /// What would help a refused growth to `tokens` on `pool`, cheapest first. `step` is held.
  [[nodiscard]] std::vector<std::string> remedies(memory::PagePool& pool, std::size_t wanted_bytes, std::size_t tokens,
                                                  memory::OwnerId asker) const;
  /// The id under which `owner` holds memory from now on.
  [[nodiscard]] memory::OwnerId add(SideOwner& owner);
  /// For people: "the model", "conversation 3", "the vision tower".
  [[nodiscard]] std::string owner_name(memory::OwnerId owner) const;
  /// Scratch of the largest step on `pool`, in whole pages.
  [[nodiscard]] std::size_t step_bytes(const memory::PagePool& pool) const;
  void warn(std::string text) {
    const std::lock_guard lock(registry);
    warnings.push_back(std::move(text));
  }
};

}  // namespace ebb::engine
