#include "engine/internal/process_memory.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace ebb::engine {
namespace {

// An arena's heap begins at a multiple of this (glibc's HEAP_MAX_SIZE where a long has 64 bits).
constexpr std::uintptr_t kArenaStep = 64 * kMiB;

// The page table of this process. Its own pages may be read by any process; where there is none, all counts are 0.
class PageTable {
 public:
  PageTable() : file_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)), page_(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE))) {}
  ~PageTable() {
    if (file_ >= 0) ::close(file_);
  }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  /// Bytes of private pages between two addresses, resident or swapped out.
  [[nodiscard]] std::size_t private_bytes(std::uintptr_t begin, std::uintptr_t end) const {
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62;
    constexpr std::uint64_t kOfAFileOrShared = std::uint64_t{1} << 61;
    std::array<std::uint64_t, 512> entries{};
    std::size_t pages = 0;
    const std::uintptr_t last = (end + page_ - 1) / page_;
    for (std::uintptr_t page = begin / page_; page < last;) {
      const std::size_t wanted = std::min<std::size_t>(last - page, entries.size()) * sizeof entries[0];
      const ssize_t got = ::pread(file_, entries.data(), wanted, static_cast<off_t>(page * sizeof entries[0]));
      if (got <= 0) break;
      const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
      pages += static_cast<std::size_t>(std::count_if(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count), [](std::uint64_t entry) {
        return (entry & (kPresent | kSwapped)) != 0 && (entry & kOfAFileOrShared) == 0;
      }));
      page += count;
    }
    return pages * page_;
  }

 private:
  const int file_;
  const std::uintptr_t page_;
};

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool writable = false;
  bool closed = false;  // neither read nor written nor run
  std::string_view name;
};

// "7f0cce0f7000-7f0cce8f7000 rw-p 00000000 00:00 0    [stack]"
Mapping parse_mapping(std::string_view line) {
  Mapping mapping;
  const char* const line_end = line.data() + line.size();
  const auto begin = std::from_chars(line.data(), line_end, mapping.begin, 16);
  if (begin.ptr == line_end) return {};
  const auto end = std::from_chars(begin.ptr + 1, line_end, mapping.end, 16);
  const std::string_view rest(end.ptr, static_cast<std::size_t>(line_end - end.ptr));
  mapping.writable = rest.starts_with(" rw-p");
  mapping.closed = rest.starts_with(" ---p");
  if (const std::size_t name = rest.find_first_of("[/"); name != std::string_view::npos) mapping.name = rest.substr(name);
  return mapping;
}

struct Shapes {
  std::size_t stack_bytes = 0, guard_bytes = 0;
};

// Of threads made with default attributes, which all of ours are.
Shapes thread_shapes() {
  Shapes shapes;
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return shapes;
  ::pthread_attr_getstacksize(&attributes, &shapes.stack_bytes);
  ::pthread_attr_getguardsize(&attributes, &shapes.guard_bytes);
  ::pthread_attr_destroy(&attributes);
  return shapes;
}

// Stacks of threads lie behind a closed page, inside one range of the default size; whatever the system joins to the end
// of that range is not theirs.
void add_mappings(const PageTable& table, ProcessMemory& memory, std::size_t& arena_bytes) {
  const Shapes shapes = thread_shapes();
  std::ifstream file("/proc/self/maps");
  Mapping before;
  for (std::string line; std::getline(file, line);) {
    Mapping mapping = parse_mapping(line);
    const bool behind_guard = before.closed && before.end == mapping.begin && before.end - before.begin == shapes.guard_bytes &&
                              mapping.end - before.begin >= shapes.stack_bytes;
    if (mapping.name == "[heap]") {
      arena_bytes += table.private_bytes(mapping.begin, mapping.end);
    } else if (mapping.name == "[stack]") {
      memory.stack_bytes += table.private_bytes(mapping.begin, mapping.end);
    } else if (mapping.writable && mapping.name.empty() && behind_guard) {
      memory.stack_bytes += table.private_bytes(mapping.begin, before.begin + shapes.stack_bytes);
    } else if (mapping.writable && mapping.name.empty() && mapping.begin % kArenaStep == 0) {
      arena_bytes += table.private_bytes(mapping.begin, mapping.end);
    }
    mapping.closed = mapping.closed && mapping.name.empty();
    mapping.name = {};  // it points into the line
    before = mapping;
  }
}

std::size_t written_data_bytes(const PageTable& table) {
  struct Sum {
    const PageTable& table;
    std::size_t bytes = 0;
  } sum{table};
  const auto add_object = [](dl_phdr_info* object, std::size_t /*size*/, void* target) {
    auto& into = *static_cast<Sum*>(target);
    for (const ElfW(Phdr)* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
      if (part->p_type != PT_LOAD || (part->p_flags & PF_W) == 0) continue;
      const std::uintptr_t begin = object->dlpi_addr + part->p_vaddr;
      into.bytes += into.table.private_bytes(begin, begin + part->p_memsz);
    }
    return 0;
  };
  ::dl_iterate_phdr(add_object, &sum);
  return sum.bytes;
}

std::size_t anonymous_bytes() {
  std::ifstream file("/proc/self/status");
  std::string key, rest;
  std::size_t kib = 0;
  while (file >> key) {
    std::size_t value = 0;
    if ((key == "RssAnon:" || key == "VmSwap:") && file >> value) kib += value;
    std::getline(file, rest);
  }
  return kib * kKiB;
}

}  // namespace

ProcessMemory read_process_memory() {
  ProcessMemory memory;
  const PageTable table;
  std::size_t arena_bytes = 0;
  add_mappings(table, memory, arena_bytes);
  memory.data_bytes = written_data_bytes(table);
  const struct mallinfo2 allocator = ::mallinfo2();  // of all arenas
  memory.heap_bytes = allocator.uordblks + allocator.hblkhd;
  memory.heap_free_bytes = arena_bytes - std::min(arena_bytes, allocator.uordblks);
  memory.anon_bytes = anonymous_bytes();
  return memory;
}

}  // namespace ebb::engine
