#include "kernels/cuda/rope.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kThreads = 256;
constexpr std::size_t kLanes = 32;

using Frequencies = std::array<double, kMaxRopeHeadDim / 2>;

}  // namespace

Result<Rope> Rope::find(const LoadedCode& code) {
  Rope rope(code.device());
  EBB_TRY_ASSIGN(rope.table_, code.find("rope", "rope_table"));
  EBB_TRY_ASSIGN(rope.norm_rope_, code.find("rope", "norm_rope"));
  return rope;
}

Status Rope::fill_table(device::Stream stream, std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base,
                        double factor, float* table) const {
  EBB_CHECK(first_pos + rows <= std::size_t{1} << 20, "position {}", first_pos + rows);
  EBB_CHECK(head_dim % 2 == 0 && head_dim <= kMaxRopeHeadDim, "heads of {}", head_dim);
  if (rows == 0 || head_dim == 0) return {};
  Frequencies frequencies{};
  for (std::size_t e = 0; e < head_dim / 2; ++e)
    frequencies[e] = std::pow(base, -2.0 * static_cast<double>(e) / static_cast<double>(head_dim)) / factor;
  auto first = static_cast<unsigned>(first_pos);
  auto row_count = static_cast<unsigned>(rows);
  auto half = static_cast<unsigned>(head_dim / 2);
  std::array<void*, 5> arguments = {&frequencies, &first, &row_count, &half, &table};
  const std::size_t across = round_up(head_dim / 2, kLanes);
  const std::size_t down = kThreads / across;
  EBB_TRY(device_->enter());
  return device_->check(device_->driver().launch(table_, static_cast<unsigned>(div_up(rows, down)), 1, 1,
                                                 static_cast<unsigned>(across), static_cast<unsigned>(down), 1, 0,
                                                 device_->stream(stream), arguments.data(), nullptr),
                        "launch rope_table");
}

Status Rope::norm_rope(device::Stream stream, float* x, std::size_t x_stride, const float* w, float eps, const float* table,
                       std::size_t rows, std::size_t heads, std::size_t head_dim) const {
  EBB_CHECK(head_dim % 2 == 0 && head_dim <= kMaxRopeHeadDim, "heads of {}", head_dim);
  std::size_t count = rows * heads;
  if (count == 0 || head_dim == 0) return {};
  const std::size_t blocks = div_up(count, kThreads / kLanes);
  EBB_CHECK(blocks <= std::numeric_limits<std::int32_t>::max(), "{} rows of {} heads", rows, heads);
  auto head_count = static_cast<unsigned>(heads);
  auto half = static_cast<unsigned>(head_dim / 2);
  std::array<void*, 8> arguments = {&x, &x_stride, &w, &eps, &table, &count, &head_count, &half};
  EBB_TRY(device_->enter());
  return device_->check(device_->driver().launch(norm_rope_, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0,
                                                 device_->stream(stream), arguments.data(), nullptr),
                        "launch norm_rope");
}

}  // namespace ebb::kernels::cuda
