// The devices of an engine, their pools and budgets, and the host pool beside them: where parked chats, rewind records
// and layers without a device live. With the CPU as the device, its pool and the host pool are one.
// Called by everything in engine/ that moves memory. Pools come after the ledger, the ledger after the devices.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/options.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"

namespace ebb::engine {

class DevicePools {
 public:
  /// Errors   InvalidArgument (device list, more limits than devices, a limit of nothing); OutOfMemory, Io.
  [[nodiscard]] static Result<std::unique_ptr<DevicePools>> open(const EngineOptions& options);
  DevicePools(const DevicePools&) = delete;  // pools point at the ledger
  DevicePools& operator=(const DevicePools&) = delete;

  [[nodiscard]] std::size_t count() const { return devices_.size(); }
  [[nodiscard]] device::Device& device(std::size_t device_idx) const { return *devices_[device_idx]; }
  [[nodiscard]] memory::PagePool& pool(std::size_t device_idx) const { return *pools_[device_idx]; }
  [[nodiscard]] memory::PagePool& host() const { return *host_; }
  [[nodiscard]] bool is_host(const memory::PagePool& pool) const { return &pool == host_; }
  [[nodiscard]] memory::Ledger& ledger() { return ledger_; }
  [[nodiscard]] const memory::Ledger& ledger() const { return ledger_; }

  /// What the user allows on a device: the limit as bytes, nothing when there is none.
  [[nodiscard]] std::optional<std::size_t> budget(std::size_t device_idx) const { return budgets_[device_idx]; }
  /// Lowers what a pool may hold below the budget, while another program needs the memory. Nothing: the budget alone.
  void set_ceiling(std::size_t device_idx, std::optional<std::size_t> bytes);

  /// Distinct pools, the host's last.
  [[nodiscard]] const std::vector<memory::PagePool*>& all() const { return all_; }
  /// The pool that charges the ledger's device of this number; nullptr when there is none.
  [[nodiscard]] memory::PagePool* by_ledger(std::size_t ledger_device) const;
  /// Bytes that a pool could still take: under its limit, and free on its device by the device's own count.
  [[nodiscard]] std::size_t room(memory::PagePool& pool) const;

 private:
  DevicePools() = default;

  std::vector<std::unique_ptr<device::Device>> devices_;
  std::unique_ptr<device::Device> host_device_;  // none when the only device is the host
  memory::Ledger ledger_;
  std::vector<std::unique_ptr<memory::PagePool>> pools_;  // by device
  std::unique_ptr<memory::PagePool> own_host_;
  memory::PagePool* host_ = nullptr;
  std::vector<memory::PagePool*> all_;
  std::vector<std::optional<std::size_t>> budgets_;
};

}  // namespace ebb::engine
