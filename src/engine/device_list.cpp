#include "engine/internal/device_list.h"

#include <fmt/format.h>

#include <cstdlib>

#include "device/device_spec.h"

namespace ebb::engine {

Result<std::vector<std::unique_ptr<device::Device>>> open_device_list(const std::string& spec, std::size_t fake_page_bytes) {
  device::DeviceSpec wanted;
  wanted.devices = spec;
  if (fake_page_bytes != 0) wanted.fake_page = fmt::format("{}", fake_page_bytes);
  if (const char* settings = std::getenv("EBB_FAKE")) wanted.fake_settings = settings;
  return device::open_devices(wanted);
}

}  // namespace ebb::engine
