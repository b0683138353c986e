// What a Conversation owns, for the files of this folder. All but the atomics needs the engine's `step`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/conversation.h"
#include "engine/internal/engine_state.h"
#include "model/kv_cache.h"

namespace ebb::engine {

struct Conversation::State {
  State(Engine::State& owner, memory::OwnerId owner_id) : engine(owner), id(owner_id) {}

  Engine::State& engine;
  const memory::OwnerId id;
  std::unique_ptr<model::KvCache> cache;  // none before the first token and after a reset
  std::vector<std::int32_t> tokens;       // exactly what the cache holds
  std::vector<float> logits;              // of the last token, after sync()
  std::uint64_t last_use = 0;
  std::uint64_t epoch = 0;  // grows with every stop, reset and park: an answer begun before ends there

  // Written with `step` held, read by a status that does not wait for it.
  std::atomic<bool> answering = false;
  std::atomic<bool> parked = false;
  std::atomic<std::size_t> token_count = 0;

  /// Ends what is running and forgets everything; the bytes go to the pools.
  void forget();
  /// Makes the atomics say what is.
  void publish();

  /// Refuses prompts that are empty, too long, or hold ids the model does not have.
  [[nodiscard]] Status check(std::span<const std::int32_t> all) const;
  /// Keeps at most `count` tokens; fewer when a window cannot be restored. Returns how many stay.
  [[nodiscard]] Result<std::size_t> rewind(std::size_t count);
};

/// One call of generate(), sync(), score() or save(): takes the engine's `step` for each forward pass and lets it go between
/// them, so sinks and progress may act on the engine. Ends with Cancelled when somebody stopped, reset or parked the
/// conversation meanwhile.
/// The conversation counts as answering as long as it lives.
class Pass {
 public:
  /// After an answer memory is reclaimed as the policy says.
  enum class Kind : std::uint8_t { Answer, Evaluation };

  Pass(Conversation::State& conversation, Kind kind);
  Pass(const Pass&) = delete;  // one call, one pass
  Pass& operator=(const Pass&) = delete;
  ~Pass();

  /// Weights and KV are brought back where they left; the longest usable prefix of `all` stays, at most `most` tokens.
  /// Returns how many. Errors: OutOfMemory, DeviceLost, Cancelled.
  [[nodiscard]] Result<std::size_t> begin(std::span<const std::int32_t> all, std::size_t most);
  /// Evaluates what is missing of `all`, in chunks; logits of positions from first_logit_pos on go to `sink` in order,
  /// with their positions, while `step` is held. Errors: as Conversation::sync.
  [[nodiscard]] Status extend(std::span<const std::int32_t> all, std::size_t first_logit_pos, const model::LogitSink& sink,
                              const Progress& progress);

  /// Runs `act` while `step` is held. Errors: its own; Cancelled.
  [[nodiscard]] Status between_steps(const std::function<Status()>& act);

 private:
  [[nodiscard]] Status still_ours() const;
  [[nodiscard]] Status make_ready();
  void share_beginning(std::span<const std::int32_t> prompt);
  [[nodiscard]] Result<std::size_t> position();
  [[nodiscard]] Result<std::size_t> step(std::span<const std::int32_t> all, std::size_t first_logit_pos,
                                         const model::LogitSink& sink);

  Conversation::State& conversation_;
  const Kind kind_;
  std::uint64_t epoch_ = 0;
};

}  // namespace ebb::engine
