#include "kernels/cuda/attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cuda/kv_rows.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kSegment = kKvSegment;
constexpr std::size_t kMaxRows = 4096;  // of a launch: grids have at most 65535 in their second dimension
constexpr std::size_t kMaxGrid = 65535;
constexpr std::size_t kColumns = 8;  // of a lane
constexpr std::size_t kVector = 16;

std::size_t oldest_key(std::size_t pos, std::size_t window) {
  return window == 0 || pos < window ? 0 : pos + 1 - window;
}

std::size_t segments_of(std::size_t first_pos, std::size_t rows, std::size_t window) {
  return (first_pos + rows - 1) / kSegment - oldest_key(first_pos, window) / kSegment + 1;
}

std::size_t partials(std::size_t first_pos, std::size_t rows, std::size_t window, std::size_t q_heads) {
  return rows * q_heads * segments_of(first_pos, rows, window);
}

bool in_blocks(KvType type) { return type == KvType::Q8_0 || type == KvType::Q4_0; }

/// The last word of a block that begins at 2 mod 4 ends two bytes past it: with an even number of blocks a row has none
/// such last.
bool reads_words(const KvView& view, std::size_t head_dim) {
  return head_dim % (2 * kKvBlock) == 0 && is_aligned(view, 4);
}

unsigned kind_of(KvType type, bool in_words) {
  if (in_blocks(type) && !in_words) return type == KvType::Q8_0 ? kKindQ8InHalves : kKindQ4InHalves;
  return static_cast<unsigned>(type);
}

void check_view(const KvView& view) {
  EBB_CHECK((in_blocks(view.types.k) && in_blocks(view.types.v)) || is_aligned(view, kVector), "rows at odd addresses");
  EBB_CHECK(view.slots > 0 && view.run_tokens > 0, "a view without slots");
}

}  // namespace

std::size_t attention_bytes(std::size_t rows, std::size_t end_pos, std::size_t window, std::size_t q_heads,
                            std::size_t head_dim) {
  const std::size_t at_once = std::clamp<std::size_t>(rows, 1, kMaxRows);
  const std::size_t last_pos = std::max(end_pos, at_once) - at_once;
  // With a window the number of segments depends on where it lies in them: one more than the least.
  const std::size_t segments =
      window == 0 ? segments_of(last_pos, at_once, 0)
                  : std::min(div_up(at_once + window - 1, kSegment) + 1, segments_of(last_pos, at_once, 0));
  return at_once * q_heads * segments * (head_dim + 2) * sizeof(float);
}

Result<Attention> Attention::find(const LoadedCode& code) {
  constexpr std::array<std::array<const char*, kQueries.size()>, kLanes.size()> kNames = {
      {{"attention_8_2", "attention_8_4", "attention_8_8"},
       {"attention_16_2", "attention_16_4", "attention_16_8"},
       {"attention_32_2", "attention_32_4", "attention_32_8"}}};
  Attention attention(code.device());
  for (std::size_t i = 0; i < kLanes.size(); ++i) {
    for (std::size_t j = 0; j < kQueries.size(); ++j) {
      EBB_TRY_ASSIGN(attention.segments_[i][j], code.find("attention", kNames[i][j]));
    }
  }
  EBB_TRY_ASSIGN(attention.merge_, code.find("attention_merge", "attention_merge"));
  return attention;
}

