// Host memory of the real Gemma 3 270M on the CPU over 200 requests under a limit: flat, and every byte has a label
// (M15, M16). A tiny model would prove little: most of its memory is the C library's. EBB_MODEL names the file.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "support/must.h"
#include "support/process_memory.h"

namespace ebb::engine {
namespace {

using tests::must;
using tests::private_bytes;

constexpr int kRequests = 200, kWarmUp = 20;

std::size_t sum_of(const KindBytes& kinds) {
  std::size_t sum = 0;
  for (const auto& [kind, bytes] : kinds) sum += bytes;
  return sum;
}

// Between 95 % (M16) and 105 %, and no more than 128 KiB without a label, or a small kind could be lost in the 5 %. What
// has none are tables and thread data of the dynamic loader: 36 to 48 KiB of 13 MiB with glibc 2.36. What could be
// labelled and not there is heap that was allocated and never written; the engine has none that is large, and the test
// would say so. Between the two readings nothing runs but the engine's idle thread.
constexpr double kLoaderBytes = 128.0 * kKiB;

void expect_labels_add_up(const Engine& engine, int request) {
  const MemoryStatus status = engine.memory();
  const auto anonymous = static_cast<double>(private_bytes());
  const auto labelled = static_cast<double>(sum_of(status.host.program));
  EXPECT_GE(labelled, 0.95 * anonymous) << "request " << request;
  EXPECT_GE(labelled, anonymous - kLoaderBytes) << "request " << request;
  EXPECT_LE(labelled, 1.05 * anonymous) << "request " << request;
  for (const auto& [kind, bytes] : status.host.program) EXPECT_GT(bytes, 0U) << kind;

  // With the pool's half: pages count whole in the kinds and by what was written in the system's count, so here the
  // labels may only be more.
  const DeviceStatus& cpu = status.devices.front();
  EXPECT_EQ(status.host.touched_bytes, cpu.used_by_us_bytes);
  EXPECT_LE(status.host.touched_bytes, sum_of(cpu.kinds) + cpu.pool_bytes);
  EXPECT_GT(status.host.touched_bytes, 0U);
  EXPECT_LE(cpu.held_bytes + status.host.used_bytes, cpu.limit_bytes);
}

TEST(RealModelMemory, RequestsLeaveNothingBehindAndEveryByteHasALabel) {
  if (std::getenv("EBB_MODEL") == nullptr) GTEST_SKIP() << "EBB_MODEL is not set; ./check brings the model";
  if (!tests::has_the_c_librarys_allocator()) GTEST_SKIP() << "a sanitizer's allocator is not the C library's";
  EngineOptions options;
  options.model = std::getenv("EBB_MODEL");
  options.context_tokens = 1024;
  options.memory.memory_limit = {{256 * kMiB, {}}};
  options.memory.host_limit_bytes = 256 * kMiB;
  const std::unique_ptr<Engine> engine = must(Engine::open(options));
  GenerateOptions two_tokens;
  two_tokens.sampling.temperature = 0;
  two_tokens.max_tokens = 2;
  two_tokens.ignore_end = true;
  std::size_t after_warm_up = 0;
  for (int request = 1; request <= kRequests; ++request) {
    std::vector<std::int32_t> prompt = {engine->bos()};
    while (prompt.size() < 8 + static_cast<std::size_t>(request % 5) * 8) prompt.push_back(1000 + request * 31 + static_cast<int>(prompt.size()));
    const auto conversation = must(engine->new_conversation());
    must(conversation->generate(prompt, two_tokens, nullptr, nullptr));
    if (request % 60 == 20) expect_labels_add_up(*engine, request);  // while a chat holds KV
    if (request == kWarmUp) after_warm_up = private_bytes();
  }
  EXPECT_LT(private_bytes(), after_warm_up + static_cast<std::size_t>(kRequests - kWarmUp) * kKiB) << "less than 1 KiB a request";
}

}  // namespace
}  // namespace ebb::engine
