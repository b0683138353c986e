// What this process holds outside the pools, in bytes, as the C library and the operating system count it: the ledger
// does not know it and no limit refuses it. Called by Engine::memory(); what the system does not tell is 0.
// Pool pages are none of it. They are shared pages of a HostDevice's memory file, which the system shows as RssShmem while
// they are resident and mapped, never as RssAnon or VmSwap; what they take, swapped out or not, the file's blocks tell.
// So the host memory of a process is anon_bytes here plus the host pool's own count, and no byte is in both.
// Invariant: each kind is measured by itself, none is what the others leave over; so their sum can be wrong, and a test
// holds it against anon_bytes.
#pragma once

#include <cstddef>

namespace ebb::engine {

struct ProcessMemory {
  std::size_t anon_bytes = 0;       // RssAnon + VmSwap: private pages, resident or swapped out
  std::size_t heap_bytes = 0;       // allocated and not freed, by malloc; what a thread's cache keeps counts as allocated
  std::size_t heap_free_bytes = 0;  // pages that malloc keeps beyond that
  std::size_t stack_bytes = 0;      // pages of all threads' stacks, also of ended threads, which are kept for the next
  std::size_t data_bytes = 0;       // pages of the program and its libraries that were written: variables, relocations
};

/// Reads the page table of heap, stacks and data alone: 0.1 ms with 13 MiB of heap, whatever models and pools hold, and
/// 0.25 us for each mapping of the process.
/// Source   proc(5): maps, pagemap, status; mallinfo(3); dl_iterate_phdr(3). For the stacks' and arenas' shapes: glibc.
[[nodiscard]] ProcessMemory read_process_memory();

}  // namespace ebb::engine
