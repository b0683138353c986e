#include "device/fake/fake_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::device {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

tl::unexpected<Error> refused(std::string_view what) {
  return fail(ErrorCode::Io, fmt::format("the fake device refused {}, as it was told to", what));
}

}  // namespace

Result<std::unique_ptr<FakeDevice>> FakeDevice::open(std::size_t total_bytes, std::size_t page_bytes) {
  EBB_TRY_ASSIGN(auto storage, HostDevice::open(page_bytes));
  return std::unique_ptr<FakeDevice>(new FakeDevice(std::move(storage), total_bytes));
}

FakeDevice::FakeDevice(std::unique_ptr<HostDevice> storage, std::size_t total_bytes)
    : storage_(std::move(storage)),
      name_(fmt::format("fake {}", format_bytes(total_bytes))),
      total_bytes_(total_bytes),
      reserve_limit_bytes_(kNoLimit),
      soft_limit_bytes_(kNoLimit) {}

Result<AddressRange> FakeDevice::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Reserve, 1));
  const bool fits = reserved_bytes_ <= reserve_limit_bytes_ && bytes <= reserve_limit_bytes_ - reserved_bytes_;
  if (is_failing || !fits) return out_of_memory("addresses", bytes);
  EBB_TRY_ASSIGN(const AddressRange range, storage_->reserve(bytes));
  reserved_bytes_ += bytes;
  return range;
}

Status FakeDevice::free_addresses(AddressRange range) {
  const std::lock_guard lock(mutex_);
  EBB_TRY(alive());
  EBB_TRY(storage_->free_addresses(range));
  reserved_bytes_ -= range.bytes;
  return {};
}

Result<Handle> FakeDevice::create(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  settle_late_releases();
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Create, 1));
  if (is_failing || bytes > free_bytes()) return out_of_memory("memory", bytes);
  EBB_TRY_ASSIGN(const Handle handle, storage_->create(bytes));
  handle_bytes_.emplace(handle.value, bytes);
  ours_bytes_ += bytes;
  ours_peak_bytes_ = std::max(ours_peak_bytes_, ours_bytes_);
  return handle;
}

Status FakeDevice::release(Handle handle) {
  const std::lock_guard lock(mutex_);
  settle_late_releases();
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Release, 1));
  if (is_failing) return refused("a release");
  EBB_TRY(storage_->release(handle));
  const auto found = handle_bytes_.find(handle.value);
  const std::size_t bytes = found->second;
  handle_bytes_.erase(found);
  if (release_ms_.count() == 0) {
    ours_bytes_ -= bytes;
  } else {
    late_releases_.push_back({std::chrono::steady_clock::now() + release_ms_, bytes});
    std::stable_sort(late_releases_.begin(), late_releases_.end(),
                     [](const auto& a, const auto& b) { return a.due < b.due; });
  }
  return {};
}

Status FakeDevice::map(std::byte* address, std::span<const Handle> handles) {
  const std::lock_guard lock(mutex_);
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Map, handles.size()));
  if (is_failing) return out_of_memory("page tables", handles.size() * storage_->page_bytes());
  return storage_->map(address, handles);
}

Status FakeDevice::set_access(std::byte* address, std::size_t bytes, Access access) {
  const std::lock_guard lock(mutex_);
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Access, 1));
  if (is_failing) return out_of_memory("page tables", bytes);
  return storage_->set_access(address, bytes, access);
}

Status FakeDevice::unmap(std::byte* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Unmap, 1));
  if (is_failing) return refused("an unmap");
  return storage_->unmap(address, bytes);
}

Result<MemInfo> FakeDevice::mem_info() {
  const std::lock_guard lock(mutex_);
  EBB_TRY(alive());
  settle_late_releases();
  MemInfo info;
  info.total_bytes = total_bytes_;
  info.ours_bytes = ours_bytes_;
  info.free_bytes = free_bytes();
  info.others_bytes = others_bytes_;
  return info;
}

Result<Fence> FakeDevice::fence(Stream stream) {
  const std::lock_guard lock(mutex_);
  EBB_TRY(alive());
  FenceCounts& counts = fences_[static_cast<std::size_t>(stream)];
  ++counts.made;
  if (!fences_held_) counts.done = counts.made;
  return Fence{stream, counts.made};
}

Result<bool> FakeDevice::done(Fence fence) {
  const std::lock_guard lock(mutex_);
  EBB_TRY(alive());
  return fences_[static_cast<std::size_t>(fence.stream)].done >= fence.value;
}

Status FakeDevice::wait(Fence fence) {
  const std::lock_guard lock(mutex_);
  EBB_TRY(alive());
  FenceCounts& counts = fences_[static_cast<std::size_t>(fence.stream)];
  counts.done = std::max(counts.done, fence.value);
  return {};
}

Status FakeDevice::copy(Stream stream, void* target, const void* source, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Copy, 1));
    if (is_failing) return refused("a copy");
  }
  return storage_->copy(stream, target, source, bytes);
}

