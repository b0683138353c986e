#include "engine/internal/kv_choice.h"

#include <gtest/gtest.h>

#include "support/must.h"

namespace ebb::engine {
namespace {

using kernels::KvType;
using kernels::KvTypes;
using tests::must;

model::KvOptions chosen(const std::string& text, bool global_only = false, bool exact = false) {
  EngineOptions options;
  options.kv_type = text;
  options.kv_quantize_global_only = global_only;
  options.exact = exact;
  return must(choose_kv(options));
}

TEST(KvChoice, OneWordIsBothAndASlashSetsThemApart) {
  EXPECT_EQ(chosen("bf16").global, (KvTypes{KvType::BF16, KvType::BF16}));
  const model::KvOptions apart = chosen("q8_0/q4_0");
  EXPECT_EQ(apart.global, (KvTypes{KvType::Q8_0, KvType::Q4_0}));
  EXPECT_EQ(apart.local, apart.global);
}

TEST(KvChoice, NothingSaidIsHalfAndExactIsSingle) {
  EXPECT_EQ(chosen("").global, (KvTypes{KvType::F16, KvType::F16}));
  EXPECT_EQ(chosen("", false, true).global, (KvTypes{KvType::F32, KvType::F32}));
  EXPECT_EQ(chosen("f16", false, true).global, (KvTypes{KvType::F16, KvType::F16})) << "what was said counts";
}

TEST(KvChoice, WindowsKeepHalvesWhereOnlyGlobalLayersArePacked) {
  EXPECT_EQ(chosen("q8_0/bf16", true).local, (KvTypes{KvType::F16, KvType::BF16}));
  EXPECT_EQ(chosen("f32", true).local, (KvTypes{KvType::F32, KvType::F32}));
}

TEST(KvChoice, WordsThatAreNoTypeAreNamed) {
  for (const char* text : {"q5_0", "f16/", "/f16", "f16/q8_0/q8_0", "F16"}) {
    EngineOptions options;
    options.kv_type = text;
    const auto refused = choose_kv(options);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(refused.error().message.find("accepted are f16, bf16, f32, q8_0, q4_0"), std::string::npos);
  }
}

// S4: what has no kernel is refused before anything is loaded.
TEST(KvChoice, HeadsThatBlocksDoNotFitAreRefused) {
  for (const std::size_t head_dim : {64, 96, 128, 256}) {
    for (const char* text : {"f32", "f16", "bf16", "q8_0", "q4_0", "q8_0/q4_0"}) EXPECT_TRUE(check_kv(chosen(text), head_dim));
  }
  EXPECT_TRUE(check_kv(chosen("f16"), 72));
  const Status refused = check_kv(chosen("f16/q4_0", true), 72);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "keys and values in f16/q4_0 need heads of a multiple of 32; this model's have 72 (use -ctk f16 -ctv f16)");
}

TEST(KvChoice, NamesSayWhereLayersDiffer) {
  EXPECT_EQ(kv_name(chosen("f16")), "f16");
  EXPECT_EQ(kv_name(chosen("q8_0/q4_0")), "q8_0/q4_0");
  EXPECT_EQ(kv_name(chosen("q8_0/q4_0", true)), "q8_0/q4_0, windows f16");
}

}  // namespace
}  // namespace ebb::engine
