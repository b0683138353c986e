#include "device/internal/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <vector>

namespace ebb::device::cuda {
namespace {

constexpr int kSuccess = 0;                            // NVML_SUCCESS
constexpr int kInsufficientSize = 7;                   // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned long long kNotAvailable = ~0ULL;    // NVML_VALUE_NOT_AVAILABLE
constexpr unsigned kSpareProcesses = 16;               // that may start between two calls

using Card = struct CardObject*;  // nvmlDevice_t

/// nvmlProcessInfo_t
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Library {
  int (*init)();                                                        // nvmlInit_v2
  int (*card)(const char* pci_bus_id, Card* card);                      // nvmlDeviceGetHandleByPciBusId_v2
  int (*processes)(Card card, unsigned* count, ProcessInfo* processes);  // nvmlDeviceGetComputeRunningProcesses_v3
};

std::optional<Library> load() {
  void* file = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return std::nullopt;
  Library library{};
  library.init = reinterpret_cast<decltype(library.init)>(::dlsym(file, "nvmlInit_v2"));
  library.card = reinterpret_cast<decltype(library.card)>(::dlsym(file, "nvmlDeviceGetHandleByPciBusId_v2"));
  library.processes =
      reinterpret_cast<decltype(library.processes)>(::dlsym(file, "nvmlDeviceGetComputeRunningProcesses_v3"));
  if (library.init == nullptr || library.card == nullptr || library.processes == nullptr || library.init() != kSuccess)
    return std::nullopt;
  return library;
}

}  // namespace

std::optional<std::size_t> process_bytes(const std::string& pci_bus_id) {
  static const std::optional<Library> library = load();
  Card card = nullptr;
  if (!library || library->card(pci_bus_id.c_str(), &card) != kSuccess) return std::nullopt;
  std::vector<ProcessInfo> processes;
  unsigned count = 0;
  int code = library->processes(card, &count, nullptr);
  while (code == kInsufficientSize) {
    processes.resize(count + kSpareProcesses);
    count = static_cast<unsigned>(processes.size());
    code = library->processes(card, &count, processes.data());
  }
  if (code != kSuccess || count > processes.size()) return std::nullopt;
  processes.resize(count);
  for (const ProcessInfo& process : processes) {
    if (process.pid == static_cast<unsigned>(::getpid()) && process.used_bytes != kNotAvailable) return process.used_bytes;
  }
  return std::nullopt;
}

}  // namespace ebb::device::cuda
