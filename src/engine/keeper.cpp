#include "engine/internal/keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/internal/conversation_state.h"
#include "engine/internal/engine_state.h"

namespace ebb::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kStepsBetweenLooks = 16;   // a look costs a driver call of microseconds for each device
constexpr milliseconds kTimeBetweenLooks{100};
constexpr seconds kIdleTick{1};
// Thrash guard (spec/memory 8.8): what left under pressure comes back after this, doubled when it had to leave again soon.
constexpr milliseconds kFirstReturnDelay{250};
constexpr seconds kLongestReturnDelay{30};
constexpr seconds kSoon{30};

}  // namespace

Keeper::Keeper(Engine::State& engine) : engine_(engine), return_delay_(kFirstReturnDelay) {
  const Clock::time_point now = Clock::now();
  last_look_ = last_use_ = now;
  next_gc_ = now + seconds(engine.options.memory.gc_interval_s);
  const MemoryOptions& policy = engine.options.memory;
  if (policy.auto_gc || policy.yield_to_others || policy.idle_unload_s > 0) thread_ = std::thread([this] { run(); });
}

Keeper::~Keeper() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Keeper::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kIdleTick, [this] { return ended_; })) {
    lock.unlock();
    // While a step runs the stepping thread looks by itself.
    if (std::unique_lock step(engine_.step, std::try_to_lock); step) {
      const Clock::time_point now = Clock::now();
      if (now - last_look_ >= kIdleTick) look(now);
    }
    lock.lock();
  }
}

void Keeper::after_step(std::size_t rows, Clock::duration took) {
  const Clock::time_point now = Clock::now();
  if (rows == 1) {
    std::size_t held_bytes = 0;
    for (std::size_t device_idx = 0; device_idx < engine_.pools->count(); ++device_idx)
      held_bytes += engine_.pools->pool(device_idx).stats().held_bytes();
    if (slow_watch_.is_spilling(took, held_bytes)) {
      engine_.warn(fmt::format("steps have become {:.0f} times slower since the devices hold more: their memory may be spilling "
                               "into host memory. Lower --memory-limit or use a smaller context.",
                               slow_watch_.slowdown()));
    }
  }
  if (++steps_since_look_ >= kStepsBetweenLooks || now - last_look_ >= kTimeBetweenLooks) look(now);
}

void Keeper::look(Clock::time_point now) {
  steps_since_look_ = 0;
  last_look_ = now;
  yield_to_others(now);
  act_on_threshold(now);
  return_what_left(now);
  unload_when_idle(now);
}

void Keeper::yield_to_others(Clock::time_point now) {
  if (!engine_.options.memory.yield_to_others) return;
  for (std::size_t device_idx = 0; device_idx < engine_.pools->count(); ++device_idx) {
    memory::PagePool& pool = engine_.pools->pool(device_idx);
    if (engine_.pools->is_host(pool)) continue;  // the operating system shares host memory itself
    const Result<device::MemInfo> info = pool.device().mem_info();
    if (!info) continue;
    const std::size_t left = info->total_bytes - std::min(info->total_bytes, info->others_bytes + info->context_bytes);
    engine_.pools->set_ceiling(device_idx, left);
    const std::size_t allowed = std::min(left, engine_.pools->budget(device_idx).value_or(left));
    if (pool.stats().held_bytes() <= allowed) continue;
    engine_.reclaimer->shrink(pool, allowed, Reason::Yield);
    note_pressure(now);
  }
}

void Keeper::note_pressure(Clock::time_point now) {
  if (now - last_return_ < kSoon) return_delay_ = std::min<Clock::duration>(return_delay_ * 2, kLongestReturnDelay);
  return_after_ = now + return_delay_;
}

void Keeper::act_on_threshold(Clock::time_point now) {
  const MemoryOptions& policy = engine_.options.memory;
  if (!policy.auto_gc || now < next_gc_) return;
  next_gc_ = now + seconds(policy.gc_interval_s);
  for (std::size_t device_idx = 0; device_idx < engine_.pools->count(); ++device_idx) {
    const Result<device::MemInfo> info = engine_.pools->device(device_idx).mem_info();
    if (!info || info->total_bytes == 0) continue;
    const std::optional<std::size_t> budget = engine_.pools->budget(device_idx);
    const std::size_t used = budget ? engine_.pools->pool(device_idx).stats().held_bytes() : info->total_bytes - info->free_bytes;
    const double share = static_cast<double>(used) / static_cast<double>(budget.value_or(info->total_bytes));
    if (share <= policy.gc_threshold) continue;
    static_cast<void>(engine_.reclaimer->reclaim(Level::Turns, false, Reason::Threshold));
    return;
  }
}

void Keeper::return_what_left(Clock::time_point now) {
  if (now < return_after_ || !engine_.reclaimer->relax()) return;
  last_return_ = now;
}

void Keeper::unload_when_idle(Clock::time_point now) {
  const int limit_s = engine_.options.memory.idle_unload_s;
  if (limit_s <= 0 || !engine_.model->loaded() || now - last_use_ < seconds(limit_s)) return;
  if (engine_.reclaimer->is_anyone_answering()) return;
  if (const auto unloaded = engine_.reclaimer->unload(Reason::Idle); !unloaded) engine_.warn(unloaded.error().message);
}

}  // namespace ebb::engine
