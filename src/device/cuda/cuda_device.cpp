#include "device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace ebb::device {
namespace {

cuda::Address address_of(const void* pointer) { return reinterpret_cast<cuda::Address>(pointer); }

int access_flags(Access access) {
  switch (access) {
    case Access::None:
      return 0;
    case Access::Read:
      return 1;
    case Access::ReadWrite:
      return 3;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const cuda::Driver& driver, int ordinal) {
  EBB_TRY_ASSIGN(auto card, cuda::CudaCard::open(driver, ordinal));
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(card)));
  EBB_TRY(device->start());
  return device;
}

CudaDevice::CudaDevice(std::shared_ptr<cuda::CudaCard> card)
    : card_(std::move(card)), name_(fmt::format("cuda:{} {}", card_->ordinal(), card_->model())) {}

Status CudaDevice::start() {
  EBB_TRY(card_->enter());
  for (cuda::StreamRef& stream : streams_)
    EBB_TRY(card_->check(driver().stream_create(&stream, cuda::kStreamNonBlocking), "make a stream"));
  for (std::size_t i = 0; i < kStreamCount; ++i) fences_[i] = std::make_unique<cuda::FenceLine>(driver(), streams_[i]);
  return {};
}

CudaDevice::~CudaDevice() {
  // On a lost context every call fails, and the driver takes all back at the end of the process.
  if (!card_->enter()) return;
  for (const cuda::StreamRef stream : streams_) {
    if (stream != nullptr) driver().stream_synchronize(stream);
  }
  for (std::unique_ptr<cuda::FenceLine>& line : fences_) line.reset();
  for (const cuda::StreamRef stream : streams_) {
    if (stream != nullptr) driver().stream_destroy(stream);
  }
  for (const auto& [address, mapping] : books_.mappings()) driver().memory_unmap(address_of(address), mapping.bytes);
  books_.each_handle([this](Handle handle) { driver().memory_release(handle.value); });
  card_->count_released(books_.created_bytes());
  for (const auto& [address, bytes] : books_.ranges()) driver().address_free(address_of(address), bytes);
}

Result<AddressRange> CudaDevice::reserve(std::size_t bytes) {
  EBB_CHECK(bytes != 0 && bytes % page_bytes() == 0, "{} bytes, page {}", bytes, page_bytes());
  EBB_TRY(card_->enter());
  cuda::Address address = 0;
  const std::lock_guard lock(mutex_);
  EBB_TRY(card_->check(driver().address_reserve(&address, bytes, 0, 0, 0), "reserve addresses for", bytes));
  const AddressRange range{reinterpret_cast<std::byte*>(address), bytes};
  books_.add_range(range);
  return range;
}

Status CudaDevice::free_addresses(AddressRange range) {
  const std::lock_guard lock(mutex_);
  books_.check_range_is_free(range);
  EBB_TRY(card_->enter());
  EBB_TRY(card_->check(driver().address_free(address_of(range.data), range.bytes), "give back addresses of", range.bytes));
  books_.remove_range(range);
  return {};
}

Result<Handle> CudaDevice::create(std::size_t bytes) {
  EBB_CHECK(bytes != 0 && bytes % page_bytes() == 0, "{} bytes, page {}", bytes, page_bytes());
  EBB_TRY(card_->enter());
  cuda::AllocationProperties properties;
  properties.location.id = card_->ordinal();
  cuda::Memory memory = 0;
  const std::lock_guard lock(mutex_);
  EBB_TRY(card_->check(driver().memory_create(&memory, bytes, &properties, 0), "make memory of", bytes));
  books_.add_handle(Handle{memory}, bytes);
  card_->count_created(bytes);
  return Handle{memory};
}

Status CudaDevice::release(Handle handle) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = books_.check_handle_is_free(handle);
  EBB_TRY(card_->enter());
  EBB_TRY(card_->check(driver().memory_release(handle.value), "take back memory of", bytes));
  books_.remove_handle(handle);
  card_->count_released(bytes);
  return {};
}

Status CudaDevice::map(std::byte* address, std::span<const Handle> handles) {
  const std::lock_guard lock(mutex_);
  const std::size_t total_bytes = books_.check_can_map(address, handles);
  EBB_TRY(card_->enter());
  const cuda::Address first = address_of(address);
  std::size_t mapped_bytes = 0;
  for (const Handle handle : handles) {
    const std::size_t bytes = books_.bytes_of(handle);
    const cuda::Code code = driver().memory_map(first + mapped_bytes, bytes, 0, handle.value, 0);
    if (code != cuda::kSuccess) {
      if (mapped_bytes != 0) driver().memory_unmap(first, mapped_bytes);
      return card_->check(code, "map", total_bytes);
    }
    mapped_bytes += bytes;
  }
  books_.add_mappings(address, handles);
  return {};
}

Status CudaDevice::set_access(std::byte* address, std::size_t bytes, Access access) {
  const std::lock_guard lock(mutex_);
  books_.check_is_whole(address, bytes);
  EBB_TRY(card_->enter());
  cuda::AccessDescription description;
  description.location.id = card_->ordinal();
  description.flags = access_flags(access);
  return card_->check(driver().memory_set_access(address_of(address), bytes, &description, 1), "set the access to", bytes);
}

Status CudaDevice::unmap(std::byte* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  books_.check_is_whole(address, bytes);
  EBB_TRY(card_->enter());
  EBB_TRY(card_->check(driver().memory_unmap(address_of(address), bytes), "unmap", bytes));
  books_.remove_mappings(address, bytes);
  return {};
}

Result<MemInfo> CudaDevice::mem_info() {
  const std::lock_guard lock(mutex_);
  return card_->mem_info(books_.created_bytes());
}

Result<Fence> CudaDevice::fence(Stream stream) {
  EBB_TRY(card_->enter());
  Fence fence{stream, 0};
  EBB_TRY(card_->check(fences(stream).record(fence.value), "record a fence"));
  return fence;
}

Result<bool> CudaDevice::done(Fence fence) {
  EBB_TRY(card_->enter());
  bool is_done = false;
  EBB_TRY(card_->check(fences(fence.stream).poll(fence.value, is_done), "run the work before a fence"));
  return is_done;
}

Status CudaDevice::wait(Fence fence) {
  EBB_TRY(card_->enter());
  return card_->check(fences(fence.stream).wait(fence.value), "run the work before a fence");
}

Status CudaDevice::copy(Stream stream, void* target, const void* source, std::size_t bytes) {
  EBB_TRY(card_->enter());
  if (bytes == 0) return {};
  return card_->check(driver().copy(address_of(target), address_of(source), bytes, this->stream(stream)), "copy", bytes);
}

Status CudaDevice::pin(std::byte* host, std::size_t bytes) {
  EBB_TRY(card_->enter());
  return card_->check(driver().host_register(host, bytes, cuda::kRegisterForAllContexts), "pin host memory of", bytes);
}

Status CudaDevice::unpin(std::byte* host) {
  EBB_TRY(card_->enter());
  return card_->check(driver().host_unregister(host), "unpin host memory");
}

Status CudaDevice::fill_zero(std::byte* address, std::size_t bytes) {
  EBB_TRY(card_->enter());
  if (bytes == 0) return {};
  const cuda::StreamRef stream = streams_[kFillStream];
  EBB_TRY(card_->check(driver().fill_bytes(address_of(address), 0, bytes, stream), "write zeros to", bytes));
  return card_->check(driver().stream_synchronize(stream), "write zeros to", bytes);
}

Status CudaDevice::begin_step(Step /*step*/) { return card_->enter(); }

}  // namespace ebb::device
