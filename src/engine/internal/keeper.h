// Looks after memory while nobody asks: shrinks when another program takes memory, acts when use passes a threshold,
// brings back what pressure took away, unloads what is idle, and notices a device that has become slow.
// Between steps the stepping thread calls after_step(); a thread of its own looks once a second when nothing runs.
// Source   spec/memory 8.8; cases B7, B9, D4.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/internal/slow_watch.h"

namespace ebb::engine {

class Keeper {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Keeper(Engine::State& engine);
  Keeper(const Keeper&) = delete;  // owns a thread
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper();

  /// After a forward pass of `rows` tokens. The engine's `step` is held.
  void after_step(std::size_t rows, Clock::duration took);
  /// One look at everything, as of `now`. The engine's `step` is held.
  void look(Clock::time_point now);
  /// A layer had to leave just now; nothing comes back for a while. The engine's `step` is held.
  void note_pressure(Clock::time_point now);
  /// Something was asked of the engine just now. The engine's `step` is held.
  void note_use(Clock::time_point now) { last_use_ = now; }

 private:
  void run();
  void yield_to_others(Clock::time_point now);
  void act_on_threshold(Clock::time_point now);
  void return_what_left(Clock::time_point now);
  void unload_when_idle(Clock::time_point now);

  Engine::State& engine_;
  std::size_t steps_since_look_ = 0;
  Clock::time_point last_look_, next_gc_, last_use_;
  Clock::time_point return_after_;      // thrash guard: nothing comes back before
  Clock::duration return_delay_;        // doubles when what came back must leave again soon
  Clock::time_point last_return_;
  SlowWatch slow_watch_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ebb::engine
