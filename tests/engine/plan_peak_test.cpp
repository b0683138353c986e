// B2: what was planned against the highest use that the fake devices themselves counted, with all planned chats filled to
// the last token. The bound is the promise: never less than the peak, at most 3 % more.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "engine/tiny_engine.h"

namespace ebb {
namespace {

using tests::must;

struct Draw {
  engine::EngineOptions options;
  std::string text;
};

Draw draw(std::mt19937& random) {
  const auto pick = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random);
  };
  const std::vector<std::string> types = {"f16", "f32", "bf16", "f16/f32"};
  const std::vector<std::string> rigs = {"fake:64MiB", "fake:64MiB,fake:64MiB", "fake:64MiB,fake:16MiB", "fake:8MiB,fake:16MiB,fake:8MiB"};
  Draw result{tests::tiny_options(rigs[pick(0, rigs.size() - 1)]), ""};
  result.options.fake_page_bytes = std::size_t{4096} << pick(0, 4);
  result.options.context_tokens = pick(2, 200);
  result.options.chunk_tokens = pick(1, 64);
  result.options.parallel = pick(1, 3);
  result.options.kv_type = types[pick(0, types.size() - 1)];
  result.options.memory = tests::hands_off();
  result.text = result.options.devices + ", page " + std::to_string(result.options.fake_page_bytes) + ", context " +
                std::to_string(result.options.context_tokens) + ", chunk " + std::to_string(result.options.chunk_tokens) + ", chats " +
                std::to_string(result.options.parallel) + ", " + result.options.kv_type;
  return result;
}

TEST(PlanAndPeak, DifferByAtMostThreePercentAndNeverTheWrongWay_B2) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const Draw drawn = draw(random);
    SCOPED_TRACE(drawn.text);
    const auto engine = must(engine::Engine::open(drawn.options));
    const engine::Plan& plan = engine->plan();
    ASSERT_EQ(plan.context, drawn.options.context_tokens);
    std::vector<std::unique_ptr<engine::Conversation>> chats;
    for (std::size_t idx = 0; idx < drawn.options.parallel; ++idx) {
      chats.push_back(must(engine->new_conversation()));
      must(chats.back()->sync(tests::prompt_of(plan.context, static_cast<std::int32_t>(idx)), nullptr));
    }
    for (const engine::PlanDevice& device : plan.devices) {
      const std::size_t peak = tests::fake(*engine, device.index).status().ours_peak_bytes;
      EXPECT_GE(device.planned_bytes, peak) << "device " << device.index;
      EXPECT_LE(static_cast<double>(device.planned_bytes), 1.03 * static_cast<double>(peak)) << "device " << device.index;
    }
    const std::size_t host = engine->state().pools->ledger().snapshot().devices[memory::kHostMemory].peak_bytes - plan.mapped_file_bytes;
    EXPECT_GE(plan.host_planned_bytes, host);
  }
}

}  // namespace
}  // namespace ebb
