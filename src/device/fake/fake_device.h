// A card that is not there: the behaviour of a driver over real host memory, so that CPU kernels run on it. Finite,
// shared with others, failing and slow where it is told to be. Its own counters, never the ledger, are what tests and
// users believe. Called through Device by everyone, by name only by device_spec.h, tests and whoever shows its status.
// Invariant: used = ours + others; ours is what was created and not yet given back, late releases included.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "device/device.h"
#include "device/fake/fake_settings.h"
#include "device/host/host_device.h"

namespace ebb::device {

/// One instant of the fake's own books.
struct FakeStatus {
  std::size_t total_bytes = 0;
  std::size_t used_bytes = 0;
  std::size_t ours_bytes = 0;
  std::size_t ours_peak_bytes = 0;
  std::size_t others_bytes = 0;
  std::size_t page_bytes = 0;
  std::size_t live_handles = 0;
  std::size_t live_mappings = 0;
  std::array<std::uint64_t, kFakeCallCount> calls{};  // attempts by FakeCall; a map of n handles is n calls, fill_zero a copy
  std::array<std::uint64_t, kStreamCount> fences_made{};
  std::array<std::uint64_t, kStreamCount> fences_done{};

  [[nodiscard]] std::uint64_t calls_of(FakeCall call) const { return calls[static_cast<std::size_t>(call)]; }
};

class FakeDevice final : public Device {
 public:
  /// `page_bytes` as HostDevice::open. Errors: as HostDevice::open.
  [[nodiscard]] static Result<std::unique_ptr<FakeDevice>> open(std::size_t total_bytes, std::size_t page_bytes);

  [[nodiscard]] Kind kind() const override { return Kind::Fake; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t page_bytes() const override { return storage_->page_bytes(); }

  [[nodiscard]] Result<AddressRange> reserve(std::size_t bytes) override;
  [[nodiscard]] Status free_addresses(AddressRange range) override;
  [[nodiscard]] Result<Handle> create(std::size_t bytes) override;
  [[nodiscard]] Status release(Handle handle) override;
  [[nodiscard]] Status map(std::byte* address, std::span<const Handle> handles) override;
  [[nodiscard]] Status set_access(std::byte* address, std::size_t bytes, Access access) override;
  [[nodiscard]] Status unmap(std::byte* address, std::size_t bytes) override;
  [[nodiscard]] Result<MemInfo> mem_info() override;
  [[nodiscard]] Result<Fence> fence(Stream stream) override;
  [[nodiscard]] Result<bool> done(Fence fence) override;
  /// Work ends when it is waited for: a held fence is done on return.
  [[nodiscard]] Status wait(Fence fence) override;
  [[nodiscard]] Status copy(Stream stream, void* target, const void* source, std::size_t bytes) override;
  [[nodiscard]] Status fill_zero(std::byte* address, std::size_t bytes) override;
  /// Takes at least step_ms; slow_factor times as long (of at least 1 ms) while used bytes are over the soft limit.
  [[nodiscard]] Status begin_step(Step step) override;

  void apply(const FakeSettings& settings);
  [[nodiscard]] FakeStatus status() const;

  /// From now on fences are done only when complete_fences() or wait() says so; false completes all.
  void hold_fences(bool held);
  /// Lets up to `count` more fences of `stream` pass, oldest first.
  void complete_fences(Stream stream, std::uint64_t count);

 private:
  struct LateRelease {
    std::chrono::steady_clock::time_point due;
    std::size_t bytes = 0;
  };
  struct FenceCounts {
    std::uint64_t made = 0;
    std::uint64_t done = 0;
  };

  FakeDevice(std::unique_ptr<HostDevice> storage, std::size_t total_bytes);

  // All below need the lock.
  [[nodiscard]] Status alive() const;
  /// Counts `count` calls; true when one of them shall fail. Errors: DeviceLost.
  [[nodiscard]] Result<bool> enter(FakeCall call, std::uint64_t count);
  [[nodiscard]] tl::unexpected<Error> out_of_memory(std::string_view what, std::size_t wanted_bytes) const;
  [[nodiscard]] std::size_t free_bytes() const;
  void settle_late_releases() const;

  const std::unique_ptr<HostDevice> storage_;
  const std::string name_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable released_;
  std::size_t total_bytes_;
  std::size_t others_bytes_ = 0;
  std::size_t reserve_limit_bytes_;
  std::size_t soft_limit_bytes_;
  double slow_factor_ = 1;
  std::chrono::milliseconds step_ms_{0};
  std::chrono::milliseconds release_ms_{0};
  std::optional<Step> hold_;
  std::optional<FailRule> fail_;
  std::uint64_t seen_by_rule_ = 0;
  bool lost_ = false;
  std::array<std::uint64_t, kFakeCallCount> calls_{};

  std::size_t reserved_bytes_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> handle_bytes_;
  mutable std::size_t ours_bytes_ = 0;             // falls when a late release is noticed
  mutable std::deque<LateRelease> late_releases_;  // in order of due time
  std::size_t ours_peak_bytes_ = 0;
  bool fences_held_ = false;
  std::array<FenceCounts, kStreamCount> fences_{};
};

}  // namespace ebb::device
