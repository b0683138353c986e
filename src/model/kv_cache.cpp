#include "model/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::model {
namespace {

// Layers share a range as long as one run of them fits this: the page of a GPU, where a short chat then costs one page
// a range. On the host, with smaller pages, it only means fewer ranges.
constexpr std::size_t kRangeRunBytes = 2 * kMiB;

std::size_t run_bytes_per_layer(const Config& config, kernels::KvType type) {
  return KvCache::kRunTokens * 2 * config.kv_heads * kernels::kv_row_bytes(type, config.head_dim);
}

}  // namespace

KvCache::KvCache(const Config& config, const KvOptions& options)
    : kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      window_tokens_(config.window_tokens),
      global_(config.global),
      options_(options),
      places_(config.layers),
      kept_places_(config.layers) {}

Result<std::unique_ptr<KvCache>> KvCache::create(memory::PagePool& pool, memory::OwnerId owner, const Config& config,
                                                 const KvOptions& options) {
  std::unique_ptr<KvCache> cache(new KvCache(config, options));
  std::vector<std::size_t> global_layers, local_layers;
  for (std::size_t layer_idx = 0; layer_idx < config.layers; ++layer_idx) {
    (config.global[layer_idx] ? global_layers : local_layers).push_back(layer_idx);
  }
  using memory::Tag;
  EBB_TRY(cache->add_layers(pool, owner, global_layers, Tag::KvGlobal, options.max_tokens, cache->ranges_, cache->places_));
  EBB_TRY(cache->add_layers(pool, owner, local_layers, Tag::KvLocal, config.window_tokens, cache->ranges_, cache->places_));
  if (options.rewind_tokens != 0) {
    EBB_TRY(cache->add_layers(pool, owner, local_layers, Tag::Cache, options.rewind_tokens, cache->kept_ranges_,
                              cache->kept_places_));
  }
  return cache;
}

Status KvCache::add_layers(memory::PagePool& pool, memory::OwnerId owner, const std::vector<std::size_t>& layers,
                           memory::Tag tag, std::size_t slots, std::vector<Range>& ranges, std::vector<Place>& places) {
  if (layers.empty()) return {};
  const std::size_t layer_run_bytes = kRunTokens * 2 * kv_heads_ * kernels::kv_row_bytes(options_.type, head_dim_);
  const std::size_t most = std::max<std::size_t>(1, kRangeRunBytes / layer_run_bytes);
  const std::size_t range_count = div_up(layers.size(), most);
  const std::size_t per_range = div_up(layers.size(), range_count);
  for (std::size_t first = 0; first < layers.size(); first += per_range) {
    Range range;
    range.layer_count = std::min(per_range, layers.size() - first);
    range.run_bytes = range.layer_count * layer_run_bytes;
    range.slots = slots;
    EBB_TRY_ASSIGN(range.region, memory::Region::reserve(pool, tag, owner, div_up(slots, kRunTokens) * range.run_bytes));
    for (std::size_t idx = 0; idx < range.layer_count; ++idx) places[layers[first + idx]] = {ranges.size(), idx};
    ranges.push_back(std::move(range));
  }
  return {};
}

kernels::KvView KvCache::view(const std::vector<Range>& ranges, const Place& place) const {
  const Range& range = ranges[place.range_idx];
  const std::size_t half_bytes = range.run_bytes / range.layer_count / 2;  // K or V of one layer in one run
  kernels::KvView view;
  view.k = range.region.data() + place.layer_in_range * 2 * half_bytes;
  view.v = view.k + half_bytes;
  view.types = {options_.type, options_.type};
  view.slots = range.slots;
  view.run_tokens = kRunTokens;
  view.run_stride_bytes = range.run_bytes;
  view.k_head_stride_bytes = half_bytes / kv_heads_;
  view.v_head_stride_bytes = half_bytes / kv_heads_;
  return view;
}

kernels::KvView KvCache::layer(std::size_t layer_idx) const { return view(ranges_, places_[layer_idx]); }

