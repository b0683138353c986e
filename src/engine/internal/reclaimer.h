// Gives memory back on purpose: the three levels, resets, parking, unloading, and room for a step that was refused.
// Every act makes a receipt. Refuses to touch a conversation that is being answered.
// Called by Engine, Conversation and Keeper with the engine's `step` held.
// Source   spec/memory 8.8 to 8.10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/receipt.h"
#include "memory/page_pool.h"

namespace ebb::engine {

/// Who asks for room, for what a refusal says.
struct Asker {
  std::uint64_t owner = 0;         // a conversation or a side owner; 0: the engine itself
  std::size_t tokens = 0;          // that the conversation shall hold
};

class Reclaimer {
 public:
  explicit Reclaimer(Engine::State& engine) : engine_(engine) {}
  Reclaimer(const Reclaimer&) = delete;  // one for an engine
  Reclaimer& operator=(const Reclaimer&) = delete;

  [[nodiscard]] Receipt reclaim(Level level, bool all, Reason reason);
  /// Levels 1 and 2 as the policy says, after `conversation` was answered.
  void after_answer(Conversation::State& conversation);

  /// Everything of one conversation goes back to the device; its tokens are forgotten.
  [[nodiscard]] Receipt reset(Conversation::State& conversation, Action action, Reason reason);
  /// Errors   OutOfMemory (the host's limit), DeviceLost, Io: nothing changed.
  [[nodiscard]] Result<Receipt> park(Conversation::State& conversation, Reason reason);
  /// Weights, scratch and the KV of every chat leave the devices; chats are parked, or forgotten where the host has no
  /// room (they are evaluated again). Errors: as park; what was parked comes back.
  [[nodiscard]] Result<Receipt> unload(Reason reason);
  /// Errors   OutOfMemory, DeviceLost, Io: still unloaded.
  [[nodiscard]] Result<Receipt> load(Reason reason);

  /// Runs `attempt`, and while it is refused for memory gives up something and runs it again, cheapest first.
  /// Errors   its last refusal, with what was tried and what would help; any other error at once.
  [[nodiscard]] Status with_room(const Asker& asker, const std::function<Status()>& attempt);
  /// Gives up things on one device, cheapest first, until its pool holds at most `target_bytes`, or nothing is left.
  void shrink(memory::PagePool& pool, std::size_t target_bytes, Reason reason);
  [[nodiscard]] bool is_anyone_answering() const;
  /// Brings back what pressure took away, as far as there is room: layers, then the full step. False: nothing to do.
  bool relax();

 private:
  /// What can be given up, in this order.
  enum class Stage : std::uint8_t { Pool, Surplus, Scratch, Record, SideOwners, Chat, Layer, End };

  [[nodiscard]] static Stage next(Stage stage) { return static_cast<Stage>(static_cast<int>(stage) + 1); }

  [[nodiscard]] Status put_away(Conversation::State& conversation);
  /// Gives up the next thing on `pool`'s device and says so in `tried`; false when nothing is left.
  [[nodiscard]] bool give_something(memory::PagePool& pool, const Asker& asker, Stage& stage, std::vector<std::string>& tried);
  [[nodiscard]] bool free_pages(memory::PagePool& pool, std::vector<std::string>& tried);
  [[nodiscard]] bool ask_side_owners(memory::PagePool& pool, const Asker& asker, Level level, bool all,
                                     std::vector<std::string>& tried);
  [[nodiscard]] bool shrink_scratch(std::vector<std::string>& tried);
  [[nodiscard]] bool drop_a_record(const memory::PagePool& pool, std::vector<std::string>& tried);
  [[nodiscard]] bool put_away_a_chat(const memory::PagePool& pool, std::vector<std::string>& tried);
  [[nodiscard]] bool move_a_layer_out(const memory::PagePool& pool, std::vector<std::string>& tried);
  [[nodiscard]] std::vector<Conversation::State*> idle_by_use() const;  // least recently used first
  [[nodiscard]] Error refusal(Error cause, memory::PagePool& pool, const Asker& asker, std::vector<std::string> tried) const;

  Engine::State& engine_;
};

}  // namespace ebb::engine
