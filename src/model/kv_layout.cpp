#include "model/internal/kv_layout.h"

#include <algorithm>

#include "base/bytes.h"

namespace ebb::model {
namespace {

// The page of a GPU, where a short chat then costs one page a range. On the host, with smaller pages, it only means
// fewer ranges.
constexpr std::size_t kRangeRunBytes = 2 * kMiB;

}  // namespace

std::size_t KvRangeLayout::runs(std::size_t tokens) const { return div_up(std::min(tokens, slots), kKvRunTokens); }

kernels::KvView KvRangeLayout::view(std::byte* data, std::size_t layer_in_range) const {
  kernels::KvView view;
  view.k = data + layer_in_range * layer_run_bytes();
  view.v = view.k + kv_heads * k_head_bytes;
  view.types = types;
  view.slots = slots;
  view.run_tokens = kKvRunTokens;
  view.run_stride_bytes = run_bytes();
  view.k_head_stride_bytes = k_head_bytes;
  view.v_head_stride_bytes = v_head_bytes;
  return view;
}

std::vector<std::size_t> layers_of_kind(const Config& config, bool is_global) {
  std::vector<std::size_t> layers;
  for (std::size_t layer_idx = 0; layer_idx < config.layers; ++layer_idx) {
    if (config.global[layer_idx] == is_global) layers.push_back(layer_idx);
  }
  return layers;
}

std::vector<KvRangeLayout> lay_out_ranges(const Config& config, kernels::KvTypes types, std::span<const std::size_t> layers,
                                          std::size_t slots) {
  std::vector<KvRangeLayout> ranges;
  if (layers.empty()) return ranges;
  KvRangeLayout range;
  range.types = types;
  range.kv_heads = config.kv_heads;
  range.slots = slots;
  range.k_head_bytes = kKvRunTokens * kernels::kv_row_bytes(types.k, config.head_dim);
  range.v_head_bytes = kKvRunTokens * kernels::kv_row_bytes(types.v, config.head_dim);
  const std::size_t most = std::max<std::size_t>(1, kRangeRunBytes / range.layer_run_bytes());
  const std::size_t per_range = div_up(layers.size(), div_up(layers.size(), most));
  for (std::size_t first = 0; first < layers.size(); first += per_range) {
    const auto begin = layers.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t count = std::min(per_range, layers.size() - first);
    range.layers.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace ebb::model
