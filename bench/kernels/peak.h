// The machine's own ceilings, measured when a benchmark asks for them, so that each figure can stand beside one.
#pragma once

#include <benchmark/benchmark.h>

namespace ebb::bench {

/// Multiply-adds a second of `thread_count` threads at once, float32, with the best instruction set in use.
double peak_macs_per_second(int thread_count);

/// Sets the rate of `macs_per_iteration` as GMAC/s, and as a percentage of the peak of the threads used.
inline void report_macs(benchmark::State& state, double macs_per_iteration, int thread_count) {
  const double macs = macs_per_iteration * static_cast<double>(state.iterations());
  state.counters["GMAC/s"] = benchmark::Counter(macs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["%peak"] =
      benchmark::Counter(100.0 * macs / peak_macs_per_second(thread_count), benchmark::Counter::kIsRate);
}

inline void report_bytes(benchmark::State& state, double bytes_per_iteration) {
  const double bytes = bytes_per_iteration * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
}

}  // namespace ebb::bench
