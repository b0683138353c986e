// WeightStore::identity: what tells two models apart without reading gigabytes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "weights/internal/store_state.h"

namespace ebb::weights {
namespace {

// A page at the front, in the middle and at the end of each tensor: training or quantising a model again changes every
// block of every matrix, so that samples show it.
constexpr std::size_t kSampleBytes = 4096;

void add_samples(std::span<const std::byte> data, Checksum& checksum) {
  const std::size_t size = std::min(kSampleBytes, data.size());
  for (const std::size_t at : {std::size_t{0}, (data.size() - size) / 2, data.size() - size}) checksum.add(data.subspan(at, size));
}

}  // namespace

Digest WeightStore::identity() const {
  std::vector<const format::TensorEntry*> entries;
  for (const format::TensorEntry& entry : state_->directory->tensors()) entries.push_back(&entry);
  // One model cut into other files, or written in another order, is the same model.
  std::ranges::sort(entries, {}, &format::TensorEntry::name);
  Checksum checksum;
  for (const format::TensorEntry* entry : entries) {
    checksum.add(fmt::format("{} {} [{}] {}\n", entry->name, dtype_info(entry->dtype).name, fmt::join(entry->shape, ", "), entry->bytes));
    add_samples({entry->data, entry->bytes}, checksum);
  }
  return checksum.digest();
}

}  // namespace ebb::weights
