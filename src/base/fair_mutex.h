// A mutex that serves in order of arrival. std::mutex lets a thread that unlocks and locks again overtake all who wait,
// so a loop that holds the lock most of the time would starve them.
// Called by engine/ for the lock that forward passes and acts on memory share.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ebb {

class FairMutex {
 public:
  FairMutex() = default;
  FairMutex(const FairMutex&) = delete;  // waiters hold its address
  FairMutex& operator=(const FairMutex&) = delete;

  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = next_ticket_++;
    turn_.wait(lock, [&] { return serving_ == ticket; });
  }
  /// Takes it only where nobody has it or waits for it.
  [[nodiscard]] bool try_lock() {
    const std::lock_guard lock(mutex_);
    if (next_ticket_ != serving_) return false;
    ++next_ticket_;
    return true;
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    turn_.notify_all();
  }
  /// Who has asked and not been served. Old when it returns.
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return next_ticket_ - serving_ < 2 ? 0 : next_ticket_ - serving_ - 1;
  }

 private:
  mutable std::mutex mutex_;  // guards the tickets, never held for long
  std::condition_variable turn_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;  // the ticket whose holder has the lock, or may take it next
};

}  // namespace ebb
