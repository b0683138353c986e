#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace ebb::model {
namespace {

Config must(std::string_view json) {
  Result<Config> config = parse_hf_config(json);
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  return config.value_or(Config{});
}

void expect_refused(std::string_view json, ErrorCode code, std::string_view part_of_message) {
  const Result<Config> config = parse_hf_config(json);
  ASSERT_FALSE(config) << json;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_NE(config.error().message.find(part_of_message), std::string::npos) << config.error().message;
}

// The official files leave most fields to the defaults; the 4B's text part states only these.
TEST(HfConfig, FillsInTheDefaultsOfTheOfficial4B) {
  const Config config = must(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
    "intermediate_size": 10240, "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024}})");
  EXPECT_EQ(config.size_name(), "4B");
  EXPECT_EQ(config.q_heads, 8U);
  EXPECT_EQ(config.kv_heads, 4U);
  EXPECT_EQ(config.head_dim, 256U);
  EXPECT_EQ(config.max_context, 131072U);
  EXPECT_EQ(config.rope_factor_global, 8);
  EXPECT_EQ(config.rope_base_global, 1e6);
  EXPECT_EQ(config.rope_base_local, 1e4);
  EXPECT_EQ(config.score_scale, 0.0625);
  EXPECT_EQ(config.global_layers(), 5U);
  EXPECT_FALSE(config.global[4]);
  EXPECT_TRUE(config.global[5]);
  EXPECT_FALSE(config.global[33]);
}

TEST(HfConfig, Reads27BsOwnScoreScaleAndHeadSize) {
  const Config config = must(R"({"model_type": "gemma3", "text_config": {"hidden_size": 5376, "intermediate_size": 21504,
    "num_hidden_layers": 62, "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 16,
    "query_pre_attn_scalar": 168, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "type": "linear"}}})");
  EXPECT_EQ(config.size_name(), "27B");
  EXPECT_NEAR(config.score_scale, 0.0771516750, 1e-9);
  EXPECT_EQ(config.global_layers(), 10U);
  EXPECT_EQ(config.rope_factor_global, 8);
}

TEST(HfConfig, NewRopeFormAndLayerTypesWin) {
  const Config config = must(R"({"model_type": "gemma3_text", "num_hidden_layers": 2, "sliding_window": 8,
    "sliding_window_pattern": 6, "layer_types": ["full_attention", "sliding_attention"],
    "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 500000.0, "factor": 4.0},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}})");
  EXPECT_TRUE(config.global[0]);
  EXPECT_FALSE(config.global[1]);
  EXPECT_EQ(config.rope_base_global, 500000);
  EXPECT_EQ(config.rope_factor_global, 4);
  EXPECT_EQ(config.rope_base_local, 20000);
}

TEST(HfConfig, RefusesWhatItCannotRunByName) {
  expect_refused("[1, 2]", ErrorCode::BadFile, "JSON object");
  expect_refused("{", ErrorCode::BadFile, "JSON object");
  expect_refused(std::string(5000, '['), ErrorCode::BadFile, "nested too deeply");
  expect_refused(R"({"model_type": "llama"})", ErrorCode::Unsupported, "\"llama\"");
  expect_refused(R"({"model_type": 3})", ErrorCode::BadFile, "model_type");
  const auto with = [](std::string_view field) {
    return R"({"model_type": "gemma3_text", "sliding_window": 512, )" + std::string(field) + "}";
  };
  expect_refused(with(R"("num_hidden_layers": -1)"), ErrorCode::BadFile, "num_hidden_layers");
  expect_refused(with(R"("num_hidden_layers": 4000000000)"), ErrorCode::BadFile, "4000000000");
  expect_refused(with(R"("hidden_size": "big")"), ErrorCode::BadFile, "hidden_size");
  expect_refused(with(R"("head_dim": 12)"), ErrorCode::BadFile, "multiple of 8");
  expect_refused(with(R"("num_attention_heads": 6)"), ErrorCode::BadFile, "6 query heads");
  expect_refused(with(R"("query_pre_attn_scalar": 0)"), ErrorCode::BadFile, "query_pre_attn_scalar");
  expect_refused(with(R"("rope_scaling": {"rope_type": "yarn", "factor": 2})"), ErrorCode::Unsupported, "yarn");
  expect_refused(with(R"("rope_scaling": {"rope_type": "linear", "factor": 0})"), ErrorCode::BadFile, "rope factor 0");
  expect_refused(with(R"("layer_types": ["full_attention"])"), ErrorCode::BadFile, "names 1 layers");
  expect_refused(with(R"("layer_types": ["chunked"], "num_hidden_layers": 1)"), ErrorCode::Unsupported, "layer_types");
}

}  // namespace
}  // namespace ebb::model
