// Reads every byte of some tensors once, as a decode step must, and does nothing else: the ceiling that decoding is
// measured against on this machine, with these files and this number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_view.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Returns a sum of all bytes, so that no read can be left out.
std::uint64_t read_sweep(ThreadPool& threads, std::span<const TensorView> tensors);

}  // namespace ebb::kernels
