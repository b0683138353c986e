#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"

namespace ebb::kernels {
namespace {

// How long a thread waits on the processor before it sleeps. Waking a sleeper costs a system call here and some tens of
// microseconds until it runs; the serial stretch between two calls of one forward pass is a few microseconds. So a wait
// of this length keeps workers hot through a pass, costs at most what one wake-up would, and ends well within the time
// between two tokens.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kPausesPerClockRead = 16;

void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits on the processor until `ready()` or the time is over; the last answer of `ready()`.
template <typename Ready>
bool spin_until(std::chrono::microseconds limit, Ready ready) {
  if (ready()) return true;
  if (limit.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int pause_idx = 0; pause_idx < kPausesPerClockRead; ++pause_idx) {
      cpu_pause();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

struct ThreadPool::State {
  using Body = std::function<void(std::size_t, int)>;

  // The job. Written by the caller while no piece is open, read by whoever has taken a piece.
  const Body* body = nullptr;
  std::size_t piece_count = 0;

  // Pieces nobody has taken. A piece is taken by lowering this from a value above zero, so a thread that comes late to
  // a finished job takes nothing, and one that comes so late that the next job is open simply works on that one.
  alignas(64) std::atomic<std::size_t> open_pieces{0};
  alignas(64) std::atomic<std::uint32_t> unfinished_pieces{0};
  alignas(64) std::atomic<std::uint32_t> job_number{0};  // sleepers wait for a change of this
  std::atomic<bool> stopping{false};
  std::atomic<bool> in_call{false};

  std::chrono::microseconds spin_time{0};
  std::vector<std::thread> workers;

  void work(int thread_idx) {
    std::uint32_t finished = 0;
    std::size_t open = open_pieces.load(std::memory_order_relaxed);
    while (open != 0) {
      if (!open_pieces.compare_exchange_weak(open, open - 1, std::memory_order_acquire, std::memory_order_relaxed))
        continue;
      (*body)(piece_count - open, thread_idx);
      ++finished;
      open = open_pieces.load(std::memory_order_relaxed);
    }
    if (finished == 0) return;
    if (unfinished_pieces.fetch_sub(finished, std::memory_order_acq_rel) == finished) unfinished_pieces.notify_one();
  }

  void worker_loop(int thread_idx) {
    for (;;) {
      const std::uint32_t seen = job_number.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) return;
      const auto something_to_do = [this] {
        return open_pieces.load(std::memory_order_relaxed) != 0 || stopping.load(std::memory_order_relaxed);
      };
      if (spin_until(spin_time, something_to_do))
        work(thread_idx);
      else
        job_number.wait(seen, std::memory_order_acquire);
    }
  }

  void wait_until_finished() {
    const auto finished = [this] { return unfinished_pieces.load(std::memory_order_acquire) == 0; };
    if (spin_until(spin_time, finished)) return;
    for (std::uint32_t left = unfinished_pieces.load(std::memory_order_acquire); left != 0;
         left = unfinished_pieces.load(std::memory_order_acquire))
      unfinished_pieces.wait(left, std::memory_order_acquire);
  }
};

ThreadPool::ThreadPool(int thread_count) : state_(std::make_unique<State>()) {
  EBB_CHECK(thread_count >= 1, "thread_count {}", thread_count);
  // With more threads than processors a waiting thread stands in the way of a working one: sleep at once.
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors == 0 || static_cast<unsigned>(thread_count) <= processors) state_->spin_time = kSpinTime;
  state_->workers.reserve(static_cast<std::size_t>(thread_count - 1));
  for (int thread_idx = 1; thread_idx < thread_count; ++thread_idx)
    state_->workers.emplace_back([state = state_.get(), thread_idx] { state->worker_loop(thread_idx); });
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_relaxed);
  state_->job_number.fetch_add(1, std::memory_order_release);
  state_->job_number.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::thread_count() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(std::size_t piece_count, const State::Body& body) {
  State& state = *state_;
  if (piece_count <= 1 || state.workers.empty()) {
    for (std::size_t piece_idx = 0; piece_idx < piece_count; ++piece_idx) body(piece_idx, 0);
    return;
  }
  EBB_CHECK(piece_count <= UINT32_MAX, "{} pieces", piece_count);
  EBB_CHECK(!state.in_call.exchange(true, std::memory_order_acquire), "a second caller, or a call from a piece");
  state.body = &body;
  state.piece_count = piece_count;
  state.unfinished_pieces.store(static_cast<std::uint32_t>(piece_count), std::memory_order_relaxed);
  state.open_pieces.store(piece_count, std::memory_order_release);
  state.job_number.fetch_add(1, std::memory_order_release);
  state.job_number.notify_all();
  state.work(0);
  state.wait_until_finished();
  state.in_call.store(false, std::memory_order_release);
}

}  // namespace ebb::kernels
