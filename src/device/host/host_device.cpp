#include "device/host/host_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "device/internal/host_memory.h"

namespace ebb::device {
namespace {

constexpr int kReservedFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::size_t kStoreStepBytes = 64 * kMiB;  // the memfd is sparse: growing it early costs nothing

tl::unexpected<Error> refused(std::string what, std::size_t wanted_bytes) {
  const int reason = errno;
  Error error{ErrorCode::OutOfMemory,
              fmt::format("the operating system refused {}: {}. {}", what, std::strerror(reason),
                          reason == ENOMEM
                              ? "Free memory, or raise vm.max_map_count and the limit on address space (ulimit -v)."
                              : "See `ebb doctor` for the limits of this machine.")};
  error.memory = MemoryFacts{wanted_bytes, read_host_memory().available_bytes, 0, {}};
  return tl::unexpected<Error>(std::move(error));
}

int protection(Access access) {
  switch (access) {
    case Access::None:
      return PROT_NONE;
    case Access::Read:
      return PROT_READ;
    case Access::ReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

}  // namespace

Result<std::unique_ptr<HostDevice>> HostDevice::open(std::size_t page_bytes) {
  const auto os_page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EBB_CHECK(std::has_single_bit(page_bytes) && page_bytes % os_page_bytes == 0,
            "page of {} bytes, operating system page {}", page_bytes, os_page_bytes);
  const int store = ::memfd_create("ebb", MFD_CLOEXEC);
  if (store < 0) return refused("a memory file (memfd_create)", page_bytes);
  return std::unique_ptr<HostDevice>(new HostDevice(store, page_bytes));
}

HostDevice::HostDevice(int store, std::size_t page_bytes) : store_(store), page_bytes_(page_bytes) {}

HostDevice::~HostDevice() {
  for (const auto& [address, bytes] : books_.ranges()) ::munmap(address, bytes);
  ::close(store_);
}

Result<AddressRange> HostDevice::reserve(std::size_t bytes) {
  EBB_CHECK(bytes != 0 && bytes % page_bytes_ == 0, "{} bytes, page {}", bytes, page_bytes_);
  void* address = ::mmap(nullptr, bytes, PROT_NONE, kReservedFlags, -1, 0);
  if (address == MAP_FAILED) return refused(fmt::format("{} of addresses", format_bytes(bytes)), bytes);
  const std::lock_guard lock(mutex_);
  const AddressRange range{static_cast<std::byte*>(address), bytes};
  books_.add_range(range);
  return range;
}

Status HostDevice::free_addresses(AddressRange range) {
  const std::lock_guard lock(mutex_);
  books_.check_range_is_free(range);
  ::munmap(range.data, range.bytes);
  books_.remove_range(range);
  return {};
}

Result<Handle> HostDevice::create(std::size_t bytes) {
  EBB_CHECK(bytes != 0 && bytes % page_bytes_ == 0, "{} bytes, page {}", bytes, page_bytes_);
  const std::lock_guard lock(mutex_);
  const std::size_t offset = extents_.take(bytes);
  if (extents_.end() > store_bytes_) {
    const std::size_t wanted_bytes = round_up(extents_.end(), kStoreStepBytes);
    if (::ftruncate(store_, static_cast<off_t>(wanted_bytes)) != 0) {
      auto error = refused(fmt::format("a memory file of {}", format_bytes(wanted_bytes)), bytes);
      extents_.give_back(offset, bytes);
      return error;
    }
    store_bytes_ = wanted_bytes;
  }
  books_.add_handle(Handle{offset}, bytes);
  return Handle{offset};
}

Status HostDevice::release(Handle handle) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = books_.check_handle_is_free(handle);
  // Unmapping alone leaves the pages with the memfd; only a hole gives them back.
  if (::fallocate(store_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle.value),
                  static_cast<off_t>(bytes)) != 0)
    return fail(ErrorCode::Io, fmt::format("the operating system did not take back {}: {}", format_bytes(bytes),
                                           std::strerror(errno)));
  extents_.give_back(handle.value, bytes);
  books_.remove_handle(handle);
  return {};
}

Status HostDevice::map(std::byte* address, std::span<const Handle> handles) {
  const std::lock_guard lock(mutex_);
  const std::size_t total_bytes = books_.check_can_map(address, handles);
  std::byte* target = address;
  for (std::size_t first = 0; first < handles.size();) {
    std::size_t run_bytes = 0;
    std::size_t last = first;  // handles [first, last) lie side by side in the store: one call maps them
    while (last < handles.size() && handles[last].value == handles[first].value + run_bytes)
      run_bytes += books_.bytes_of(handles[last++]);
    if (::mmap(target, run_bytes, PROT_NONE, MAP_FIXED | MAP_SHARED, store_,
               static_cast<off_t>(handles[first].value)) == MAP_FAILED) {
      auto error = refused(fmt::format("to map {}", format_bytes(run_bytes)), total_bytes);
      if (target != address)
        ::mmap(address, static_cast<std::size_t>(target - address), PROT_NONE, MAP_FIXED | kReservedFlags, -1, 0);
      return error;
    }
    target += run_bytes;
    first = last;
  }

  books_.add_mappings(address, handles);
  return {};
}

Status HostDevice::set_access(std::byte* address, std::size_t bytes, Access access) {
  const std::lock_guard lock(mutex_);
  books_.check_is_whole(address, bytes);
  if (::mprotect(address, bytes, protection(access)) != 0)
    return refused(fmt::format("access to {}", format_bytes(bytes)), bytes);
  return {};
}

Status HostDevice::unmap(std::byte* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  books_.check_is_whole(address, bytes);
  if (::mmap(address, bytes, PROT_NONE, MAP_FIXED | kReservedFlags, -1, 0) == MAP_FAILED)
    return fail(ErrorCode::Io,
                fmt::format("the operating system did not unmap {}: {}", format_bytes(bytes), std::strerror(errno)));
  books_.remove_mappings(address, bytes);
  return {};
}

Result<MemInfo> HostDevice::mem_info() {
  const HostMemory memory = read_host_memory();
  MemInfo info;
  info.total_bytes = memory.total_bytes;
  info.ours_bytes = std::min(physical_bytes(), info.total_bytes);
  info.free_bytes = std::min(memory.available_bytes, info.total_bytes - info.ours_bytes);
  info.others_bytes = info.total_bytes - info.ours_bytes - info.free_bytes;
  return info;
}

Result<Fence> HostDevice::fence(Stream stream) { return Fence{stream, 0}; }

Result<bool> HostDevice::done(Fence /*fence*/) { return true; }

Status HostDevice::wait(Fence /*fence*/) { return {}; }

Status HostDevice::copy(Stream /*stream*/, void* target, const void* source, std::size_t bytes) {
  if (bytes != 0) std::memcpy(target, source, bytes);
  return {};
}

Status HostDevice::fill_zero(std::byte* address, std::size_t bytes) {
  std::memset(address, 0, bytes);
  return {};
}

Status HostDevice::begin_step(Step /*step*/) { return {}; }

std::size_t HostDevice::physical_bytes() const {
  struct stat status {};
  EBB_CHECK(::fstat(store_, &status) == 0, "fstat of our own memory file: {}", std::strerror(errno));
  return static_cast<std::size_t>(status.st_blocks) * 512;  // st_blocks counts 512-byte units whatever the page size
}

std::size_t HostDevice::live_handles() const {
  const std::lock_guard lock(mutex_);
  return books_.handle_count();
}

std::size_t HostDevice::live_mappings() const {
  const std::lock_guard lock(mutex_);
  return books_.mappings().size();
}

}  // namespace ebb::device
