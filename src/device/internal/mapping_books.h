// What a backend knows of its addresses, handles and mappings, and the checks of device.h's preconditions: breaking one
// stops the program here, before any call to a system or driver, so that every backend refuses the same misuse.
// Called by the host and CUDA devices under their own lock; knows no memory and makes no call.
// Invariant: a handle's mapping_count is the number of its entries in mappings(); mappings do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

#include "device/device.h"

namespace ebb::device {

class MappingBooks {
 public:
  struct Mapping {
    std::size_t bytes = 0;
    Handle handle;
  };

  void add_range(AddressRange range);
  /// The range was reserved here and holds no mapping.
  void check_range_is_free(AddressRange range) const;
  void remove_range(AddressRange range);

  void add_handle(Handle handle, std::size_t bytes);
  /// The handle is live and mapped nowhere. Returns its bytes.
  [[nodiscard]] std::size_t check_handle_is_free(Handle handle) const;
  void remove_handle(Handle handle);
  [[nodiscard]] std::size_t bytes_of(Handle handle) const;

  /// All handles are live, and there is room for them from `address` on inside one reservation. Returns their bytes.
  [[nodiscard]] std::size_t check_can_map(std::byte* address, std::span<const Handle> handles) const;
  void add_mappings(std::byte* address, std::span<const Handle> handles);
  /// The range covers whole mappings without holes.
  void check_is_whole(std::byte* address, std::size_t bytes) const;
  void remove_mappings(std::byte* address, std::size_t bytes);

  [[nodiscard]] const std::map<std::byte*, std::size_t>& ranges() const { return ranges_; }
  [[nodiscard]] const std::map<std::byte*, Mapping>& mappings() const { return mappings_; }
  [[nodiscard]] std::size_t handle_count() const { return physical_.size(); }
  [[nodiscard]] std::size_t created_bytes() const { return created_bytes_; }

  /// Calls `visit(Handle)` for every live handle.
  template <typename Visit>
  void each_handle(Visit visit) const {
    for (const auto& [value, physical] : physical_) visit(Handle{value});
  }

 private:
  struct Physical {
    std::size_t bytes = 0;
    std::size_t mapping_count = 0;
  };

  [[nodiscard]] const Physical& live(Handle handle) const;
  [[nodiscard]] bool is_reserved(std::byte* address, std::size_t bytes) const;
  [[nodiscard]] bool touches_mapping(std::byte* address, std::size_t bytes) const;

  std::unordered_map<std::uint64_t, Physical> physical_;
  std::map<std::byte*, std::size_t> ranges_;
  std::map<std::byte*, Mapping> mappings_;
  std::size_t created_bytes_ = 0;
};

}  // namespace ebb::device
