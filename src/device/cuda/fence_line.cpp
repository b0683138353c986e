#include "device/internal/fence_line.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ebb::device::cuda {
namespace {

constexpr std::size_t kSettleFrom = 64;  // fences nobody asks about must not pile up

}  // namespace

Code FenceLine::make_event(SharedEvent& event) {
  if (!spare_.empty()) {
    event = std::move(spare_.back());
    spare_.pop_back();
    return kSuccess;
  }
  Event made = nullptr;
  if (const Code code = driver_.event_create(&made, kEventWithoutTiming); code != kSuccess) return code;
  event = SharedEvent(made, [destroy = driver_.event_destroy](Event old) { destroy(old); });
  return kSuccess;
}

Code FenceLine::settle() {
  while (!pending_.empty()) {
    const Code code = driver_.event_query(pending_.front().event.get());
    if (code != kSuccess) return code == kNotReady ? kSuccess : code;
    done_ = pending_.front().value;
    // An event that some thread still waits for is not used again: recording it anew would move that wait.
    if (pending_.front().event.use_count() == 1) spare_.push_back(std::move(pending_.front().event));
    pending_.pop_front();
  }
  return kSuccess;
}

Code FenceLine::record(std::uint64_t& value) {
  const std::lock_guard lock(mutex_);
  if (pending_.size() >= kSettleFrom) {
    if (const Code code = settle(); code != kSuccess) return code;
  }
  SharedEvent event;
  if (const Code code = make_event(event); code != kSuccess) return code;
  if (const Code code = driver_.event_record(event.get(), stream_); code != kSuccess) return code;
  value = ++made_;
  pending_.push_back({value, std::move(event)});
  return kSuccess;
}

Code FenceLine::poll(std::uint64_t value, bool& is_done) {
  const std::lock_guard lock(mutex_);
  EBB_CHECK(value <= made_, "fence {} of {} made", value, made_);
  const Code code = value <= done_ ? kSuccess : settle();
  is_done = value <= done_;
  return code;
}

Code FenceLine::wait(std::uint64_t value) {
  SharedEvent event;
  {
    const std::lock_guard lock(mutex_);
    EBB_CHECK(value <= made_, "fence {} of {} made", value, made_);
    if (value <= done_) return kSuccess;
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [value](const Pending& pending) { return pending.value >= value; });
    event = found->event;
  }
  return driver_.event_synchronize(event.get());
}

}  // namespace ebb::device::cuda
