// The commands, one file each. Each takes the settled options and returns the exit code, or an error for program.cpp to
// report.
#pragma once

#include "base/error.h"
#include "cli/options.h"

namespace ebb::cli {

[[nodiscard]] Result<int> run_once(const Options& options);
[[nodiscard]] Result<int> run_chat(const Options& options);
[[nodiscard]] Result<int> run_tokenize(const Options& options);
[[nodiscard]] Result<int> run_perplexity(const Options& options);
[[nodiscard]] Result<int> run_bench_speed(const Options& options);
[[nodiscard]] Result<int> run_memory(const Options& options);
[[nodiscard]] Result<int> run_bench_memory(const Options& options);
[[nodiscard]] Result<int> run_soak(const Options& options);
[[nodiscard]] Result<int> run_plan(const Options& options);
[[nodiscard]] Result<int> run_doctor(const Options& options);
[[nodiscard]] Result<int> run_list_devices(const Options& options);

}  // namespace ebb::cli
