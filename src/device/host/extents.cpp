#include <algorithm>
#include <iterator>

#include "device/internal/extents.h"

namespace ebb::device {

std::size_t Extents::take(std::size_t bytes) {
  const auto fit =
      std::find_if(free_.begin(), free_.end(), [bytes](const auto& range) { return range.second >= bytes; });
  if (fit == free_.end()) {
    const std::size_t offset = end_;
    end_ += bytes;
    return offset;
  }
  const std::size_t offset = fit->first;
  const std::size_t rest = fit->second - bytes;
  free_.erase(fit);
  if (rest != 0) free_.emplace(offset + bytes, rest);
  return offset;
}

void Extents::give_back(std::size_t offset, std::size_t bytes) {
  auto next = free_.upper_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace_hint(next, offset, bytes);
}

}  // namespace ebb::device
