#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <thread>
#include <vector>

namespace ebb::kernels {
namespace {

TEST(ThreadPool, RunsEachPieceOnceForAnyThreadAndPieceCount) {
  for (int thread_count = 1; thread_count <= 8; ++thread_count) {
    ThreadPool pool(thread_count);
    EXPECT_EQ(pool.thread_count(), thread_count);
    for (std::size_t piece_count : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 100u, 1000u}) {
      std::vector<int> runs(piece_count, 0);
      std::atomic<bool> thread_idx_in_range{true};
      pool.parallel_for(piece_count, [&](std::size_t piece_idx, int thread_idx) {
        ++runs[piece_idx];
        if (thread_idx < 0 || thread_idx >= thread_count) thread_idx_in_range = false;
      });
      EXPECT_TRUE(thread_idx_in_range);
      for (int run_count : runs) EXPECT_EQ(run_count, 1);
    }
  }
}

TEST(ThreadPool, ManyShortJobsSeeEachOthersWrites) {
  for (int thread_count : {1, 2, 3, 8}) {
    ThreadPool pool(thread_count);
    std::vector<std::size_t> cells(5, 0);
    constexpr std::size_t kJobs = 5000;
    for (std::size_t job_idx = 0; job_idx < kJobs; ++job_idx) {
      const std::size_t before = cells[0];  // a plain read of what some thread wrote in the job before
      ASSERT_EQ(before, job_idx);
      pool.parallel_for(cells.size(), [&, job_idx](std::size_t piece_idx, int) {
        if (cells[piece_idx] == job_idx) ++cells[piece_idx];
      });
    }
    for (std::size_t cell : cells) EXPECT_EQ(cell, kJobs);
  }
}

TEST(ThreadPool, NoTwoPiecesRunOnOneThreadIndexAtOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<bool> overlap{false};
  for (int job_idx = 0; job_idx < 500; ++job_idx) {
    pool.parallel_for(16, [&](std::size_t, int thread_idx) {
      if (busy[static_cast<std::size_t>(thread_idx)].fetch_add(1) != 0) overlap = true;
      busy[static_cast<std::size_t>(thread_idx)].fetch_sub(1);
    });
  }
  EXPECT_FALSE(overlap);
}

TEST(ThreadPool, IsDestroyedWhileIdleWhileSpinningAndUnused) {
  for (int round = 0; round < 20; ++round) {
    { ThreadPool unused(1 + round % 8); }
    {
      ThreadPool spinning(1 + round % 8);
      spinning.parallel_for(4, [](std::size_t, int) {});
    }
    {
      ThreadPool idle(1 + round % 8);
      idle.parallel_for(4, [](std::size_t, int) {});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

TEST(ThreadPool, WorksAgainAfterItsWorkersSlept) {
  ThreadPool pool(3);
  std::atomic<std::size_t> runs{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.parallel_for(10, [&](std::size_t, int) { ++runs; });
  }
  EXPECT_EQ(runs, 200u);
}

double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ThreadPool, UsesNoProcessorTimeWhileIdle) {
  ThreadPool pool(4);
  pool.parallel_for(16, [](std::size_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Busy waiting by a single worker would be 0.3 s; a tenth of that leaves room for the timer and the scheduler.
  EXPECT_LT(process_cpu_seconds() - before, 0.03);
}

TEST(ThreadPool, MoreThreadsThanProcessorsDoNotCollapse) {
  ThreadPool pool(32);
  std::atomic<std::size_t> runs{0};
  const auto begin = std::chrono::steady_clock::now();
  for (int job_idx = 0; job_idx < 200; ++job_idx) pool.parallel_for(64, [&](std::size_t, int) { ++runs; });
  EXPECT_EQ(runs, 200u * 64u);
  // 200 jobs of nothing: generous, yet far from a thread waiting out its time slice (some ms) in each.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace ebb::kernels
