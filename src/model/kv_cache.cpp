#include "model/kv_cache.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "memory/page_pool.h"
#include "model/internal/copy_batch.h"

namespace ebb::model {

KvCache::KvCache(const KvPools& pools, memory::OwnerId owner, const Config& config, const KvOptions& options)
    : pools_(pools),
      owner_(owner),
      config_(config),
      window_tokens_(config.window_tokens),
      options_(options),
      places_(config.layers),
      record_places_(config.layers) {}

Result<std::unique_ptr<KvCache>> KvCache::create(const KvPools& pools, memory::OwnerId owner, const Config& config,
                                                 const KvOptions& options) {
  EBB_CHECK(pools.layers.size() == config.layers, "{} homes for {} layers", pools.layers.size(), config.layers);
  std::unique_ptr<KvCache> cache(new KvCache(pools, owner, config, options));
  EBB_TRY(cache->add_layers(true));
  EBB_TRY(cache->add_layers(false));
  if (options.rewind_tokens == 0) return cache;
  const std::vector<std::size_t> local = layers_of_kind(config, false);
  for (KvRangeLayout& layout : lay_out_ranges(config, options.local, local, options.rewind_tokens)) {
    EBB_TRY(cache->add_range(std::move(layout), *pools.host, memory::Tag::Cache, cache->record_ranges_, cache->record_places_));
  }
  return cache;
}

Status KvCache::add_layers(bool is_global) {
  std::vector<std::size_t> rest = layers_of_kind(config_, is_global);
  const std::size_t slots = is_global ? options_.max_tokens : window_tokens_;
  while (!rest.empty()) {
    memory::PagePool& home = *pools_.layers[rest.front()];
    const auto elsewhere = std::stable_partition(
        rest.begin(), rest.end(), [&](std::size_t layer_idx) { return pools_.layers[layer_idx] == &home; });
    const std::vector<std::size_t> here(rest.begin(), elsewhere);
    rest.erase(rest.begin(), elsewhere);
    for (KvRangeLayout& layout : lay_out_ranges(config_, options_.types(is_global), here, slots)) {
      EBB_TRY(add_range(std::move(layout), home, is_global ? memory::Tag::KvGlobal : memory::Tag::KvLocal, ranges_, places_));
    }
  }
  return {};
}

Status KvCache::add_range(KvRangeLayout layout, memory::PagePool& home, memory::Tag tag, std::vector<Range>& ranges,
                          std::vector<Place>& places) {
  Range range;
  EBB_TRY_ASSIGN(range.region, memory::Region::reserve(home, tag, owner_, layout.bytes(layout.slots)));
  for (std::size_t idx = 0; idx < layout.layers.size(); ++idx) places[layout.layers[idx]] = {ranges.size(), idx};
  range.layout = std::move(layout);
  range.home = &home;
  ranges.push_back(std::move(range));
  return {};
}

kernels::KvView KvCache::layer(std::size_t layer_idx) const {
  const Place& place = places_[layer_idx];
  const Range& range = ranges_[place.range_idx];
  return range.layout.view(range.at(is_away(range)).data(), place.layer_in_range);
}

kernels::KvView KvCache::record(std::size_t layer_idx) const {
  const Place& place = record_places_[layer_idx];
  const Range& range = record_ranges_[place.range_idx];
  return range.layout.view(range.region.data(), place.layer_in_range);
}

Status KvCache::resize(std::size_t tokens) {
  for (Range& range : ranges_) EBB_TRY(range.at(is_away(range)).resize(range.layout.bytes(tokens)));
  for (Range& range : record_ranges_) EBB_TRY(range.region.resize(range.layout.bytes(left_windows(tokens) - record_base_)));
  return {};
}

Status KvCache::reserve(std::size_t count) {
  EBB_CHECK(length_ + count <= options_.max_tokens, "{} + {} tokens, room for {}", length_, count, options_.max_tokens);
  if (is_lost_) {
    return fail(ErrorCode::Io, "the keys and values of this conversation were lost when a device failed in the middle of its work; "
                               "evaluate its tokens again");
  }
  EBB_TRY(restore());
  EBB_TRY(own_end());
  if (Status grown = resize(length_ + count); !grown) {
    EBB_CHECK(resize(length_).has_value(), "shrinking back to {} tokens failed", length_);
    return grown;
  }
  return {};
}

Status KvCache::refill(std::size_t layer_idx, const KvCache& to, std::size_t first_pos, std::size_t end_pos, CopyBatch& copies) const {
  if (first_pos >= end_pos) return {};
  const kernels::RowsCopy rows{record(layer_idx), to.layer(layer_idx),   first_pos - record_base_, first_pos,
                               end_pos - first_pos, config_.kv_heads, config_.head_dim};
  const Range& range = to.ranges_[to.places_[layer_idx].range_idx];
  device::Device& device = (to.is_away(range) ? pools_.host : range.home)->device();
  return kernels::for_each_piece(rows, [&](std::byte* target, const std::byte* source, std::size_t bytes) {
    return copies.add(device, target, source, bytes);
  });
}

std::array<kernels::RowsCopy, 2> KvCache::leaving(std::size_t layer_idx, const kernels::KvView& fresh, std::size_t first_pos,
                                                  std::size_t rows) const {
  if (config_.global[layer_idx] || record_ranges_.empty()) return {};
  const std::size_t end = left_windows(first_pos + rows);
  std::size_t first = left_windows(first_pos);
  if (end > options_.rewind_tokens) first = std::max(first, end - options_.rewind_tokens);
  const kernels::KvView kept = record(layer_idx);
  const auto rows_of = [&](const kernels::KvView& from, std::size_t from_pos, std::size_t end_pos) {
    const std::size_t count = end_pos - std::min(from_pos, end_pos);
    return kernels::RowsCopy{from, kept, from_pos, from_pos - record_base_, count, config_.kv_heads, config_.head_dim};
  };
  return {rows_of(layer(layer_idx), first, std::min(first_pos, end)), rows_of(fresh, std::max(first, first_pos), end)};
}

void KvCache::abandon(std::size_t rows, std::size_t layer_count) {
  const std::size_t left = left_windows(length_);
  const std::size_t leaving_end = left_windows(length_ + rows);
  const bool has_local = std::ranges::find(config_.global, false) != config_.global.end();
  if (has_local && leaving_end - left > options_.rewind_tokens) return lose();
  CopyBatch copies;
  Status refilled;
  for (std::size_t layer_idx = 0; layer_idx < layer_count && refilled; ++layer_idx) {
    if (!config_.global[layer_idx]) refilled = refill(layer_idx, *this, left, std::min(leaving_end, length_), copies);
  }
  if (!copies.wait() || !refilled) return lose();
  // The step's own rows took the oldest places of the record.
  if (leaving_end > options_.rewind_tokens) first_kept_ = std::max(first_kept_, leaving_end - options_.rewind_tokens);
  EBB_CHECK(resize(length_).has_value(), "shrinking back to {} tokens failed", length_);
}

void KvCache::advance(std::size_t count) {
  length_ += count;
  const std::size_t reach = window_tokens_ + options_.rewind_tokens;
  if (length_ > reach) first_kept_ = std::max(first_kept_, length_ - reach);
}

bool KvCache::can_rewind(std::size_t count) const {
  if (is_lost_) return count == 0;
  if (count >= length_ || length_ <= window_tokens_ || count == 0) return true;
  return left_windows(count) >= first_kept_;
}

Status KvCache::rewind(std::size_t count) {
  if (count == 0) is_lost_ = false;
  if (count >= length_) return {};
  EBB_CHECK(can_rewind(count), "rewind from {} to {} tokens, kept from {}", length_, count, first_kept_);
  if (Status restored = restore_windows(count, *this); !restored) {
    lose();
    return restored;
  }
  length_ = count;
  if (count == 0) first_kept_ = record_base_ = 0;
  return resize(count);
}

Status KvCache::restore_windows(std::size_t tokens, const KvCache& to) const {
  if (record_ranges_.empty()) return {};
  CopyBatch copies;
  Status refilled;
  for (std::size_t layer_idx = 0; layer_idx < config_.layers && refilled; ++layer_idx) {
    if (config_.global[layer_idx]) continue;
    refilled = refill(layer_idx, to, left_windows(tokens), std::min(left_windows(length_), tokens), copies);
  }
  Status arrived = copies.wait();
  return refilled ? arrived : refilled;
}

void KvCache::drop_record() {
  first_kept_ = record_base_ = left_windows(length_);
  EBB_CHECK(resize(length_).has_value(), "the record of {} tokens did not shrink", length_);
}

std::size_t KvCache::device_bytes() const {
  std::size_t bytes = 0;
  for (const Range& range : ranges_) bytes += range.home == pools_.host ? 0 : range.region.committed_bytes();
  return bytes;
}

std::size_t KvCache::host_bytes() const {
  std::size_t bytes = record_bytes();
  for (const Range& range : ranges_) bytes += (range.home == pools_.host ? range.region : range.parked).committed_bytes();
  return bytes;
}

std::size_t KvCache::record_bytes() const {
  std::size_t bytes = 0;
  for (const Range& range : record_ranges_) bytes += range.region.committed_bytes();
  return bytes;
}

}  // namespace ebb::model
