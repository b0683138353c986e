// The machine code of src/kernels/cuda/*.cu inside this binary: one fat binary a file, loaded by the driver at run time.
// Empty in a build without a CUDA compiler; cmake/cuda.cmake writes the definition. Called by kernels/cuda alone.
#pragma once

#include <span>
#include <string_view>

namespace ebb::kernels::cuda {

struct GpuCode {
  std::string_view name;  // of the source: "rms_norm"
  const void* data = nullptr;
};

[[nodiscard]] std::span<const GpuCode> gpu_code();

}  // namespace ebb::kernels::cuda
