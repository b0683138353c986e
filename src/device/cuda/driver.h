// The part of the NVIDIA driver's API that Ebb calls, declared by us and found at run time in libcuda.so.1, so that one
// binary runs with and without a driver and is built without any CUDA header. Each entry names the exported symbol it
// holds: that name fixes the layout of the arguments for good. The types have the driver's sizes under our names.
// Called by the device and by whoever launches kernels; no other code may know the driver.
// Invariant: a table that was handed out has every entry set.
#pragma once

#include <cstddef>

#include "base/error.h"

namespace ebb::device::cuda {

using Code = int;                     // CUresult
using Ordinal = int;                  // CUdevice
using Address = unsigned long long;   // CUdeviceptr
using Memory = unsigned long long;    // CUmemGenericAllocationHandle
using Context = struct ContextObject*;  // CUcontext
using StreamRef = struct StreamObject*;  // CUstream
using Event = struct EventObject*;    // CUevent
using Library = struct LibraryObject*;  // CUlibrary
using Kernel = struct KernelObject*;  // CUkernel; cuLaunchKernel takes one where it takes a CUfunction

inline constexpr Code kSuccess = 0;
inline constexpr Code kOutOfMemory = 2;    // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr Code kNoDevice = 100;     // CUDA_ERROR_NO_DEVICE
inline constexpr Code kNotReady = 600;     // CUDA_ERROR_NOT_READY

inline constexpr int kComputeCapabilityMajor = 75;    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kComputeCapabilityMinor = 76;    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
inline constexpr int kMultiprocessorCount = 16;       // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kVirtualMemoryManagement = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

inline constexpr unsigned kStreamNonBlocking = 1;      // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventWithTiming = 0;        // CU_EVENT_DEFAULT
inline constexpr unsigned kEventWithoutTiming = 2;     // CU_EVENT_DISABLE_TIMING

inline constexpr unsigned kRegisterForAllContexts = 1;  // CU_MEMHOSTREGISTER_PORTABLE

/// CUmemLocation
struct Location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;    // the ordinal
};

/// CUmemAllocationProp
struct AllocationProperties {
  int type = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED: memory that stays where it is made
  int handle_types = 0;  // CU_MEM_HANDLE_TYPE_NONE: never exported to another process
  Location location;
  void* win32_meta_data = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(AllocationProperties) == 32, "the driver's own size");

/// CUmemAccessDesc; flags: CU_MEM_ACCESS_FLAGS_PROT_NONE 0, _READ 1, _READWRITE 3.
struct AccessDescription {
  Location location;
  int flags = 0;
};
static_assert(sizeof(AccessDescription) == 12, "the driver's own size");

struct Driver {
  Code (*init)(unsigned flags);                                    // cuInit
  Code (*driver_version)(int* version);                            // cuDriverGetVersion; 13000 is CUDA 13.0
  Code (*error_name)(Code code, const char** name);                // cuGetErrorName
  Code (*error_text)(Code code, const char** text);                // cuGetErrorString
  Code (*device_count)(int* count);                                // cuDeviceGetCount
  Code (*device_get)(Ordinal* device, int idx);                    // cuDeviceGet
  Code (*device_name)(char* name, int bytes, Ordinal device);      // cuDeviceGetName
  Code (*device_pci)(char* bus_id, int bytes, Ordinal device);     // cuDeviceGetPCIBusId
  Code (*device_attribute)(int* value, int attribute, Ordinal device);  // cuDeviceGetAttribute
  Code (*context_retain)(Context* context, Ordinal device);        // cuDevicePrimaryCtxRetain
  Code (*context_release)(Ordinal device);                         // cuDevicePrimaryCtxRelease_v2
  Code (*context_set_current)(Context context);                    // cuCtxSetCurrent

  Code (*memory_info)(std::size_t* free_bytes, std::size_t* total_bytes);  // cuMemGetInfo_v2
  Code (*granularity)(std::size_t* bytes, const AllocationProperties* properties,
                      int option);                                 // cuMemGetAllocationGranularity; 0 is the minimum
  Code (*address_reserve)(Address* address, std::size_t bytes, std::size_t alignment, Address wish,
                          unsigned long long flags);               // cuMemAddressReserve
  Code (*address_free)(Address address, std::size_t bytes);        // cuMemAddressFree
  Code (*memory_create)(Memory* memory, std::size_t bytes, const AllocationProperties* properties,
                        unsigned long long flags);                 // cuMemCreate
  Code (*memory_release)(Memory memory);                           // cuMemRelease
  Code (*memory_map)(Address address, std::size_t bytes, std::size_t offset, Memory memory,
                     unsigned long long flags);                    // cuMemMap
  Code (*memory_set_access)(Address address, std::size_t bytes, const AccessDescription* descriptions,
                            std::size_t count);                    // cuMemSetAccess
  Code (*memory_unmap)(Address address, std::size_t bytes);        // cuMemUnmap

  Code (*host_register)(void* host, std::size_t bytes, unsigned flags);  // cuMemHostRegister_v2
  Code (*host_unregister)(void* host);                             // cuMemHostUnregister

  Code (*stream_create)(StreamRef* stream, unsigned flags);        // cuStreamCreate
  Code (*stream_destroy)(StreamRef stream);                        // cuStreamDestroy_v2
  Code (*stream_synchronize)(StreamRef stream);                    // cuStreamSynchronize
  Code (*event_create)(Event* event, unsigned flags);              // cuEventCreate
  Code (*event_destroy)(Event event);                              // cuEventDestroy_v2
  Code (*event_record)(Event event, StreamRef stream);             // cuEventRecord
  Code (*event_query)(Event event);                                // cuEventQuery
  Code (*event_synchronize)(Event event);                          // cuEventSynchronize
  Code (*event_elapsed)(float* milliseconds, Event begin, Event end);  // cuEventElapsedTime
  Code (*copy)(Address target, Address source, std::size_t bytes, StreamRef stream);  // cuMemcpyAsync
  Code (*fill_bytes)(Address target, unsigned char value, std::size_t bytes, StreamRef stream);  // cuMemsetD8Async

  Code (*library_load)(Library* library, const void* code, const int* jit_options, void** jit_values, unsigned jit_count,
                       const int* options, void** values, unsigned count);  // cuLibraryLoadData
  Code (*library_unload)(Library library);                         // cuLibraryUnload
  Code (*library_kernel)(Kernel* kernel, Library library, const char* name);  // cuLibraryGetKernel
  Code (*launch)(Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                 unsigned block_z, unsigned shared_bytes, StreamRef stream, void** arguments, void** extra);  // cuLaunchKernel
};

/// The driver of this machine, loaded and initialised once and kept for the life of the process.
/// Errors   NotFound: no driver, or no card is visible; Unsupported: it is older than CUDA 12.0 or does not start. The
///          sentence says what is missing and what to try; a later call gives the same answer.
/// Threads  any.
[[nodiscard]] Result<const Driver*> open_driver();

/// As open_driver, from another file and without keeping it. For tests of what a machine may have.
[[nodiscard]] Result<Driver> load_driver(const char* library_name);

/// A failed call as an error: OutOfMemory, DeviceLost where the context is broken for good, otherwise Io.
/// The sentence ends with the driver's own text and name of the code. `what` reads "copy 2.00 MiB".
[[nodiscard]] Error driver_error(const Driver& driver, Code code, const std::string& what);

/// Whether every later call on the context will fail too.
[[nodiscard]] bool is_lost(Code code);

}  // namespace ebb::device::cuda
