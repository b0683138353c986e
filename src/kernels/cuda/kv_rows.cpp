#include "kernels/cuda/kv_rows.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kMaxHeads = 65535;  // of a grid's second dimension
constexpr unsigned kCopyThreads = 64;
constexpr unsigned kWarp = 32;

void check_positions(std::size_t end, std::size_t heads) {
  EBB_CHECK(end <= std::numeric_limits<std::uint32_t>::max(), "position {}", end);
  EBB_CHECK(heads <= kMaxHeads, "{} heads", heads);
}

}  // namespace

static_assert(static_cast<unsigned>(KvType::F32) == kKindF32 && static_cast<unsigned>(KvType::F16) == kKindF16 &&
              static_cast<unsigned>(KvType::BF16) == kKindBf16 && static_cast<unsigned>(KvType::Q8_0) == kKindQ8 &&
              static_cast<unsigned>(KvType::Q4_0) == kKindQ4);

KvPlace place_of(const KvView& view) {
  KvPlace place;
  place.k = reinterpret_cast<char*>(view.k);
  place.v = reinterpret_cast<char*>(view.v);
  place.run_stride = view.run_stride_bytes;
  place.k_head_stride = view.k_head_stride_bytes;
  place.v_head_stride = view.v_head_stride_bytes;
  place.slots = static_cast<unsigned>(view.slots);
  place.run_tokens = static_cast<unsigned>(view.run_tokens);
  return place;
}

bool is_aligned(const KvView& view, std::size_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(view.k) | reinterpret_cast<std::uintptr_t>(view.v) | view.run_stride_bytes |
          view.k_head_stride_bytes | view.v_head_stride_bytes) %
             bytes ==
         0;
}

Result<KvRows> KvRows::find(const LoadedCode& code) {
  KvRows rows(code.device());
  EBB_TRY_ASSIGN(rows.store_, code.find("kv_rows", "kv_store"));
  EBB_TRY_ASSIGN(rows.copy_, code.find("kv_rows", "kv_copy_rows"));
  return rows;
}

Status KvRows::store(device::Stream stream, const float* k, const float* v, std::size_t stride, std::size_t first_pos,
                     std::size_t rows, std::size_t kv_heads, std::size_t head_dim, const KvView& to) const {
  EBB_CHECK(kv_supported(to.types, head_dim), "no kernel for these KV types with head_dim {}", head_dim);
  check_positions(first_pos + rows, kv_heads);
  if (rows == 0 || kv_heads == 0) return {};
  const std::size_t written = std::min(rows, to.slots);
  KvPlace place = place_of(to);
  unsigned long long row_stride = stride;
  auto first = static_cast<unsigned>(first_pos);
  auto first_row = static_cast<unsigned>(rows - written);
  auto end_row = static_cast<unsigned>(rows);
  auto columns = static_cast<unsigned>(head_dim);
  auto k_kind = static_cast<unsigned>(to.types.k);
  auto v_kind = static_cast<unsigned>(to.types.v);
  auto k_row_bytes = static_cast<unsigned>(kv_row_bytes(to.types.k, head_dim));
  auto v_row_bytes = static_cast<unsigned>(kv_row_bytes(to.types.v, head_dim));
  std::array<void*, 12> arguments = {&place,   &k,       &v,      &row_stride, &first,       &first_row,
                                     &end_row, &columns, &k_kind, &v_kind,     &k_row_bytes, &v_row_bytes};
  EBB_TRY(device_->enter());
  return device_->check(
      device_->driver().launch(store_, static_cast<unsigned>(div_up(written, kKvStoreRows)),
                               static_cast<unsigned>(kv_heads), 2, (columns + kWarp - 1) / kWarp * kWarp, 1, 1, 0,
                               device_->stream(stream), arguments.data(), nullptr),
      "launch kv_store");
}

Status KvRows::copy(device::Stream stream, const KvView& from, std::size_t first_pos, std::size_t count,
                    std::size_t kv_heads, std::size_t head_dim, const KvView& to, std::size_t to_pos) const {
  EBB_CHECK(from.types == to.types, "rows of different types");
  EBB_CHECK(count <= from.slots && count <= to.slots, "{} rows of {} to {} slots", count, from.slots, to.slots);
  check_positions(std::max(first_pos, to_pos) + count, kv_heads);
  if (count == 0 || kv_heads == 0) return {};
  KvPlace source = place_of(from);
  KvPlace target = place_of(to);
  auto first = static_cast<unsigned>(first_pos);
  auto target_first = static_cast<unsigned>(to_pos);
  auto k_row_bytes = static_cast<unsigned>(kv_row_bytes(from.types.k, head_dim));
  auto v_row_bytes = static_cast<unsigned>(kv_row_bytes(from.types.v, head_dim));
  constexpr unsigned kVector = 16;
  const bool in_vectors =
      is_aligned(from, kVector) && is_aligned(to, kVector) && k_row_bytes % kVector == 0 && v_row_bytes % kVector == 0;
  unsigned unit = in_vectors ? kVector : 2;
  std::array<void*, 7> arguments = {&source, &target, &first, &target_first, &k_row_bytes, &v_row_bytes, &unit};
  EBB_TRY(device_->enter());
  return device_->check(
      device_->driver().launch(copy_, static_cast<unsigned>(count), static_cast<unsigned>(kv_heads), 2, kCopyThreads, 1,
                               1, 0, device_->stream(stream), arguments.data(), nullptr),
      "launch kv_copy_rows");
}

}  // namespace ebb::kernels::cuda
