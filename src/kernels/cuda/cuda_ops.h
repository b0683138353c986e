// The set of ops on one card: every op queued on its compute stream, in the order of the calls. Called by kernels/ops.cpp.
#pragma once

#include <memory>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "kernels/ops.h"

namespace ebb::kernels::cuda {

/// `device` outlives the set. Errors: as LoadedCode::load.
[[nodiscard]] Result<std::unique_ptr<Ops>> card_ops(device::CudaDevice& device, Arithmetic arithmetic);

}  // namespace ebb::kernels::cuda
