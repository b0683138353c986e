// The fences of one CUDA stream: numbered events in the stream's order, used again once they have passed.
// Called by the CUDA device with its context current. A fence is done when its event, or a later one, has completed.
// Invariant: pending events are in the order of their numbers; nothing waits while it holds the lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/driver.h"

namespace ebb::device::cuda {

/// Threads   any.
class FenceLine {
 public:
  FenceLine(const Driver& driver, StreamRef stream) : driver_(driver), stream_(stream) {}

  /// Puts a fence behind all work of the stream. `value` is set on success.
  [[nodiscard]] Code record(std::uint64_t& value);
  /// Whether fence `value` is done, without waiting.
  [[nodiscard]] Code poll(std::uint64_t value, bool& is_done);
  [[nodiscard]] Code wait(std::uint64_t value);

 private:
  using SharedEvent = std::shared_ptr<EventObject>;
  struct Pending {
    std::uint64_t value = 0;
    SharedEvent event;
  };

  [[nodiscard]] Code make_event(SharedEvent& event);
  /// Takes what has passed off the front. Needs the lock.
  [[nodiscard]] Code settle();

  const Driver& driver_;
  const StreamRef stream_;

  std::mutex mutex_;  // guards all below
  std::deque<Pending> pending_;
  std::vector<SharedEvent> spare_;
  std::uint64_t made_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace ebb::device::cuda