Status FakeDevice::fill_zero(std::byte* address, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    EBB_TRY_ASSIGN(const bool is_failing, enter(FakeCall::Copy, 1));
    if (is_failing) return refused("to fill memory");
  }
  return storage_->fill_zero(address, bytes);
}

Status FakeDevice::begin_step(Step step) {
  std::chrono::duration<double, std::milli> pause{0};
  {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this, step] { return hold_ != step || lost_; });
    EBB_TRY_ASSIGN(const bool is_failing, enter(step == Step::Tower ? FakeCall::Tower : FakeCall::Step, 1));
    if (is_failing) return refused("a pass");
    settle_late_releases();
    pause = step_ms_;
    if (ours_bytes_ + others_bytes_ > soft_limit_bytes_) pause = std::max(pause, decltype(pause){1}) * slow_factor_;
  }
  std::this_thread::sleep_for(pause);
  return {};
}

void FakeDevice::apply(const FakeSettings& settings) {
  {
    const std::lock_guard lock(mutex_);
    total_bytes_ = settings.total_bytes.value_or(total_bytes_);
    others_bytes_ = settings.others_bytes.value_or(others_bytes_);
    step_ms_ = settings.step_ms.value_or(step_ms_);
    release_ms_ = settings.release_ms.value_or(release_ms_);
    reserve_limit_bytes_ = settings.reserve_limit_bytes.value_or(reserve_limit_bytes_);
    soft_limit_bytes_ = settings.soft_limit_bytes.value_or(soft_limit_bytes_);
    slow_factor_ = settings.slow_factor.value_or(slow_factor_);
    hold_ = settings.hold.value_or(hold_);
    if (settings.fail) {
      fail_ = *settings.fail;
      seen_by_rule_ = 0;
    }
    if (settings.reset_peak) {
      settle_late_releases();
      ours_peak_bytes_ = ours_bytes_;
    }
  }
  released_.notify_all();
}

FakeStatus FakeDevice::status() const {
  const std::lock_guard lock(mutex_);
  settle_late_releases();
  FakeStatus status;
  status.total_bytes = total_bytes_;
  status.ours_bytes = ours_bytes_;
  status.ours_peak_bytes = ours_peak_bytes_;
  status.others_bytes = others_bytes_;
  status.used_bytes = ours_bytes_ + others_bytes_;
  status.page_bytes = storage_->page_bytes();
  status.live_handles = storage_->live_handles();
  status.live_mappings = storage_->live_mappings();
  status.calls = calls_;
  for (std::size_t stream_idx = 0; stream_idx < kStreamCount; ++stream_idx) {
    status.fences_made[stream_idx] = fences_[stream_idx].made;
    status.fences_done[stream_idx] = fences_[stream_idx].done;
  }
  return status;
}

void FakeDevice::hold_fences(bool held) {
  const std::lock_guard lock(mutex_);
  fences_held_ = held;
  if (held) return;
  for (FenceCounts& counts : fences_) counts.done = counts.made;
}

void FakeDevice::complete_fences(Stream stream, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  FenceCounts& counts = fences_[static_cast<std::size_t>(stream)];
  counts.done += std::min(count, counts.made - counts.done);
}

Status FakeDevice::alive() const {
  if (lost_) return fail(ErrorCode::DeviceLost, fmt::format("{} is lost; restart ebb", name_));
  return {};
}

Result<bool> FakeDevice::enter(FakeCall call, std::uint64_t count) {
  EBB_TRY(alive());
  calls_[static_cast<std::size_t>(call)] += count;
  if (!fail_ || (fail_->call != call && fail_->call != FakeCall::Lost)) return false;
  const std::uint64_t first = seen_by_rule_ + 1;
  seen_by_rule_ += count;
  if (seen_by_rule_ < fail_->nth || first >= fail_->nth + fail_->count) return false;
  if (fail_->call != FakeCall::Lost) return true;
  lost_ = true;
  released_.notify_all();
  return tl::unexpected<Error>(alive().error());
}

tl::unexpected<Error> FakeDevice::out_of_memory(std::string_view what, std::size_t wanted_bytes) const {
  Error error{ErrorCode::OutOfMemory,
              fmt::format("{} has no {} for {}: {} of {} used", name_, what, format_bytes(wanted_bytes),
                          format_bytes(ours_bytes_ + others_bytes_), format_bytes(total_bytes_))};
  error.memory = MemoryFacts{wanted_bytes, free_bytes(), 0, {}};
  return tl::unexpected<Error>(std::move(error));
}

std::size_t FakeDevice::free_bytes() const {
  const std::size_t for_us = total_bytes_ - std::min(total_bytes_, others_bytes_);
  return for_us - std::min(for_us, ours_bytes_);
}

void FakeDevice::settle_late_releases() const {
  const auto now = std::chrono::steady_clock::now();
  while (!late_releases_.empty() && late_releases_.front().due <= now) {
    ours_bytes_ -= late_releases_.front().bytes;
    late_releases_.pop_front();
  }
}

}  // namespace ebb::device
