#include "cli/machine.h"

#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace ebb::cli {

namespace {

std::string value_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
  return colon == std::string::npos || begin == std::string::npos ? "" : line.substr(begin);
}

std::string level_of(const std::set<std::string>& flags) {
  if (flags.contains("avx512f") && flags.contains("avx512bw")) {
    std::string level = "AVX-512";
    if (flags.contains("avx512_vnni")) level += flags.contains("avx512_bf16") ? " with VNNI and BF16" : " with VNNI";
    return level;
  }
  return flags.contains("avx2") ? "AVX2" : "baseline";
}

void read_processor(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;
  std::string package = "0";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) machine.processor = value_of(line);
    if (line.starts_with("physical id")) package = value_of(line);
    if (line.starts_with("core id")) cores.emplace(package, value_of(line));
    if (line.starts_with("flags") && machine.vector_level.empty()) {
      std::istringstream words(value_of(line));
      std::set<std::string> flags;
      for (std::string word; words >> word;) flags.insert(word);
      machine.vector_level = level_of(flags);
      machine.has_avx2 = flags.contains("avx2");
    }
  }
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
  machine.logical_cores =
      known ? static_cast<std::size_t>(CPU_COUNT(&usable)) : static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.physical_cores = cores.empty() ? machine.logical_cores : cores.size();
}

void read_memory(Machine& machine) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::string unit;
  for (std::uint64_t kib = 0; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemTotal:") machine.memory_bytes = kib * 1024;
    if (key == "MemAvailable:") machine.available_bytes = kib * 1024;
  }
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  limit >> machine.memory_limit_bytes;  // "max" leaves it 0
}

void read_cpu_limit(Machine& machine) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && period > 0) machine.cpu_limit = quota / period;
}

}  // namespace

Machine inspect_machine() {
  Machine machine;
  read_processor(machine);
  read_memory(machine);
  read_cpu_limit(machine);
  machine.page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::ifstream huge("/sys/kernel/mm/transparent_hugepage/enabled");
  std::getline(huge, machine.huge_pages);
  return machine;
}

}  // namespace ebb::cli
