#include "kernels/cuda/rms_norm.h"

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kVectorFloats = 4;

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % (kVectorFloats * sizeof(float)) == 0;
}

}  // namespace

Result<RmsNorm> RmsNorm::find(const LoadedCode& code) {
  RmsNorm norm(code.device());
  constexpr std::array<const char*, 4> kNames = {"rms_norm_1", "rms_norm_2", "rms_norm_4", "rms_norm_8"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    EBB_TRY_ASSIGN(norm.by_vectors_[i], code.find("rms_norm", kNames[i]));
  }
  EBB_TRY_ASSIGN(norm.any_, code.find("rms_norm", "rms_norm_any"));
  return norm;
}

Status RmsNorm::run(device::Stream stream, const float* x, const float* w, float eps, std::size_t rows, std::size_t cols,
                    float* y) const {
  EBB_CHECK(rows <= std::numeric_limits<std::int32_t>::max() && cols <= std::numeric_limits<std::int32_t>::max(),
            "{} rows of {}", rows, cols);
  if (rows == 0 || cols == 0) return {};
  device::cuda::Kernel kernel = any_;
  if (cols % kVectorFloats == 0 && is_aligned(x) && is_aligned(w) && is_aligned(y)) {
    const std::size_t vectors = div_up(cols / kVectorFloats, kRmsNormThreads);
    for (std::size_t i = by_vectors_.size(); i-- > 0;) {
      if (vectors <= std::size_t{1} << i) kernel = by_vectors_[i];
    }
  }
  auto width = static_cast<unsigned>(cols);
  std::array<void*, 5> arguments = {&x, &w, &eps, &width, &y};
  EBB_TRY(device_->enter());
  return device_->check(device_->driver().launch(kernel, static_cast<unsigned>(rows), 1, 1, kRmsNormThreads, 1, 1, 0,
                                                 device_->stream(stream), arguments.data(), nullptr),
                        "launch rms_norm");
}

}  // namespace ebb::kernels::cuda
