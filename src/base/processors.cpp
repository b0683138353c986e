#include "base/processors.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace ebb {

std::size_t usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::max(1U, std::thread::hardware_concurrency());
  std::set<std::string> cores;  // each named by the list of its threads
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
    std::string threads;
    if (!std::getline(file, threads)) threads = fmt::format("{}", processor);
    cores.insert(threads);
  }
  return std::max<std::size_t>(1, cores.size());
}

}  // namespace ebb
