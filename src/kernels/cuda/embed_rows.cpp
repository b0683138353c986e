#include "kernels/cuda/embed_rows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kColumnsAThread = 16;
constexpr std::size_t kLanes = 32;
constexpr std::size_t kMaxThreads = 256;

}  // namespace

Result<EmbedRows> EmbedRows::find(const LoadedCode& code) {
  EmbedRows rows(code.device());
  for (std::size_t i = 0; i < rows.by_type_.size(); ++i) {
    const std::string name = "embed_rows_" + std::string(dtype_info(static_cast<DType>(i)).name);
    EBB_TRY_ASSIGN(rows.by_type_[i], code.find("embed_rows", name.c_str()));
  }
  return rows;
}

Status EmbedRows::run(device::Stream stream, const TensorView& table, const std::int32_t* ids, std::size_t tokens, float scale,
                      float* out) const {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  EBB_CHECK(tokens <= kMost && table.rows <= kMost && table.cols <= kMost, "{} tokens, table of {} x {}", tokens, table.rows,
            table.cols);
  if (tokens == 0 || table.cols == 0) return {};
  auto table_rows = static_cast<unsigned>(table.rows);
  auto cols = static_cast<unsigned>(table.cols);
  const std::byte* data = table.data;
  std::array<void*, 6> arguments = {&data, &table_rows, &cols, &ids, &scale, &out};
  const std::size_t threads = std::min(kMaxThreads, round_up(div_up(table.cols, kColumnsAThread), kLanes));
  EBB_TRY(device_->enter());
  return device_->check(
      device_->driver().launch(by_type_[static_cast<std::size_t>(table.dtype)], static_cast<unsigned>(tokens), 1, 1,
                               static_cast<unsigned>(threads), 1, 1, 0, device_->stream(stream), arguments.data(), nullptr),
      "launch embed_rows");
}

}  // namespace ebb::kernels::cuda
