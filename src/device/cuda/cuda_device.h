// An NVIDIA card through its driver: pages are physical memory of the driver (cuMemCreate) mapped under reserved addresses,
// fences are events, the two streams are the driver's. Opened by device_spec.h and tests; kernels take its streams.
// Its addresses belong to the card: the host reads and writes them through copy() alone; touching them from the host
// faults, and a kernel that touches unmapped ones loses the device for good.
// Invariant: ours is what was created here and not released; the driver's own share of the process is counted apart.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "device/cuda/driver.h"
#include "device/device.h"
#include "device/internal/cuda_card.h"
#include "device/internal/fence_line.h"
#include "device/internal/mapping_books.h"

namespace ebb::device {

class CudaDevice final : public Device {
 public:
  /// The card of that number among those the driver shows (CUDA_VISIBLE_DEVICES); may be opened more than once.
  /// `driver` outlives the device.
  /// Errors   InvalidArgument: no such card; Unsupported: it cannot map pages; OutOfMemory: no room for a context.
  [[nodiscard]] static Result<std::unique_ptr<CudaDevice>> open(const cuda::Driver& driver, int ordinal);
  ~CudaDevice() override;

  [[nodiscard]] Kind kind() const override { return Kind::Cuda; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t page_bytes() const override { return card_->page_bytes(); }

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
  [[nodiscard]] Status wait(Fence fence) override;
  [[nodiscard]] Status copy(Stream stream, void* target, const void* source, std::size_t bytes) override;
  [[nodiscard]] Status pin(std::byte* host, std::size_t bytes) override;
  [[nodiscard]] Status unpin(std::byte* host) override;
  [[nodiscard]] Status fill_zero(std::byte* address, std::size_t bytes) override;
  [[nodiscard]] Status begin_step(Step step) override;

  [[nodiscard]] const cuda::Driver& driver() const { return card_->driver(); }
  [[nodiscard]] cuda::Ordinal ordinal() const { return card_->ordinal(); }
  [[nodiscard]] cuda::StreamRef stream(Stream stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  /// Before calls of the driver that are not made through this device: its context becomes this thread's.
  /// Errors   DeviceLost.
  [[nodiscard]] Status enter() { return card_->enter(); }
  /// The error of such a call; a lost context is remembered. `verb` reads "launch rms_norm".
  [[nodiscard]] Status check(cuda::Code code, const char* verb) { return card_->check(code, verb); }

 private:
  static constexpr std::size_t kFillStream = kStreamCount;  // our third: nothing else ever waits on it

  explicit CudaDevice(std::shared_ptr<cuda::CudaCard> card);
  [[nodiscard]] Status start();
  [[nodiscard]] cuda::FenceLine& fences(Stream stream) { return *fences_[static_cast<std::size_t>(stream)]; }

  const std::shared_ptr<cuda::CudaCard> card_;
  const std::string name_;
  std::array<cuda::StreamRef, kStreamCount + 1> streams_{};
  std::array<std::unique_ptr<cuda::FenceLine>, kStreamCount> fences_;

  std::mutex mutex_;  // guards the books, and keeps them in step with the driver
  MappingBooks books_;
};

}  // namespace ebb::device
