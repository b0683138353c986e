// What a cache will take, from shapes alone.
#include <algorithm>

#include "base/bytes.h"
#include "model/kv_cache.h"

namespace ebb::model {
namespace {

kernels::KvType wider(kernels::KvType a, kernels::KvType b) {
  return kernels::kv_row_bytes(a, kernels::kKvBlock) < kernels::kv_row_bytes(b, kernels::kKvBlock) ? b : a;
}

std::size_t pages(const std::vector<KvRangeLayout>& ranges, std::size_t tokens, std::size_t page_bytes) {
  std::size_t bytes = 0;
  for (const KvRangeLayout& range : ranges) bytes += round_up(range.bytes(tokens), page_bytes);
  return bytes;
}

}  // namespace

kernels::KvTypes KvOptions::widest() const { return {wider(global.k, local.k), wider(global.v, local.v)}; }

KvFootprint KvCache::footprint(const Config& config, const KvOptions& options, std::span<const std::size_t> layers,
                               std::size_t tokens, std::size_t page_bytes) {
  std::vector<std::size_t> global, local;
  for (const std::size_t layer_idx : layers) (config.global[layer_idx] ? global : local).push_back(layer_idx);
  const std::size_t left = tokens - std::min(tokens, config.window_tokens);
  KvFootprint footprint;
  footprint.global_bytes = pages(lay_out_ranges(config, options.global, global, options.max_tokens), tokens, page_bytes);
  footprint.local_bytes = pages(lay_out_ranges(config, options.local, local, config.window_tokens), tokens, page_bytes);
  footprint.record_bytes = pages(lay_out_ranges(config, options.local, local, options.rewind_tokens), left, page_bytes);
  return footprint;
}

std::size_t KvCache::live_bytes(const Config& config, const KvOptions& options, std::size_t layer_idx, std::size_t tokens) {
  const bool is_global = config.global[layer_idx];
  const kernels::KvTypes types = options.types(is_global);
  return config.kv_heads * (is_global ? tokens : std::min(tokens, config.window_tokens)) *
         (kernels::kv_row_bytes(types.k, config.head_dim) + kernels::kv_row_bytes(types.v, config.head_dim));
}

std::size_t KvCache::bytes_per_token(const Config& config, const KvOptions& options) {
  std::size_t bytes = 0;
  for (std::size_t layer_idx = 0; layer_idx < config.layers; ++layer_idx) bytes += live_bytes(config, options, layer_idx, 1);
  return bytes;
}

}  // namespace ebb::model
