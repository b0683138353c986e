#include <iterator>

#include "base/check.h"
#include "device/internal/mapping_books.h"

namespace ebb::device {

void MappingBooks::add_range(AddressRange range) { ranges_.emplace(range.data, range.bytes); }

void MappingBooks::check_range_is_free(AddressRange range) const {
  const auto found = ranges_.find(range.data);
  EBB_CHECK(found != ranges_.end() && found->second == range.bytes, "{} bytes were never reserved here", range.bytes);
  EBB_CHECK(!touches_mapping(range.data, range.bytes), "{} bytes still hold a mapping", range.bytes);
}

void MappingBooks::remove_range(AddressRange range) { ranges_.erase(range.data); }

void MappingBooks::add_handle(Handle handle, std::size_t bytes) {
  physical_.emplace(handle.value, Physical{bytes, 0});
  created_bytes_ += bytes;
}

std::size_t MappingBooks::check_handle_is_free(Handle handle) const {
  const Physical& physical = live(handle);
  EBB_CHECK(physical.mapping_count == 0, "handle {} has {} mappings", handle.value, physical.mapping_count);
  return physical.bytes;
}

void MappingBooks::remove_handle(Handle handle) {
  const auto found = physical_.find(handle.value);
  created_bytes_ -= found->second.bytes;
  physical_.erase(found);
}

std::size_t MappingBooks::bytes_of(Handle handle) const { return live(handle).bytes; }

std::size_t MappingBooks::check_can_map(std::byte* address, std::span<const Handle> handles) const {
  std::size_t total_bytes = 0;
  for (const Handle handle : handles) total_bytes += live(handle).bytes;
  EBB_CHECK(is_reserved(address, total_bytes), "{} bytes are not inside one reservation", total_bytes);
  EBB_CHECK(!touches_mapping(address, total_bytes), "{} bytes overlap a mapping", total_bytes);
  return total_bytes;
}

void MappingBooks::add_mappings(std::byte* address, std::span<const Handle> handles) {
  for (const Handle handle : handles) {
    Physical& physical = physical_[handle.value];
    ++physical.mapping_count;
    mappings_.emplace(address, Mapping{physical.bytes, handle});
    address += physical.bytes;
  }
}

void MappingBooks::check_is_whole(std::byte* address, std::size_t bytes) const {
  std::byte* expected = address;
  for (auto mapping = mappings_.find(address);
       mapping != mappings_.end() && mapping->first == expected && expected < address + bytes; ++mapping)
    expected += mapping->second.bytes;
  EBB_CHECK(bytes != 0 && expected == address + bytes, "{} bytes are not whole mappings", bytes);
}

void MappingBooks::remove_mappings(std::byte* address, std::size_t bytes) {
  const auto first = mappings_.find(address);
  const auto last = mappings_.lower_bound(address + bytes);
  for (auto mapping = first; mapping != last; ++mapping) --physical_[mapping->second.handle.value].mapping_count;
  mappings_.erase(first, last);
}

const MappingBooks::Physical& MappingBooks::live(Handle handle) const {
  const auto found = physical_.find(handle.value);
  EBB_CHECK(found != physical_.end(), "handle {} is not live", handle.value);
  return found->second;
}

bool MappingBooks::is_reserved(std::byte* address, std::size_t bytes) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin() || bytes == 0) return false;
  const auto& [start, reserved_bytes] = *std::prev(after);
  return address + bytes <= start + reserved_bytes;
}

bool MappingBooks::touches_mapping(std::byte* address, std::size_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return true;
  return next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
}

}  // namespace ebb::device
