// What one parallel section costs beside its work: with workers still on the processor, and with workers asleep.
#include "kernels/thread_pool.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

namespace ebb::bench {
namespace {

void bench_parallel_for_hot(benchmark::State& state) {
  kernels::ThreadPool threads(static_cast<int>(state.range(0)));
  for (auto _ : state)
    threads.parallel_for(static_cast<std::size_t>(state.range(1)),
                         [](std::size_t, int) { benchmark::ClobberMemory(); });
}
BENCHMARK(bench_parallel_for_hot)->ArgNames({"threads", "pieces"})->Args({2, 2})->Args({2, 64})->UseRealTime();

void bench_parallel_for_after_sleep(benchmark::State& state) {
  kernels::ThreadPool threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    state.ResumeTiming();
    threads.parallel_for(2, [](std::size_t, int) { benchmark::ClobberMemory(); });
  }
}
BENCHMARK(bench_parallel_for_after_sleep)->ArgName("threads")->Arg(2)->UseRealTime()->Iterations(200);

}  // namespace
}  // namespace ebb::bench
