// What doctor and bench say of this machine, read from the kernel's own files. Linux.
#pragma once

#include <cstddef>
#include <string>

namespace ebb::cli {

struct Machine {
  std::string processor;
  std::string vector_level;  // "AVX-512 with VNNI and BF16", "AVX2", "baseline"
  bool has_avx2 = false;
  std::size_t logical_cores = 0;   // this process may use
  std::size_t physical_cores = 0;  // of the machine
  std::size_t memory_bytes = 0;
  std::size_t available_bytes = 0;
  std::size_t memory_limit_bytes = 0;  // of the container; 0 = none
  double cpu_limit = 0;                // cores' worth of time the container grants; 0 = no limit
  std::size_t page_bytes = 0;
  std::string huge_pages;  // the kernel's setting for transparent ones
};

[[nodiscard]] Machine inspect_machine();

}  // namespace ebb::cli