Status KvCache::resize(std::size_t tokens) {
  for (Range& range : ranges_) {
    EBB_TRY(range.region.resize(div_up(std::min(tokens, range.slots), kRunTokens) * range.run_bytes));
  }
  const std::size_t left = tokens > window_tokens_ ? tokens - window_tokens_ : 0;
  for (Range& range : kept_ranges_) {
    EBB_TRY(range.region.resize(div_up(std::min(left, range.slots), kRunTokens) * range.run_bytes));
  }
  return {};
}

Status KvCache::reserve(std::size_t count) {
  EBB_CHECK(length_ + count <= options_.max_tokens, "{} + {} tokens, room for {}", length_, count, options_.max_tokens);
  if (Status grown = resize(length_ + count); !grown) {
    EBB_CHECK(resize(length_).has_value(), "shrinking back to {} tokens failed", length_);
    return grown;
  }
  return {};
}

void KvCache::copy_position(const kernels::KvView& from, const kernels::KvView& to, std::size_t pos) const {
  const std::size_t k_bytes = kernels::kv_row_bytes(to.types.k, head_dim_);
  const std::size_t v_bytes = kernels::kv_row_bytes(to.types.v, head_dim_);
  for (std::size_t head = 0; head < kv_heads_; ++head) {
    std::memcpy(to.k + to.offset_k(head, pos, head_dim_), from.k + from.offset_k(head, pos, head_dim_), k_bytes);
    std::memcpy(to.v + to.offset_v(head, pos, head_dim_), from.v + from.offset_v(head, pos, head_dim_), v_bytes);
  }
}

void KvCache::keep_leaving(std::size_t layer_idx, const kernels::KvView& fresh, std::size_t first_pos, std::size_t rows) {
  if (global_[layer_idx] || kept_ranges_.empty()) return;
  const std::size_t end = first_pos + rows;
  if (end <= window_tokens_) return;
  const std::size_t leaving_end = end - window_tokens_;
  std::size_t leaving = first_pos > window_tokens_ ? first_pos - window_tokens_ : 0;
  if (leaving_end > options_.rewind_tokens) leaving = std::max(leaving, leaving_end - options_.rewind_tokens);
  const kernels::KvView ring = layer(layer_idx);
  const kernels::KvView kept = view(kept_ranges_, kept_places_[layer_idx]);
  for (std::size_t pos = leaving; pos < leaving_end; ++pos) copy_position(pos < first_pos ? ring : fresh, kept, pos);
}

void KvCache::advance(std::size_t count) {
  length_ += count;
  const std::size_t reach = window_tokens_ + options_.rewind_tokens;
  if (length_ > reach) first_kept_ = std::max(first_kept_, length_ - reach);
}

bool KvCache::can_rewind(std::size_t count) const {
  if (count >= length_ || length_ <= window_tokens_ || count == 0) return true;
  const std::size_t needed = count > window_tokens_ ? count - window_tokens_ : 0;
  return needed >= first_kept_;
}

Status KvCache::rewind(std::size_t count) {
  if (count >= length_) return {};
  EBB_CHECK(can_rewind(count), "rewind from {} to {} tokens, kept from {}", length_, count, first_kept_);
  const std::size_t needed = count > window_tokens_ ? count - window_tokens_ : 0;
  if (count != 0 && length_ > window_tokens_) {
    for (std::size_t layer_idx = 0; layer_idx < global_.size(); ++layer_idx) {
      if (global_[layer_idx]) continue;
      const kernels::KvView ring = layer(layer_idx);
      const kernels::KvView kept = view(kept_ranges_, kept_places_[layer_idx]);
      for (std::size_t pos = needed; pos < std::min(length_ - window_tokens_, count); ++pos) copy_position(kept, ring, pos);
    }
  }
  length_ = count;
  first_kept_ = std::min(first_kept_, needed);
  return resize(count);
}

std::size_t KvCache::committed_bytes() const {
  std::size_t bytes = 0;
  for (const Range& range : ranges_) bytes += range.region.committed_bytes();
  for (const Range& range : kept_ranges_) bytes += range.region.committed_bytes();
  return bytes;
}

std::size_t KvCache::bytes_per_token(const Config& config, kernels::KvType type) {
  return config.layers * run_bytes_per_layer(config, type) / kRunTokens;
}

}  // namespace ebb::model
