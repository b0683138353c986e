// The half of KvCache that goes to host memory and comes back: regions first, then copies, and only when all have
// arrived is the other side given up.
#include "base/check.h"
#include "memory/page_pool.h"
#include "model/internal/copy_batch.h"
#include "model/kv_cache.h"

namespace ebb::model {

Status KvCache::open_parked(std::size_t tokens) {
  for (Range& range : ranges_) {
    const std::size_t bytes = range.layout.bytes(tokens);
    if (range.home == pools_.host || bytes == 0) continue;
    EBB_TRY_ASSIGN(range.parked, memory::Region::reserve(*pools_.host, memory::Tag::Parked, owner_, bytes));
    EBB_TRY(range.parked.resize(bytes));
  }
  return {};
}

void KvCache::drop_parked() {
  for (Range& range : ranges_) range.parked = memory::Region();
}

Status KvCache::copy_parked(Way way) {
  CopyBatch copies;
  Status started;
  for (Range& range : ranges_) {
    if (range.home == pools_.host || !started) continue;
    std::byte* to = (way == Way::Out ? range.parked : range.region).data();
    const std::byte* from = (way == Way::Out ? range.region : range.parked).data();
    started = copies.add(range.home->device(), to, from, range.layout.bytes(length_));
  }
  Status arrived = copies.wait();  // also after a failure: the targets are about to be given up
  return started ? arrived : started;
}

Status KvCache::park() {
  if (parked_) return {};
  Status moved = open_parked(length_);
  if (moved) moved = copy_parked(Way::Out);
  if (!moved) {
    drop_parked();
    return moved;
  }
  for (Range& range : ranges_) {
    if (range.home == pools_.host) continue;
    EBB_CHECK(range.region.resize(0).has_value(), "{} bytes of a parked range did not shrink", range.region.committed_bytes());
  }
  parked_ = true;
  return {};
}

Status KvCache::restore() {
  if (!parked_) return {};
  Status moved;
  for (Range& range : ranges_) {
    if (range.home != pools_.host && moved) moved = range.region.resize(range.layout.bytes(length_));
  }
  if (moved) moved = copy_parked(Way::Back);
  if (!moved) {
    for (Range& range : ranges_) {
      if (range.home == pools_.host) continue;
      EBB_CHECK(range.region.resize(0).has_value(), "{} bytes of a parked range did not shrink", range.region.committed_bytes());
    }
    return moved;
  }
  drop_parked();
  parked_ = false;
  return {};
}

}  // namespace ebb::model
