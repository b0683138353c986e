// This process's private memory by the operating system, for tests that hold our books against it.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace ebb::tests {

/// RssAnon + VmSwap in bytes. The first is counted by walking the page table (smaps_rollup), because the kernel's own
/// sum in /proc/self/status may be behind by some pages for each processor.
inline std::size_t private_bytes() {
  const auto read_kib = [](const char* path, const std::string& wanted) {
    std::ifstream file(path);
    std::string key, rest;
    std::size_t value = 0;
    while (file >> key) {
      if (key == wanted && file >> value) return value;
      std::getline(file, rest);
    }
    return std::size_t{0};
  };
  return (read_kib("/proc/self/smaps_rollup", "Anonymous:") + read_kib("/proc/self/status", "VmSwap:")) * 1024;
}

/// A sanitizer has an allocator of its own, which the C library's numbers know nothing of.
inline bool has_the_c_librarys_allocator() { return mallinfo2().uordblks > 0; }

}  // namespace ebb::tests
