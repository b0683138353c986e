#include "device/device_spec.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <system_error>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/fake/fake_device.h"
#include "device/host/host_device.h"

namespace ebb::device {
namespace {

constexpr std::string_view kFakePrefix = "fake:";
constexpr std::string_view kCuda = "cuda";
constexpr std::size_t kDefaultFakePageBytes = 2 * kMiB;
constexpr std::size_t kLargestPageBytes = 32 * kMiB;  // coarser pages would waste more than any conversation holds
constexpr std::size_t kLargestFakeBytes = std::size_t{1} << 46;  // half of the addresses a process has

bool is_cpu(std::string_view word) { return word.empty() || word == "cpu" || word == "host" || word == "none"; }

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t comma = text.find(',');
    words.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

/// parse_bytes with the flag in front of its complaint.
Result<std::size_t> parse_flag_bytes(std::string_view flag, std::string_view text) {
  Result<std::size_t> bytes = parse_bytes(text);
  if (!bytes) return fail(bytes.error().code, fmt::format("{}: {}", flag, bytes.error().message));
  return bytes;
}

Result<std::size_t> parse_page(std::string_view text) {
  if (text.empty()) return kDefaultFakePageBytes;
  const auto least_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EBB_TRY_ASSIGN(const std::size_t bytes, parse_flag_bytes("--fake-page", text));
  if (!std::has_single_bit(bytes) || bytes < least_bytes || bytes > kLargestPageBytes)
    return fail(ErrorCode::InvalidArgument,
                fmt::format("--fake-page {}: a page is a power of two from {} to {}, for instance 64KiB", text,
                            format_bytes(least_bytes), format_bytes(kLargestPageBytes)));
  return bytes;
}

bool is_fake(std::string_view word) { return word.substr(0, kFakePrefix.size()) == kFakePrefix; }

Result<std::unique_ptr<FakeDevice>> open_fake(std::string_view word, std::size_t page_bytes) {
  EBB_TRY_ASSIGN(const std::size_t total_bytes,
                 parse_flag_bytes(fmt::format("-dev {}", word), word.substr(kFakePrefix.size())));
  if (total_bytes < page_bytes || total_bytes > kLargestFakeBytes)
    return fail(ErrorCode::InvalidArgument, fmt::format("-dev {}: a fake card has from one page ({}) to {}", word,
                                                        format_bytes(page_bytes), format_bytes(kLargestFakeBytes)));
  return FakeDevice::open(total_bytes, page_bytes);
}

/// "cuda" is the first card, "cuda:1" the second.
bool is_cuda(std::string_view word) {
  return word == kCuda || (word.substr(0, kCuda.size()) == kCuda && word.substr(kCuda.size(), 1) == ":");
}

Result<std::unique_ptr<CudaDevice>> open_cuda(std::string_view word) {
  int ordinal = 0;
  if (word != kCuda) {
    const std::string_view digits = word.substr(kCuda.size() + 1);
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (fault != std::errc() || end != digits.data() + digits.size() || ordinal < 0)
      return fail(ErrorCode::InvalidArgument,
                  fmt::format("-dev {}: \"{}\" is no card's number; use cuda:0, cuda:1, ...", word, digits));
  }
  Result<const cuda::Driver*> driver = cuda::open_driver();
  if (!driver) return fail(driver.error().code, fmt::format("-dev {}: {}", word, driver.error().message));
  return CudaDevice::open(**driver, ordinal);
}

}  // namespace

Result<std::vector<std::unique_ptr<Device>>> open_devices(const DeviceSpec& spec) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<FakeDevice*> fakes;
  if (is_cpu(spec.devices)) {
    EBB_TRY_ASSIGN(auto host, HostDevice::open());
    devices.push_back(std::move(host));
  } else {
    EBB_TRY_ASSIGN(const std::size_t page_bytes, parse_page(spec.fake_page));
    for (const std::string_view word : split(spec.devices)) {
      if (is_cuda(word)) {
        EBB_TRY_ASSIGN(auto card, open_cuda(word));
        devices.push_back(std::move(card));
      } else if (is_fake(word)) {
        EBB_TRY_ASSIGN(auto fake, open_fake(word, page_bytes));
        fakes.push_back(fake.get());
        devices.push_back(std::move(fake));
      } else {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("-dev {}: no such device; use cpu, a list of cards such as cuda:0,cuda:1, or of fake cards "
                                "such as fake:16GiB,fake:8GiB",
                                word));
      }
    }
  }
  if (fakes.empty() && (!spec.fake_page.empty() || !spec.fake_settings.empty()))
    return fail(ErrorCode::InvalidArgument, fmt::format("{} is set, but no device is fake; add -dev fake:16GiB",
                                                        spec.fake_page.empty() ? "EBB_FAKE" : "--fake-page"));
  if (!spec.fake_settings.empty()) {
    EBB_TRY_ASSIGN(const FakeSettings settings, parse_fake_settings(spec.fake_settings));
    if (settings.device_idx >= fakes.size())
      return fail(ErrorCode::InvalidArgument,
                  fmt::format("EBB_FAKE: device {} of {}; they are counted from 0", settings.device_idx, fakes.size()));
    fakes[settings.device_idx]->apply(settings);
  }
  return devices;
}

}  // namespace ebb::device
