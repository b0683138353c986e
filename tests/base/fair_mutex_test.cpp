#include "base/fair_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ebb {
namespace {

TEST(FairMutex, ServesInOrderOfArrival) {
  FairMutex mutex;
  std::vector<int> order;  // guarded by it
  std::vector<std::thread> threads;
  mutex.lock();
  for (int idx = 0; idx < 8; ++idx) {
    threads.emplace_back([&, idx] {
      const std::lock_guard lock(mutex);
      order.push_back(idx);
    });
    while (mutex.waiting() != static_cast<std::size_t>(idx) + 1) std::this_thread::yield();
  }
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  mutex.lock();  // behind all of them
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mutex.waiting(), 0U);
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
}

TEST(FairMutex, LetsOneInAtATime) {
  FairMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace ebb
