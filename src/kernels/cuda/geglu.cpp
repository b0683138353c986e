#include "kernels/cuda/geglu.h"

#include <array>
#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kThreads = 256;
constexpr std::size_t kVectorFloats = 4;

}  // namespace

Result<Geglu> Geglu::find(const LoadedCode& code) {
  Geglu geglu(code.device());
  EBB_TRY_ASSIGN(geglu.vectors_, code.find("geglu", "geglu_vectors"));
  EBB_TRY_ASSIGN(geglu.any_, code.find("geglu", "geglu_any"));
  return geglu;
}

Status Geglu::run(device::Stream stream, const float* gate, const float* up, std::size_t rows, std::size_t cols, float* y) const {
  std::size_t count = rows * cols;
  if (count == 0) return {};
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(gate) | reinterpret_cast<std::uintptr_t>(up) | reinterpret_cast<std::uintptr_t>(y);
  const bool is_whole = count % kVectorFloats == 0 && addresses % (kVectorFloats * sizeof(float)) == 0;
  if (is_whole) count /= kVectorFloats;
  const std::size_t blocks = div_up(count, kThreads);
  EBB_CHECK(blocks <= std::numeric_limits<std::int32_t>::max(), "{} rows of {}", rows, cols);
  std::array<void*, 4> arguments = {&gate, &up, &count, &y};
  EBB_TRY(device_->enter());
  return device_->check(device_->driver().launch(is_whole ? vectors_ : any_, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1,
                                                 0, device_->stream(stream), arguments.data(), nullptr),
                        "launch geglu");
}

}  // namespace ebb::kernels::cuda
