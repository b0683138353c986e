#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace ebb::device::cuda {
namespace {

constexpr const char* kLibraryName = "libcuda.so.1";
constexpr int kLeastVersion = 12000;  // the first with cuLibraryLoadData

/// Finds symbols until one is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(Function*& target, const char* name) {
    target = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (target == nullptr && missing_ == nullptr) missing_ = name;
  }
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

const char* find_all(void* library, Driver& driver) {
  Symbols symbols(library);
  symbols.find(driver.init, "cuInit");
  symbols.find(driver.driver_version, "cuDriverGetVersion");
  symbols.find(driver.error_name, "cuGetErrorName");
  symbols.find(driver.error_text, "cuGetErrorString");
  symbols.find(driver.device_count, "cuDeviceGetCount");
  symbols.find(driver.device_get, "cuDeviceGet");
  symbols.find(driver.device_name, "cuDeviceGetName");
  symbols.find(driver.device_pci, "cuDeviceGetPCIBusId");
  symbols.find(driver.device_attribute, "cuDeviceGetAttribute");
  symbols.find(driver.context_retain, "cuDevicePrimaryCtxRetain");
  symbols.find(driver.context_release, "cuDevicePrimaryCtxRelease_v2");
  symbols.find(driver.context_set_current, "cuCtxSetCurrent");
  symbols.find(driver.memory_info, "cuMemGetInfo_v2");
  symbols.find(driver.granularity, "cuMemGetAllocationGranularity");
  symbols.find(driver.address_reserve, "cuMemAddressReserve");
  symbols.find(driver.address_free, "cuMemAddressFree");
  symbols.find(driver.memory_create, "cuMemCreate");
  symbols.find(driver.memory_release, "cuMemRelease");
  symbols.find(driver.memory_map, "cuMemMap");
  symbols.find(driver.memory_set_access, "cuMemSetAccess");
  symbols.find(driver.memory_unmap, "cuMemUnmap");
  symbols.find(driver.host_register, "cuMemHostRegister_v2");
  symbols.find(driver.host_unregister, "cuMemHostUnregister");
  symbols.find(driver.stream_create, "cuStreamCreate");
  symbols.find(driver.stream_destroy, "cuStreamDestroy_v2");
  symbols.find(driver.stream_synchronize, "cuStreamSynchronize");
  symbols.find(driver.event_create, "cuEventCreate");
  symbols.find(driver.event_destroy, "cuEventDestroy_v2");
  symbols.find(driver.event_record, "cuEventRecord");
  symbols.find(driver.event_query, "cuEventQuery");
  symbols.find(driver.event_synchronize, "cuEventSynchronize");
  symbols.find(driver.event_elapsed, "cuEventElapsedTime");
  symbols.find(driver.copy, "cuMemcpyAsync");
  symbols.find(driver.fill_bytes, "cuMemsetD8Async");
  symbols.find(driver.library_load, "cuLibraryLoadData");
  symbols.find(driver.library_unload, "cuLibraryUnload");
  symbols.find(driver.library_kernel, "cuLibraryGetKernel");
  symbols.find(driver.launch, "cuLaunchKernel");
  return symbols.missing();
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

tl::unexpected<Error> does_not_start(const Driver& driver, Code code) {
  if (code == kNoDevice)
    return fail(ErrorCode::NotFound,
                "no NVIDIA card is visible to this process (CUDA_ERROR_NO_DEVICE). See whether nvidia-smi lists one and what "
                "CUDA_VISIBLE_DEVICES is set to, or use -dev cpu");
  return fail(ErrorCode::Unsupported,
              fmt::format("{}. Run nvidia-smi to see what is wrong with it, or use -dev cpu",
                          driver_error(driver, code, "start the NVIDIA driver").message));
}

}  // namespace

Result<Driver> load_driver(const char* library_name) {
  void* library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return fail(ErrorCode::NotFound,
                fmt::format("there is no NVIDIA driver on this machine ({}). Install the driver of your card, give a container "
                            "its GPUs (--gpus all), or use -dev cpu",
                            reason == nullptr ? library_name : reason));
  }
  Driver driver{};
  const char* missing = find_all(library, driver);
  int version = 0;
  if (driver.driver_version != nullptr && driver.driver_version(&version) != kSuccess) version = 0;
  if (missing != nullptr || version < kLeastVersion) {
    ::dlclose(library);
    const std::string found =
        missing == nullptr ? "it speaks CUDA " + version_text(version) : fmt::format("it has no {}", missing);
    return fail(ErrorCode::Unsupported,
                fmt::format("the NVIDIA driver is too old: {}, and Ebb needs {} or newer. Update the driver, or use -dev cpu",
                            found, version_text(kLeastVersion)));
  }
  if (const Code code = driver.init(0); code != kSuccess) return does_not_start(driver, code);
  return driver;
}

Result<const Driver*> open_driver() {
  // Never unloaded: the driver keeps threads of its own.
  static const Result<Driver> driver = load_driver(kLibraryName);
  if (!driver) return tl::unexpected<Error>(driver.error());
  return &*driver;
}

bool is_lost(Code code) {
  constexpr Code kLost[] = {
      4,    // CUDA_ERROR_DEINITIALIZED
      46,   // CUDA_ERROR_DEVICE_UNAVAILABLE
      214,  // CUDA_ERROR_ECC_UNCORRECTABLE
      220,  // CUDA_ERROR_NVLINK_UNCORRECTABLE
      226,  // CUDA_ERROR_CONTAINED
      700,  // CUDA_ERROR_ILLEGAL_ADDRESS
      702,  // CUDA_ERROR_LAUNCH_TIMEOUT
      709,  // CUDA_ERROR_CONTEXT_IS_DESTROYED
      710,  // CUDA_ERROR_ASSERT
      714,  // CUDA_ERROR_HARDWARE_STACK_ERROR
      715,  // CUDA_ERROR_ILLEGAL_INSTRUCTION
      716,  // CUDA_ERROR_MISALIGNED_ADDRESS
      717,  // CUDA_ERROR_INVALID_ADDRESS_SPACE
      718,  // CUDA_ERROR_INVALID_PC
      719,  // CUDA_ERROR_LAUNCH_FAILED
      721,  // CUDA_ERROR_TENSOR_MEMORY_LEAK
      810,  // CUDA_ERROR_MPS_CLIENT_TERMINATED
      999,  // CUDA_ERROR_UNKNOWN
  };
  return std::find(std::begin(kLost), std::end(kLost), code) != std::end(kLost);
}

Error driver_error(const Driver& driver, Code code, const std::string& what) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(code, &name) != kSuccess || name == nullptr) name = "a code this driver does not name";
  if (driver.error_text(code, &text) != kSuccess || text == nullptr) text = "no text";
  const std::string said = fmt::format("{} ({}, {})", text, name, code);
  if (is_lost(code))
    return Error{ErrorCode::DeviceLost,
                 fmt::format("the GPU was lost when it was to {}: {}. Restart Ebb; the system's log (dmesg) has the driver's words",
                             what, said)};
  if (code == kOutOfMemory) return Error{ErrorCode::OutOfMemory, fmt::format("the GPU could not {}: {}", what, said)};
  return Error{ErrorCode::Io, fmt::format("the driver refused to {}: {}", what, said)};
}

}  // namespace ebb::device::cuda
