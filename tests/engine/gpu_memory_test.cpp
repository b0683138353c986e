// The line of ebb::gpu_memory, character by character.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "engine/status.h"

namespace ebb {
namespace {

engine::DeviceStatus device(std::size_t index, double used_gib, double total_gib, const char* backend = "fake") {
  engine::DeviceStatus status;
  status.index = index;
  status.backend = backend;
  status.total_bytes = static_cast<std::size_t>(total_gib * static_cast<double>(kGiB));
  status.free_bytes = status.total_bytes - static_cast<std::size_t>(used_gib * static_cast<double>(kGiB));
  return status;
}

TEST(GpuMemory, IsExactlyTheKnownText) {
  engine::MemoryStatus status;
  EXPECT_EQ(gpu_memory(status), "");
  status.devices = {device(0, 18.2, 24)};
  EXPECT_EQ(gpu_memory(status), "GPU 0: 18.2/24.0 GB (75.8%)");
  status.devices.push_back(device(1, 12.4, 24));
  EXPECT_EQ(gpu_memory(status), "GPU 0: 18.2/24.0 GB (75.8%) GPU 1: 12.4/24.0 GB (51.7%)");
}

TEST(GpuMemory, CountsWhatTheDeviceCallsUsedWhoeverUsesIt) {
  engine::MemoryStatus status;
  status.devices = {device(0, 6, 24)};
  status.devices[0].used_by_us_bytes = 2 * kGiB;
  status.devices[0].others_bytes = 4 * kGiB;
  EXPECT_EQ(gpu_memory(status), "GPU 0: 6.0/24.0 GB (25.0%)");
}

TEST(GpuMemory, EdgesAndTheHost) {
  engine::MemoryStatus status;
  status.devices = {device(0, 24, 24), device(1, 0, 24), device(2, 0, 0), device(3, 4, 16, "host")};
  EXPECT_EQ(
      gpu_memory(status),
      "GPU 0: 24.0/24.0 GB (100.0%) GPU 1: 0.0/24.0 GB (0.0%) GPU 2: 0.0/0.0 GB (0.0%) CPU 3: 4.0/16.0 GB (25.0%)");
}

}  // namespace
}  // namespace ebb
