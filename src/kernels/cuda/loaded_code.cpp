#include "kernels/cuda/loaded_code.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/gpu_code.h"

namespace ebb::kernels::cuda {
namespace {

constexpr device::cuda::Code kNoBinaryForGpu = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU

}  // namespace

Result<std::unique_ptr<LoadedCode>> LoadedCode::load(device::CudaDevice& device) {
  if (gpu_code().empty())
    return fail(ErrorCode::Unsupported,
                "this build has no GPU code: no CUDA compiler was there. On a machine with an NVIDIA driver ./start brings one");
  EBB_TRY(device.enter());
  std::unique_ptr<LoadedCode> loaded(new LoadedCode(device));
  for (const GpuCode& code : gpu_code()) {
    device::cuda::Library library = nullptr;
    EBB_TRY(device.check(device.driver().library_load(&library, code.data, nullptr, nullptr, 0, nullptr, nullptr, 0),
                         "load Ebb's GPU code"));
    loaded->libraries_.emplace_back(code.name, library);
  }
  return loaded;
}

LoadedCode::~LoadedCode() {
  for (const auto& [name, library] : libraries_) device_.driver().library_unload(library);
}

Result<device::cuda::Kernel> LoadedCode::find(std::string_view source, const char* name) const {
  const auto found =
      std::find_if(libraries_.begin(), libraries_.end(), [source](const auto& library) { return library.first == source; });
  EBB_CHECK(found != libraries_.end(), "no GPU code named {}", source);
  device::cuda::Kernel kernel = nullptr;
  const device::cuda::Code code = device_.driver().library_kernel(&kernel, found->second, name);
  if (code == kNoBinaryForGpu)
    return fail(ErrorCode::Unsupported,
                fmt::format("{}: this build has no GPU code for it; build with EBB_CUDA_ARCHITECTURES that name it, or use -dev cpu",
                            device_.name()));
  EBB_TRY(device_.check(code, "find a kernel"));
  return kernel;
}

}  // namespace ebb::kernels::cuda
