// What a Conversation owns, for the files of this folder.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/conversation.h"
#include "engine/internal/engine_state.h"
#include "model/kv_cache.h"

namespace ebb::engine {

struct Conversation::State {
  Engine::State& engine;
  memory::OwnerId id;
  std::unique_ptr<model::KvCache> cache;  // none before the first token and after a reset
  std::vector<std::int32_t> tokens;       // exactly what the cache holds
  std::vector<float> logits;              // of the last token, after sync()

  /// Keeps at most `count` tokens; fewer when a window cannot be restored. Returns how many stay.
  [[nodiscard]] Result<std::size_t> rewind(std::size_t count);
  /// Evaluates tokens[length..] in chunks; logits of positions from first_logit_pos on go to `sink` in order, with
  /// their positions. Errors: as Conversation::sync.
  [[nodiscard]] Status extend(std::span<const std::int32_t> all, std::size_t first_logit_pos, const model::LogitSink& sink,
                              const Progress& progress);
  /// Refuses prompts that are empty, too long, or hold ids the model does not have.
  [[nodiscard]] Status check(std::span<const std::int32_t> all) const;
  /// Keeps the common prefix with `all`, but not its last token, whose logits are wanted.
  [[nodiscard]] Result<std::size_t> keep_prefix(std::span<const std::int32_t> all);
};

}  // namespace ebb::engine
