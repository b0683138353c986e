#include "kernels/cuda/rms_norm.h"

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kVectorFloats = 4;

template <typename... Pointers>
bool are_aligned(Pointers... addresses) {
  return ((reinterpret_cast<std::uintptr_t>(addresses) % (kVectorFloats * sizeof(float)) == 0) && ...);
}

}  // namespace

Result<RmsNorm> RmsNorm::find(const LoadedCode& code) {
  RmsNorm norm(code.device());
  constexpr std::array<const char*, 4> kNorm = {"rms_norm_1", "rms_norm_2", "rms_norm_4", "rms_norm_8"};
  constexpr std::array<const char*, 4> kResidual = {"residual_rms_norm_1", "residual_rms_norm_2", "residual_rms_norm_4",
                                                    "residual_rms_norm_8"};
  for (std::size_t i = 0; i < kNorm.size(); ++i) {
    EBB_TRY_ASSIGN(norm.norm_.vectors[i], code.find("rms_norm", kNorm[i]));
    EBB_TRY_ASSIGN(norm.residual_.vectors[i], code.find("rms_norm", kResidual[i]));
  }
  EBB_TRY_ASSIGN(norm.norm_.any, code.find("rms_norm", "rms_norm_any"));
  EBB_TRY_ASSIGN(norm.residual_.any, code.find("rms_norm", "residual_rms_norm_any"));
  return norm;
}

Status RmsNorm::launch(device::Stream stream, const ByWidth& kernels, bool is_aligned, std::size_t rows, std::size_t cols,
                       void** arguments) const {
  EBB_CHECK(rows <= std::numeric_limits<std::int32_t>::max() && cols <= std::numeric_limits<std::int32_t>::max(),
            "{} rows of {}", rows, cols);
  if (rows == 0 || cols == 0) return {};
  device::cuda::Kernel kernel = kernels.any;
  if (is_aligned && cols % kVectorFloats == 0) {
    const std::size_t vectors = div_up(cols / kVectorFloats, kRmsNormThreads);
    for (std::size_t i = kernels.vectors.size(); i-- > 0;) {
      if (vectors <= std::size_t{1} << i) kernel = kernels.vectors[i];
    }
  }
  EBB_TRY(device_->enter());
  return device_->check(device_->driver().launch(kernel, static_cast<unsigned>(rows), 1, 1, kRmsNormThreads, 1, 1, 0,
                                                 device_->stream(stream), arguments, nullptr),
                        "launch rms_norm");
}

Status RmsNorm::run(device::Stream stream, const float* x, const float* w, float eps, std::size_t rows, std::size_t cols,
                    float* y) const {
  auto width = static_cast<unsigned>(cols);
  std::array<void*, 5> arguments = {&x, &w, &eps, &width, &y};
  return launch(stream, norm_, are_aligned(x, w, y), rows, cols, arguments.data());
}

Status RmsNorm::run_residual(device::Stream stream, float* x, const float* branch, const float* w_post, const float* w_next,
                             float eps, std::size_t rows, std::size_t cols, float* y) const {
  auto width = static_cast<unsigned>(cols);
  std::array<void*, 7> arguments = {&x, &branch, &w_post, &w_next, &eps, &width, &y};
  return launch(stream, residual_, are_aligned(x, branch, w_post, w_next, y), rows, cols, arguments.data());
}

}  // namespace ebb::kernels::cuda
