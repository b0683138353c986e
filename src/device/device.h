// The seam to hardware: addresses, physical pages, mappings, streams and copies, one contract for every backend.
// Knows no owner, no tag and no policy: only memory/ creates, maps or releases through it; kernels see addresses.
// Invariant: what was created and not released is exactly what mem_info() counts as ours (the host backend counts
// pages from their first touch).
//
// Preconditions of every call below; breaking one is a failed check, never an error value:
// - sizes and addresses are multiples of page_bytes(), sizes are not zero (copies may have any size and alignment);
// - map() goes to reserved addresses that are not mapped; set_access() and unmap() cover whole mappings without holes;
// - unmap() comes after a fence of every stream that may still use the range: no backend waits for running work;
// - release() comes after the last mapping of the handle is gone, free_addresses() after the last mapping in the range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace ebb::device {

/// Addresses without memory. A plain value: whoever reserved it frees it.
struct AddressRange {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Physical memory without an address. A plain value: whoever created it releases it.
struct Handle {
  std::uint64_t value = 0;
  friend bool operator==(Handle, Handle) = default;
};

enum class Access : std::uint8_t { None, Read, ReadWrite };

/// Every device has these two; a fence on both covers all work that was given to it.
enum class Stream : std::uint8_t { Compute, Copy };
inline constexpr std::size_t kStreamCount = 2;

/// A point in a stream's order. Fences of one stream complete in the order of `value`.
struct Fence {
  Stream stream = Stream::Compute;
  std::uint64_t value = 0;
};

/// One instant. total = free + ours + context + others; where a device is oversubscribed (it shrank, or another program took more
/// than was left) free is 0 and the others pass total.
struct MemInfo {
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t ours_bytes = 0;
  std::size_t context_bytes = 0;  // the driver's own for this process: context, code, graphs; 0 on host and fake devices
  std::size_t others_bytes = 0;   // and the context, where the driver does not tell what this process uses
};

/// The kinds of pass the engine announces with begin_step().
enum class Step : std::uint8_t { Prefill, Decode, Tower };

enum class Kind : std::uint8_t { Host, Fake, Cuda };

/// Threads  every member is safe from any thread.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;  // handles and addresses belong to one device object
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual Kind kind() const = 0;
  /// For people: "cpu", "fake 16.0 GiB", "cuda:0 NVIDIA H200".
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The granule: the least size that can be created, mapped and given back; a power of two, constant.
  [[nodiscard]] virtual std::size_t page_bytes() const = 0;

  /// Takes addresses, no memory. Reading or writing them faults. What is mapped there is the device's: only the addresses
  /// of host and fake devices may be read and written by the host itself; a card's are reached through copy().
  /// Errors   OutOfMemory when so many addresses are refused; a smaller wish may be met. DeviceLost.
  [[nodiscard]] virtual Result<AddressRange> reserve(std::size_t bytes) = 0;
  [[nodiscard]] virtual Status free_addresses(AddressRange range) = 0;

  /// Makes physical memory. Its contents are undefined: zero, or what an earlier owner in this process left.
  /// Errors   OutOfMemory{wanted, free}, not sticky. DeviceLost.
  [[nodiscard]] virtual Result<Handle> create(std::size_t bytes) = 0;
  /// Gives physical memory back to the driver. Errors: Io (the handle is still ours; try again). DeviceLost.
  [[nodiscard]] virtual Status release(Handle handle) = 0;

  /// Binds handles to addresses from `address` on, in order and without gaps. A handle may be bound at several places.
  /// The new mappings have no access.
  /// Errors   OutOfMemory (page tables, mapping limit): nothing of this call stays mapped. DeviceLost.
  [[nodiscard]] virtual Status map(std::byte* address, std::span<const Handle> handles) = 0;
  /// Errors   OutOfMemory: access is as before. DeviceLost.
  [[nodiscard]] virtual Status set_access(std::byte* address, std::size_t bytes, Access access) = 0;
  /// The range is reserved again, without memory; touching it faults. Errors: Io (all is as before). DeviceLost.
  [[nodiscard]] virtual Status unmap(std::byte* address, std::size_t bytes) = 0;

  /// Costs a driver call: not for the step loop.
  [[nodiscard]] virtual Result<MemInfo> mem_info() = 0;

  /// A fence behind all work given to `stream` so far. Errors: DeviceLost.
  [[nodiscard]] virtual Result<Fence> fence(Stream stream) = 0;
  /// Does not wait. Errors: DeviceLost.
  [[nodiscard]] virtual Result<bool> done(Fence fence) = 0;
  /// Returns when the fence is done. Errors: DeviceLost.
  [[nodiscard]] virtual Status wait(Fence fence) = 0;

  /// Copies between addresses of this device, or between it and ordinary host memory, in the stream's order. Both sides
  /// stay valid until a later fence of the stream is done; they do not overlap.
  /// Errors   Io: the target's contents are undefined. DeviceLost.
  [[nodiscard]] virtual Status copy(Stream stream, void* target, const void* source, std::size_t bytes) = 0;

  /// Lets copies between this device and host memory run at the bus's speed, beside other work: the system no longer moves
  /// those pages. Whole pages of the operating system, which stay mapped until unpin(). Copies are right without it, too.
  /// Errors   OutOfMemory, Io: too much is locked, or the system refuses; copies go on as before. DeviceLost.
  [[nodiscard]] virtual Status pin(std::byte* /*host*/, std::size_t /*bytes*/) { return {}; }
  /// `host` is an address that pin() had; no copy of it is under way.
  [[nodiscard]] virtual Status unpin(std::byte* /*host*/) { return {}; }

  /// Writes zeros to committed memory of this device. On return they are what any later work on any stream sees.
  /// Errors   Io: the contents are undefined. DeviceLost.
  [[nodiscard]] virtual Status fill_zero(std::byte* address, std::size_t bytes) = 0;

  /// The engine announces each pass before it starts. Errors: Io, OutOfMemory or DeviceLost where the pass cannot run.
  [[nodiscard]] virtual Status begin_step(Step step) = 0;
};

}  // namespace ebb::device
