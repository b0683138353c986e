// Offsets of a growing store: hands out ranges lowest first, so that pages taken one after the other lie side by side
// and one mmap call can map them. Called by the host device under its lock; knows sizes only, no memory.
// Invariant: free ranges are disjoint, never adjacent, and below end().
#pragma once

#include <cstddef>
#include <map>

namespace ebb::device {

class Extents {
 public:
  /// The offset of `bytes` bytes that are now taken; grows the store where no free range is large enough.
  [[nodiscard]] std::size_t take(std::size_t bytes);
  void give_back(std::size_t offset, std::size_t bytes);

  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::map<std::size_t, std::size_t> free_;  // offset to bytes
  std::size_t end_ = 0;
};

}  // namespace ebb::device
