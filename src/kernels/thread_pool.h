// The threads that kernels share. Work is split into numbered pieces and handed out one by one; between two calls
// close together the workers wait on the processor for some microseconds, then sleep: no thread is busy between tokens.
// The calling thread works too: `thread_count` 2 means one worker beside it.
// Threads   one caller at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace ebb::kernels {

class ThreadPool {
 public:
  /// `thread_count` >= 1; 1 runs everything on the caller.
  explicit ThreadPool(int thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;  // owns threads
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int thread_count() const;

  /// Calls body(piece_idx, thread_idx) for every piece_idx in [0, piece_count), each once, in no order; returns when all
  /// are done. What the caller wrote before is visible to the pieces, what they wrote is visible to the caller.
  void parallel_for(std::size_t piece_count, const std::function<void(std::size_t piece_idx, int thread_idx)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::kernels
