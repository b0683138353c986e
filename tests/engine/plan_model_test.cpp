// Plans of real files on fake devices. Nothing may be asked of a device but its memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "engine/internal/plan_inputs.h"
#include "engine/planner.h"

namespace ebb::engine {
namespace {

using testing::HasSubstr;

std::filesystem::path tiny_model() { return std::filesystem::path(EBB_VECTORS_DIR) / "gguf" / "t0-base-f32.gguf"; }

EngineOptions tiny_on(const std::string& devices) {
  EngineOptions options;
  options.model = tiny_model();
  options.devices = devices;
  options.fake_page_bytes = 64 * kKiB;
  options.context_tokens = 64;
  options.threads = 1;
  return options;
}

TEST(UsableBytes, AreTheLesserOfBudgetAndWhatIsFreeOrOursAlready_B5) {
  // total, free, ours, others
  const device::MemInfo info{1000, 600, 300, 100};
  EXPECT_EQ(usable_bytes(info, {}, 0, 1), 900U);
  EXPECT_EQ(usable_bytes(info, 500, 0, 1), 500U);
  EXPECT_EQ(usable_bytes(info, 950, 0, 1), 900U);
  EXPECT_EQ(usable_bytes(info, {}, 150, 1), 750U);
  EXPECT_EQ(usable_bytes(info, 800, 150, 1), 750U);
  EXPECT_EQ(usable_bytes(info, {}, 2000, 1), 0U);
  EXPECT_EQ(usable_bytes(info, {}, 0, 64), 896U);
  // More of ours open, or more of others within what the budget leaves: the same answer.
  EXPECT_EQ(usable_bytes({1000, 100, 800, 100}, 500, 0, 1), 500U);
  EXPECT_EQ(usable_bytes({1000, 200, 300, 500}, 500, 0, 1), 500U);
}

TEST(PlanModel, OfATinyModelFitsAndAddsUp) {
  const Result<Plan> plan = plan_model(tiny_on("fake:64MiB,fake:32MiB"));
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(plan->fits);
  EXPECT_EQ(plan->kv_type, "f16");
  EXPECT_GT(plan->mapped_file_bytes, 0U);
  for (const PlanDevice& device : plan->devices) {
    std::size_t sum = 0;
    for (const auto& [kind, bytes] : device.kinds) sum += bytes;
    EXPECT_EQ(sum, device.planned_bytes);
    EXPECT_EQ(device.planned_bytes % (64 * kKiB), 0U);
  }
}

TEST(PlanModel, SaysWhatIsNeededFreeAndToChange_B4) {
  EngineOptions options = tiny_on("fake:256KiB");
  options.gpu_layers = "all";
  const Result<Plan> plan = plan_model(options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_FALSE(plan->fits);
  const Error error = plan_error(*plan);
  EXPECT_EQ(error.code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(error.memory.has_value());
  EXPECT_EQ(error.memory->wanted_bytes, plan->devices[0].planned_bytes);
  EXPECT_EQ(error.memory->free_bytes, 256 * kKiB);
  EXPECT_THAT(error.message, HasSubstr(format_bytes(plan->devices[0].planned_bytes)));
  EXPECT_THAT(error.message, HasSubstr("256.0 KiB may be used"));
  EXPECT_THAT(error.message, HasSubstr("What helps: "));
}

TEST(PlanModel, RefusesWishesThatNoDeviceCouldMeet) {
  const auto message_of = [](const EngineOptions& options) {
    const Result<Plan> plan = plan_model(options);
    return plan ? std::string() : plan.error().message;
  };
  EngineOptions options = tiny_on("fake:64MiB");
  options.context_tokens = 1 << 20;
  EXPECT_THAT(message_of(options), HasSubstr("the model was trained for"));
  options = tiny_on("fake:64MiB");
  options.gpu_layers = "some";
  EXPECT_THAT(message_of(options), HasSubstr("give a number, auto or all"));
  options = tiny_on("fake:64MiB");
  options.main_device = 1;
  EXPECT_THAT(message_of(options), HasSubstr("device 1 is named as the main one; there are 1"));
  options = tiny_on("fake:64MiB");
  options.tensor_split = {1, 1};
  EXPECT_THAT(message_of(options), HasSubstr("2 shares for 1 devices"));
  options = tiny_on("fake:64MiB");
  options.kv_type = "q9";
  EXPECT_THAT(message_of(options), HasSubstr("accepted are f16, bf16, f32, q8_0, q4_0"));
}

}  // namespace
}  // namespace ebb::engine