Status Attention::run(device::Stream stream, const AttentionShape& shape, const float* q, std::size_t q_stride,
                      const KvView& past, const KvView& fresh, float* out, std::byte* workspace,
                      std::size_t workspace_bytes) const {
  EBB_CHECK(shape.kv_heads > 0 && shape.q_heads % shape.kv_heads == 0, "{} query heads, {} kv heads", shape.q_heads,
            shape.kv_heads);
  EBB_CHECK(kv_supported(fresh.types, shape.head_dim), "no kernel for these KV types with head_dim {}", shape.head_dim);
  EBB_CHECK(shape.first_pos == 0 || past.types == fresh.types, "past and fresh keys of different types");
  EBB_CHECK(shape.first_pos + shape.rows <= std::numeric_limits<std::uint32_t>::max() - kSegment, "position {}",
            shape.first_pos + shape.rows);
  if (shape.rows == 0 || shape.q_heads == 0) return {};
  const bool has_past = shape.first_pos > 0;
  check_view(fresh);
  if (has_past) check_view(past);
  EBB_CHECK((reinterpret_cast<std::uintptr_t>(workspace) | reinterpret_cast<std::uintptr_t>(out) |
             reinterpret_cast<std::uintptr_t>(q) | q_stride * sizeof(float)) %
                    kVector ==
                0,
            "queries, result or workspace not aligned");

  AttentionCall call;
  call.fresh = place_of(fresh);
  call.past = has_past ? place_of(past) : call.fresh;
  call.q_stride = q_stride;
  call.past_end = static_cast<unsigned>(shape.first_pos);
  call.q_heads = static_cast<unsigned>(shape.q_heads);
  call.group = static_cast<unsigned>(shape.q_heads / shape.kv_heads);
  call.head_dim = static_cast<unsigned>(shape.head_dim);
  call.window = static_cast<unsigned>(std::min<std::size_t>(shape.window, std::numeric_limits<std::uint32_t>::max()));
  const bool in_words = reads_words(fresh, shape.head_dim) && (!has_past || reads_words(past, shape.head_dim));
  call.k_kind = kind_of(fresh.types.k, in_words);
  call.v_kind = kind_of(fresh.types.v, in_words);
  call.k_row_bytes = static_cast<unsigned>(kv_row_bytes(fresh.types.k, shape.head_dim));
  call.v_row_bytes = static_cast<unsigned>(kv_row_bytes(fresh.types.v, shape.head_dim));
  constexpr double kLog2E = 1.4426950408889634;
  call.factor = static_cast<float>(static_cast<double>(shape.scale) * kLog2E);

  const auto lanes =
      static_cast<std::size_t>(std::find_if(kLanes.begin(), kLanes.end(),
                                            [&](std::size_t count) { return count * kColumns >= shape.head_dim; }) -
                               kLanes.begin());
  const auto bytes_for = [&](std::size_t first_pos, std::size_t rows) {
    return partials(first_pos, rows, shape.window, shape.q_heads) * (shape.head_dim + 2) * sizeof(float);
  };
  EBB_TRY(device_->enter());
  for (std::size_t row = 0; row < shape.rows;) {
    const std::size_t first_pos = shape.first_pos + row;
    const std::size_t most = std::max<std::size_t>(1, std::min(kMaxRows, kMaxGrid / call.group));
    std::size_t rows = std::min(shape.rows - row, most);
    while (rows > 1 && bytes_for(first_pos, rows) > workspace_bytes) rows = div_up(rows, 2);
    EBB_CHECK(bytes_for(first_pos, rows) <= workspace_bytes, "workspace of {} bytes", workspace_bytes);
    call.q = q + row * q_stride;
    call.out = out + row * shape.q_heads * shape.head_dim;
    call.first_pos = static_cast<unsigned>(first_pos);
    call.rows = static_cast<unsigned>(rows);
    call.first_segment = static_cast<unsigned>(oldest_key(first_pos, shape.window) / kSegment);
    call.segments = static_cast<unsigned>(segments_of(first_pos, rows, shape.window));
    call.partial_values = reinterpret_cast<float*>(workspace);
    call.partial_sums = call.partial_values + partials(first_pos, rows, shape.window, shape.q_heads) * shape.head_dim;
    const std::size_t queries = rows * call.group;
    const auto fits =
        std::find_if(kQueries.begin(), kQueries.end() - 1, [&](std::size_t count) { return count >= queries; });
    std::array<void*, 1> arguments = {&call};
    EBB_TRY(device_->check(
        device_->driver().launch(segments_[lanes][static_cast<std::size_t>(fits - kQueries.begin())], call.segments,
                                 static_cast<unsigned>(div_up(queries, *fits)), static_cast<unsigned>(shape.kv_heads),
                                 kAttentionThreads, 1, 1, 0, device_->stream(stream), arguments.data(), nullptr),
        "launch attention"));
    EBB_TRY(device_->check(
        device_->driver().launch(merge_, call.q_heads, call.rows,
                                 static_cast<unsigned>(div_up(shape.head_dim, kMergeColumns)), kMergeThreads, 1, 1, 0,
                                 device_->stream(stream), arguments.data(), nullptr),
        "launch attention_merge"));
    row += rows;
  }
  return {};
}

}  // namespace ebb::kernels::cuda
