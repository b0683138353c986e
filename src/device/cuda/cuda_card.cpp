#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "device/internal/cuda_card.h"
#include "device/internal/nvml.h"

namespace ebb::device::cuda {
namespace {

constexpr std::size_t kLargestPageBytes = 32 * kMiB;  // coarser pages would waste more than any conversation holds

std::string describe(const char* verb, std::size_t bytes) {
  return bytes == 0 ? std::string(verb) : fmt::format("{} {}", verb, format_bytes(bytes));
}

}  // namespace

Result<std::shared_ptr<CudaCard>> CudaCard::open(const Driver& driver, int ordinal) {
  static std::mutex mutex;
  static std::map<std::pair<const Driver*, int>, std::weak_ptr<CudaCard>> cards;
  const std::lock_guard lock(mutex);
  std::weak_ptr<CudaCard>& known = cards[{&driver, ordinal}];
  if (std::shared_ptr<CudaCard> card = known.lock()) return card;

  int count = 0;
  if (const Code code = driver.device_count(&count); code != kSuccess)
    return tl::unexpected<Error>(driver_error(driver, code, "count its cards"));
  if (ordinal < 0 || ordinal >= count)
    return fail(ErrorCode::InvalidArgument,
                fmt::format("-dev cuda:{}: {} NVIDIA card{} visible to this process, counted from 0; see nvidia-smi and "
                            "CUDA_VISIBLE_DEVICES",
                            ordinal, count, count == 1 ? " is" : "s are"));
  Ordinal device = 0;
  if (const Code code = driver.device_get(&device, ordinal); code != kSuccess)
    return tl::unexpected<Error>(driver_error(driver, code, fmt::format("open card {}", ordinal)));
  std::shared_ptr<CudaCard> card(new CudaCard(driver, device));
  EBB_TRY(card->start());
  known = card;
  return card;
}

Status CudaCard::start() {
  std::array<char, 256> text{};
  EBB_TRY(check(driver_.device_name(text.data(), static_cast<int>(text.size()), ordinal_), "tell a card's name"));
  model_ = text.data();
  EBB_TRY(check(driver_.device_pci(text.data(), static_cast<int>(text.size()), ordinal_), "tell a card's place"));
  pci_bus_id_ = text.data();
  int can_map = 0;
  EBB_TRY(check(driver_.device_attribute(&can_map, kVirtualMemoryManagement, ordinal_), "tell what a card can do"));
  if (can_map == 0)
    return fail(ErrorCode::Unsupported,
                fmt::format("{}: its driver cannot map pages (virtual memory management), which Ebb's memory is made of; a "
                            "newer driver, or a virtual card with that feature, is needed. Use -dev cpu",
                            model_));
  EBB_TRY(check(driver_.context_retain(&context_, ordinal_), "make a context on a card"));
  AllocationProperties properties;
  properties.location.id = ordinal_;
  EBB_TRY(check(driver_.granularity(&page_bytes_, &properties, 0), "tell its page size"));
  if (!std::has_single_bit(page_bytes_) || page_bytes_ > kLargestPageBytes)
    return fail(ErrorCode::Unsupported, fmt::format("{}: its driver's pages have {} bytes; Ebb needs a power of two up to {}",
                                                    model_, page_bytes_, format_bytes(kLargestPageBytes)));
  return {};
}

CudaCard::~CudaCard() {
  if (context_ != nullptr) driver_.context_release(ordinal_);
}

Status CudaCard::enter() {
  if (const Code lost = lost_; lost != kSuccess) return check(lost, "go on after an earlier fault");
  return check(driver_.context_set_current(context_), "make its context current");
}

Status CudaCard::check(Code code, const char* verb, std::size_t bytes) {
  if (code == kSuccess) return {};
  Error error = driver_error(driver_, code, describe(verb, bytes));
  if (error.code == ErrorCode::DeviceLost) lost_ = code;
  if (error.code == ErrorCode::OutOfMemory) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver_.memory_info(&free_bytes, &total_bytes) != kSuccess) free_bytes = 0;
    error.memory = MemoryFacts{bytes, free_bytes, 0, {}};
    error.message += fmt::format("; {} of {} are free", format_bytes(free_bytes), format_bytes(total_bytes));
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<MemInfo> CudaCard::mem_info(std::size_t ours_bytes) {
  EBB_TRY(enter());
  const std::size_t created_bytes = created_bytes_;
  MemInfo info;
  EBB_TRY(check(driver_.memory_info(&info.free_bytes, &info.total_bytes), "tell its free memory"));
  info.free_bytes = std::min(info.free_bytes, info.total_bytes);
  info.ours_bytes = ours_bytes;
  std::size_t rest = info.total_bytes - info.free_bytes;
  rest -= std::min(rest, ours_bytes);
  // Without NVML's word on this process the context cannot be told from other programs, and is counted with them.
  const std::size_t process = process_bytes(pci_bus_id_).value_or(0);
  info.context_bytes = std::min(rest, process - std::min(process, created_bytes));
  info.others_bytes = rest - info.context_bytes;
  return info;
}

}  // namespace ebb::device::cuda
