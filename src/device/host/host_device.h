// The CPU as a device: one memfd is the physical memory, a handle is a range of it, a mapping is a shared mapping of
// that range into reserved addresses. Behaves like a card where it can: a forgotten set_access or a use after unmap
// faults, one page can be mapped twice, a release really shrinks the process. Linux only.
// Memory appears at first touch; streams are the caller's own order, so every fence is done when it is made.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "device/device.h"
#include "device/internal/extents.h"
#include "device/internal/mapping_books.h"

namespace ebb::device {

/// Source   docs/decisions/0004-host-page-size.md
inline constexpr std::size_t kHostPageBytes = std::size_t{64} << 10;

class HostDevice final : public Device {
 public:
  /// `page_bytes` is a power of two and a multiple of the operating system's page.
  /// Errors   OutOfMemory or Io when the operating system refuses the memfd.
  [[nodiscard]] static Result<std::unique_ptr<HostDevice>> open(std::size_t page_bytes = kHostPageBytes);
  ~HostDevice() override;

  [[nodiscard]] Kind kind() const override { return Kind::Host; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t page_bytes() const override { return page_bytes_; }

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
  [[nodiscard]] Status fill_zero(std::byte* address, std::size_t bytes) override;
  [[nodiscard]] Status begin_step(Step step) override;

  /// Bytes the store physically holds: touched and not released. Costs a system call.
  [[nodiscard]] std::size_t physical_bytes() const;
  [[nodiscard]] std::size_t live_handles() const;
  [[nodiscard]] std::size_t live_mappings() const;

 private:
  HostDevice(int store, std::size_t page_bytes);

  const int store_;  // the memfd; a handle's value is its offset in it
  const std::size_t page_bytes_;
  const std::string name_ = "cpu";

  mutable std::mutex mutex_;  // guards all below
  Extents extents_;
  std::size_t store_bytes_ = 0;
  MappingBooks books_;
};

}  // namespace ebb::device
