// The part of KvCache that begins a second conversation from what a first one holds.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "memory/page_pool.h"
#include "model/internal/copy_batch.h"
#include "model/kv_cache.h"

namespace ebb::model {

Result<std::unique_ptr<KvCache>> KvCache::fork(memory::OwnerId owner, std::size_t tokens) {
  EBB_CHECK(tokens <= length_, "{} tokens of {}", tokens, length_);
  if (!can_rewind(tokens)) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("windows as they were after {} tokens are gone: the chat has {} and remembers from {} on", tokens,
                            length_, first_kept_ + window_tokens_));
  }
  EBB_TRY(restore());
  EBB_TRY_ASSIGN(std::unique_ptr<KvCache> fork, create(pools_, owner, config_, options_));
  CopyBatch copies;
  Status copied;
  for (std::size_t range_idx = 0; range_idx < ranges_.size() && copied; ++range_idx) {
    copied = fork->take_front(range_idx, ranges_[range_idx], tokens, copies);
  }
  Status arrived = copies.wait();
  EBB_TRY(std::move(copied));
  EBB_TRY(std::move(arrived));
  fork->length_ = tokens;
  fork->first_kept_ = fork->record_base_ = left_windows(tokens);
  EBB_TRY(restore_windows(tokens, *fork));
  return fork;
}

Status KvCache::take_front(std::size_t range_idx, const Range& source, std::size_t tokens, CopyBatch& copies) {
  Range& range = ranges_[range_idx];
  const std::size_t full_runs = is_global(range) ? tokens / kKvRunTokens : 0;
  EBB_TRY(range.region.share_front(source.region, full_runs * range.layout.run_bytes()));
  const std::size_t shared = range.region.committed_bytes();
  const std::size_t bytes = range.layout.bytes(tokens);
  EBB_TRY(range.region.resize(bytes));
  return copies.add(range.home->device(), range.region.data() + shared, source.region.data() + shared, bytes - shared);
}

Status KvCache::own_end() {
  for (Range& range : ranges_) {
    if (!is_global(range)) continue;
    memory::Region& region = range.at(is_away(range));
    Status owned = region.make_private(length_ / kKvRunTokens * range.layout.run_bytes());
    if (region.committed_bytes() < range.layout.bytes(length_)) lose();
    EBB_TRY(std::move(owned));
  }
  return {};
}

void KvCache::lose() {
  length_ = first_kept_ = record_base_ = 0;
  is_lost_ = true;
  EBB_CHECK(resize(0).has_value(), "a cache of {} bytes did not shrink", committed_bytes());
}

}  // namespace ebb::model
