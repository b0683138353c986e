// Each kind of what the process holds beside the pools rises and falls with the thing it names, and only with that (M16).
#include "engine/internal/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/host/host_device.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "memory/region.h"
#include "support/must.h"
#include "support/process_memory.h"

namespace ebb::tests {
namespace {

using engine::ProcessMemory;
using engine::read_process_memory;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
// Pages at the ends of what is measured, and what the measuring itself and the test's own containers allocate.
constexpr std::size_t kSlack = std::size_t{64} << 10;

alignas(4096) std::array<std::byte, 2 * kMebibyte> some_variable;

void touch(std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 1024) static_cast<volatile std::byte*>(begin)[at] = std::byte{1};
}

void expect_rise(std::size_t before, std::size_t after, std::size_t bytes) {
  EXPECT_GE(after + kSlack, before + bytes);
  EXPECT_LE(after, before + bytes + kSlack);
}

void expect_rise(const ProcessMemory& before, const ProcessMemory& after, const ProcessMemory& by) {
  expect_rise(before.heap_bytes, after.heap_bytes, by.heap_bytes);
  expect_rise(before.heap_free_bytes, after.heap_free_bytes, by.heap_free_bytes);
  expect_rise(before.stack_bytes, after.stack_bytes, by.stack_bytes);
  expect_rise(before.data_bytes, after.data_bytes, by.data_bytes);
}

class ProcessMemoryKinds : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_the_c_librarys_allocator()) GTEST_SKIP() << "a sanitizer's allocator is not the C library's";
  }
};

TEST_F(ProcessMemoryKinds, HeapIsWhatIsAllocatedAndKeptIsWhatWasFreedBetween) {
  constexpr std::size_t kPieces = 4096, kPieceBytes = 2000;  // below what malloc maps one by one, above a thread's cache
  std::vector<std::unique_ptr<std::byte[]>> pieces(kPieces);
  const ProcessMemory before = read_process_memory();
  for (auto& piece : pieces) {
    piece = std::make_unique<std::byte[]>(kPieceBytes);
    touch(piece.get(), kPieceBytes);
  }
  const ProcessMemory full = read_process_memory();
  const std::size_t taken = kPieces * (kPieceBytes + 16);  // with malloc's own word, in steps of 16
  // What malloc had free before may have served some of it.
  EXPECT_GE(full.heap_bytes + full.heap_free_bytes + kSlack, before.heap_bytes + taken);
  expect_rise(before.heap_bytes, full.heap_bytes, taken);
  for (std::size_t idx = 0; idx < kPieces; idx += 2) pieces[idx].reset();
  expect_rise(full, read_process_memory(), {.heap_bytes = 0 - taken / 2, .heap_free_bytes = taken / 2});
}

TEST_F(ProcessMemoryKinds, HeapHasLargeAllocationsToo) {
  const ProcessMemory before = read_process_memory();
  auto large = std::make_unique<std::byte[]>(48 * kMebibyte);
  touch(large.get(), 48 * kMebibyte);
  expect_rise(before, read_process_memory(), {.heap_bytes = 48 * kMebibyte});
  large.reset();
  expect_rise(before, read_process_memory(), {});
}

TEST_F(ProcessMemoryKinds, StacksAreThoseOfAllThreads) {
  constexpr std::size_t kThreads = 3, kDepth = 2 * kMebibyte;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t deep_count = 0;
  bool may_end = false;
  const ProcessMemory before = read_process_memory();
  std::vector<std::thread> threads;
  for (std::size_t idx = 0; idx < kThreads; ++idx) {
    threads.emplace_back([&] {
      std::array<std::byte, kDepth> local;  // its pages come from the writes alone
      touch(local.data(), local.size());
      std::unique_lock lock(mutex);
      ++deep_count;
      changed.notify_all();
      changed.wait(lock, [&] { return may_end; });
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return deep_count == kThreads; });
  const ProcessMemory during = read_process_memory();
  may_end = true;
  lock.unlock();
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  expect_rise(before, during, {.stack_bytes = kThreads * kDepth});
}

TEST_F(ProcessMemoryKinds, HeapOfAThreadCountsLikeThatOfTheProgram) {
  std::vector<std::unique_ptr<std::byte[]>> pieces(1000);
  const ProcessMemory before = read_process_memory();
  std::thread([&] {  // a second thread at work has an arena of its own
    for (auto& piece : pieces) {
      piece = std::make_unique<std::byte[]>(2000);
      touch(piece.get(), 2000);
    }
  }).join();
  const ProcessMemory full = read_process_memory();
  expect_rise(before.heap_bytes, full.heap_bytes, pieces.size() * 2016);
  for (std::size_t idx = 0; idx < pieces.size(); idx += 2) pieces[idx].reset();
  expect_rise(full, read_process_memory(), {.heap_bytes = 0 - pieces.size() * 1008, .heap_free_bytes = pieces.size() * 1008});
}

TEST_F(ProcessMemoryKinds, DataIsWhatWasWrittenOfTheProgramsVariables) {
  ASSERT_EQ(::madvise(some_variable.data(), some_variable.size(), MADV_DONTNEED), 0) << "as if never written, in every repetition";
  const ProcessMemory before = read_process_memory();
  touch(some_variable.data(), some_variable.size());
  expect_rise(before, read_process_memory(), {.data_bytes = some_variable.size()});
}

// Beside them, not in them: pages of a pool are shared pages, so that no byte is counted twice.
TEST_F(ProcessMemoryKinds, PagesOfAPoolAreNotOfThem) {
  const auto device = must(device::HostDevice::open());
  memory::Ledger ledger;
  memory::PagePool pool(*device, ledger);
  auto region = must(memory::Region::reserve(pool, memory::Tag::Scratch, memory::kEngineOwner, 32 * kMebibyte));
  const ProcessMemory before = read_process_memory();
  const std::size_t private_before = private_bytes();
  ASSERT_TRUE(region.resize(32 * kMebibyte).has_value());
  touch(region.data(), 32 * kMebibyte);
  const ProcessMemory after = read_process_memory();
  EXPECT_EQ(device->physical_bytes(), 32 * kMebibyte);
  EXPECT_LE(private_bytes(), private_before + kMebibyte) << "nor are they RssAnon; the books of 512 pages are";
  EXPECT_LE(after.heap_bytes, before.heap_bytes + kMebibyte);
  EXPECT_LE(after.data_bytes + after.stack_bytes, before.data_bytes + before.stack_bytes + kSlack);
}

// A private mapping that none of the kinds knows must show as a gap, or the sum would prove nothing.
TEST_F(ProcessMemoryKinds, NoKindTakesWhatHasNoName) {
  const ProcessMemory before = read_process_memory();
  const std::size_t private_before = private_bytes();
  void* const unknown = ::mmap(nullptr, 8 * kMebibyte + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unknown, MAP_FAILED);
  touch(static_cast<std::byte*>(unknown), 8 * kMebibyte);
  expect_rise(before, read_process_memory(), {});
  expect_rise(private_before, private_bytes(), 8 * kMebibyte);
  ::munmap(unknown, 8 * kMebibyte + 4096);
}

}  // namespace
}  // namespace ebb::tests
