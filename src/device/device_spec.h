// From what a user writes to open devices: -dev, --fake-page and EBB_FAKE.
// Refuses what it does not know, with the spelling that works. Called once at the start by whoever owns the devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace ebb::device {

struct DeviceSpec {
  std::string devices;        // "", "cpu", "host", "none": the CPU; or a list: "cuda", "cuda:1", "fake:16GiB"
  std::string fake_page;      // "64KiB"; empty: 2 MiB, as cards have it
  std::string fake_settings;  // the value of EBB_FAKE; empty: none
};

/// At least one device, in the order written; the same card may be listed more than once.
/// Errors   InvalidArgument: the sentence names what was found and what is accepted. NotFound, Unsupported: there is no
///          usable NVIDIA driver or card. OutOfMemory, Io from the system.
[[nodiscard]] Result<std::vector<std::unique_ptr<Device>>> open_devices(const DeviceSpec& spec);

}  // namespace ebb::device
