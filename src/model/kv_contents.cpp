// The half of KvCache that files see: which bytes are a conversation, in an order that no placement changes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/kv_cache.h"

namespace ebb::model {
namespace {

/// Zeroes the rows of one layer that lie in its last run behind the last token.
void wipe_unused(const kernels::KvView& view, std::size_t kv_heads, std::size_t head_dim, std::size_t used) {
  const std::size_t run_idx = (used - 1) / kKvRunTokens;
  const std::size_t first = used - run_idx * kKvRunTokens;
  const std::size_t k_row = kernels::kv_row_bytes(view.types.k, head_dim);
  const std::size_t v_row = kernels::kv_row_bytes(view.types.v, head_dim);
  for (std::size_t head = 0; head < kv_heads; ++head) {
    const std::size_t run = run_idx * view.run_stride_bytes;
    std::memset(view.k + run + head * view.k_head_stride_bytes + first * k_row, 0, (kKvRunTokens - first) * k_row);
    std::memset(view.v + run + head * view.v_head_stride_bytes + first * v_row, 0, (kKvRunTokens - first) * v_row);
  }
}

}  // namespace

void KvCache::add_contents(const KvRangeLayout& layout, const kernels::KvView& view, std::size_t tokens, bool may_wipe,
                           std::vector<std::span<std::byte>>& spans) const {
  const std::size_t used = std::min(tokens, layout.slots);
  if (used == 0) return;
  if (may_wipe) wipe_unused(view, config_.kv_heads, config_.head_dim, used);
  for (std::size_t run_idx = 0; run_idx < layout.runs(tokens); ++run_idx) {
    spans.emplace_back(view.k + run_idx * view.run_stride_bytes, layout.layer_run_bytes());
  }
}

std::vector<std::span<std::byte>> KvCache::contents() {
  std::vector<std::span<std::byte>> spans;
  const bool has_own_end = own_end().has_value();
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
    add_contents(ranges_[places_[layer_idx].range_idx].layout, layer(layer_idx), length_,
                 has_own_end || !config_.global[layer_idx], spans);
  }
  for (std::size_t layer_idx = 0; layer_idx < config_.layers; ++layer_idx) {
    if (config_.global[layer_idx] || record_ranges_.empty()) continue;
    const KvRangeLayout& layout = record_ranges_[record_places_[layer_idx].range_idx].layout;
    add_contents(layout, record(layer_idx), left_windows(length_) - record_base_, true, spans);
  }
  return spans;
}

std::size_t KvCache::contents_bytes(const Config& config, const KvOptions& options, const KvExtent& extent) {
  const auto bytes = [&config](kernels::KvTypes types, bool is_global, std::size_t slots, std::size_t tokens) {
    std::size_t sum = 0;
    for (const KvRangeLayout& range : lay_out_ranges(config, types, layers_of_kind(config, is_global), slots)) sum += range.bytes(tokens);
    return sum;
  };
  const std::size_t left = extent.length - std::min(extent.length, config.window_tokens);
  return bytes(options.global, true, options.max_tokens, extent.length) +
         bytes(options.local, false, config.window_tokens, extent.length) +
         bytes(options.local, false, options.rewind_tokens, left - std::min(left, extent.record_base));
}

Status KvCache::prepare(const KvExtent& extent) {
  EBB_CHECK(length_ == 0 && !parked_, "a cache of {} tokens is not empty", length_);
  const std::size_t left = left_windows(extent.length);
  if (extent.length > options_.max_tokens || extent.record_base > extent.first_kept || extent.first_kept > left ||
      left - extent.first_kept > options_.rewind_tokens) {
    return fail(ErrorCode::BadFile,
                fmt::format("a chat of {} tokens with a record of positions {} to {}, counted from {}, does not fit a cache "
                            "of {} tokens that records {}",
                            extent.length, extent.first_kept, left, extent.record_base, options_.max_tokens,
                            options_.rewind_tokens));
  }
  record_base_ = extent.record_base;
  parked_ = true;
  Status sized = open_parked(extent.length);
  if (sized) sized = resize(extent.length);
  if (!sized) {
    parked_ = false;
    record_base_ = 0;
    drop_parked();
    EBB_CHECK(resize(0).has_value(), "a cache of {} bytes did not shrink", committed_bytes());
    return sized;
  }
  length_ = extent.length;
  first_kept_ = extent.first_kept;
  return {};
}

}  // namespace ebb::model
