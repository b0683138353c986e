// What the NVIDIA management library knows of this process: how much of a card it uses, context included. Loaded at run
// time from libnvidia-ml.so.1; where it is missing, or hides the processes (containers, some virtual machines), it says so
// by having no answer. Called by the CUDA context alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ebb::device::cuda {

/// Bytes that the driver counts for this process on the card at `pci_bus_id` (as cuDeviceGetPCIBusId writes it).
/// Costs a call into the kernel. Threads: any.
[[nodiscard]] std::optional<std::size_t> process_bytes(const std::string& pci_bus_id);

}  // namespace ebb::device::cuda
